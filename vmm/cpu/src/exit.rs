//! Why a vCPU came back to its caller.
//!
//! At an exit the guest stands at an instruction boundary as far as anybody can see: an instruction
//! that asks is done after the answer. Engines return it from `Vcpu::run`, the node's run loop acts
//! on it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Cycles;

/// The reason for which [`Vcpu::run`](crate::Vcpu::run) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The virtual clock reached the cycle asked for.
    Deadline,
    /// `HLT`. With `RFLAGS.IF` clear nothing but a reset ends it.
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
    /// `RDMSR` of a register that the engine does not keep (the local APIC's, say).
    MsrRead {
        /// MSR number.
        index: u32,
    },
    /// `WRMSR` of a register that the engine does not keep. Complete unless refused
    /// with [`Vcpu::refuse_msr`](crate::Vcpu::refuse_msr) before the next run.
    MsrWrite {
        /// MSR number.
        index: u32,
        /// Value written.
        value: u64,
    },
    /// The guest moved CR8 (task priority); complete.
    TaskPriority,
    /// The window asked for with `request_interrupt_window` is open.
    InterruptWindow,
    /// A magic CPUID of the preloaded library, at its fixed address; not yet
    /// executed. Ends with [`Vcpu::complete_magic`](crate::Vcpu::complete_magic).
    Magic {
        /// The virtual time of the call.
        at: Cycles,
    },
    /// A user's code came to a probe, and the instruction there is done, so that it was come
    /// to once, whatever interrupts and faults there were:
    /// [`Vcpu::probed`](crate::Vcpu::probed) tells what was before it.
    Probe {
        /// The probe's number.
        probe: u32,
    },
    /// A user's code came to an address that was asked for with
    /// [`Vcpu::watch_return`](crate::Vcpu::watch_return); the instruction there is yet to
    /// come. It may be told again when an interrupt or a fault comes first.
    Return {
        /// The virtual time.
        at: Cycles,
    },
    /// The processor cannot continue.
    Shutdown(ShutdownCause),
}

/// What brought a processor down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShutdownCause {
    /// A fault while delivering a double fault.
    TripleFault {
        /// The vector of the first exception of the chain.
        vector: u8,
        /// RIP at that exception.
        rip: u64,
    },
    /// An instruction that the engine cannot carry out.
    NotEmulated {
        /// Where it is.
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
