//! Reasons for a vCPU's return to its caller.
//!
//! At an exit the guest is visibly at an instruction boundary: an instruction that reads from the
//! caller completes after the answer. Engines return exits from `Vcpu::run`, and the node's run
//! loop handles them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Cycles;

/// The reason for which [`Vcpu::run`](crate::Vcpu::run) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The virtual clock reached the requested cycle.
    Deadline,
    /// `HLT`. With `RFLAGS.IF` clear, only a reset ends it.
    Halt,
    /// An `IN`: answer with the `len` bytes (1, 2 or 4) read from `port`.
    PioRead {
        /// I/O port.
        port: u16,
        /// Width in bytes.
        len: u8,
    },
    /// An `OUT`, complete.
    PioWrite {
        /// I/O port.
        port: u16,
        /// Width in bytes.
        len: u8,
        /// The value, in the low `len` bytes.
        data: u32,
    },
    /// A load from a guest-physical address that is not RAM: answer with its value.
    MmioRead {
        /// Guest-physical address.
        addr: u64,
        /// Width in bytes, 1 to 8.
        len: u8,
    },
    /// A store to a guest-physical address that is not RAM, complete.
    MmioWrite {
        /// Guest-physical address.
        addr: u64,
        /// Width in bytes, 1 to 8.
        len: u8,
        /// The value, in the low `len` bytes.
        data: u64,
    },
    /// `RDMSR` of a register outside the engine, such as the local APIC's.
    MsrRead {
        /// MSR number.
        index: u32,
    },
    /// `WRMSR` of a register outside the engine. Complete unless refused with
    /// [`Vcpu::refuse_msr`](crate::Vcpu::refuse_msr) before the next run.
    MsrWrite {
        /// MSR number.
        index: u32,
        /// Value written.
        value: u64,
    },
    /// The guest moved CR8 (task priority); complete.
    TaskPriority,
    /// The window requested with `request_interrupt_window` is open.
    InterruptWindow,
    /// A magic CPUID of the preloaded library, at its fixed address; not yet executed. Continue
    /// with [`Vcpu::complete_magic`](crate::Vcpu::complete_magic).
    Magic {
        /// The virtual time of the call.
        at: Cycles,
    },
    /// User code reached a probe, and the instruction there has been executed, so each arrival is
    /// reported once, regardless of interrupts and faults. [`Vcpu::probed`](crate::Vcpu::probed)
    /// has the state before the instruction.
    Probe {
        /// The probe's number.
        probe: u32,
    },
    /// The guest reached an address watched with [`Vcpu::watch_return`](crate::Vcpu::watch_return)
    /// or [`Vcpu::set_breakpoints`](crate::Vcpu::set_breakpoints);
    /// the instruction there has not been executed. The exit may repeat if an interrupt or a fault
    /// comes first.
    Return {
        /// The virtual time.
        at: Cycles,
    },
    /// The last instruction accessed a range of [`Vcpu::set_watchpoints`](crate::Vcpu::set_watchpoints).
    Watchpoint {
        /// The number of the watchpoint in that list.
        number: u32,
        /// True for a store.
        write: bool,
    },
    /// The last instruction accessed a buffer of [`Vcpu::set_watched_buffers`](crate::Vcpu::set_watched_buffers);
    /// [`Vcpu::buffer_access`](crate::Vcpu::buffer_access) has the access.
    Buffer,
    /// The processor cannot continue.
    Shutdown(ShutdownCause),
}

/// The cause of a processor's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShutdownCause {
    /// A fault while delivering a double fault.
    TripleFault {
        /// The vector of the first exception of the chain.
        vector: u8,
        /// RIP at that exception.
        rip: u64,
    },
    /// The engine cannot execute an instruction.
    NotEmulated {
        /// Its address.
        rip: u64,
    },
}

impl fmt::Display for ShutdownCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TripleFault { vector, rip } => {
                write!(f, "triple fault, after exception {vector} at rip {rip:#x}")
            }
            Self::NotEmulated { rip } => {
                write!(f, "the engine cannot carry out what is at rip {rip:#x}")
            }
        }
    }
}
