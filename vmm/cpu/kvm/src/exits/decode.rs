//! Decodes KVM's exits: free functions over plain values.
//!
//! This module does not use KVM, so tests cover exits that no host produces on demand. `page` reads
//! a `RawExit` from the shared page, `decode` returns its `Meaning`, and `vcpu` acts on that.

use belljar_cpu::{Exit, ShutdownCause};
use kvm_bindings::KVM_EXIT_EXCEPTION;

use crate::host::msr::MSR_TSC;

const DOUBLE_FAULT: u8 = 8;
const ALIGNMENT_CHECK: u32 = 17;

/// An exit as KVM describes it, copied out of the shared page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawExit {
    /// `IN`, `OUT` or their string forms.
    Io(Io),
    /// A load from an address without memory.
    MmioRead { address: u64, len: u32 },
    /// A store to an address without memory.
    MmioWrite { address: u64, len: u32, data: u64 },
    /// `RDMSR` of a register that KVM does not emulate.
    ReadMsr { index: u32 },
    /// `WRMSR` of such a register.
    WriteMsr { index: u32, value: u64 },
    /// `HLT`.
    Halt,
    /// A breakpoint of this engine: the exception, and its linear address.
    Debug { exception: u32, at: u64 },
    /// An exception that the host's kernel reflects to user space: on Intel's processors, the one
    /// for locks across cache lines, which it forbids.
    Exception { vector: u32 },
    /// The requested window is open.
    Window,
    /// CR8 was lowered.
    TaskPriority,
    /// A triple fault.
    Shutdown,
    /// A signal, or nothing at all.
    Interrupted,
    /// KVM cannot emulate an instruction.
    NotEmulated { suberror: u32 },
    /// The processor refused to enter the guest.
    Refused { reason: u64 },
    /// An exit that the configuration never enables.
    Unexpected(u32),
}

/// A transfer of `count` items to or from a port; `done` items are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Io {
    pub input: bool,
    pub port: u16,
    /// Bytes of an item.
    pub size: u8,
    pub count: u32,
    pub done: u32,
}

impl Io {
    /// True if items remain.
    pub(crate) fn goes_on(&self) -> bool {
        self.done < self.count
    }

    /// The next item as an exit; `data` is the value that an `OUT` writes.
    pub(crate) fn exit(&self, data: u32) -> Exit {
        if self.input {
            Exit::PioRead {
                port: self.port,
                len: self.size,
            }
        } else {
            Exit::PioWrite {
                port: self.port,
                len: self.size,
                data,
            }
        }
    }
}

/// The meaning of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// An exit for the caller.
    Exit(Exit),
    /// A transfer, item by item.
    Transfer(Io),
    /// The guest sets its time stamp counter.
    SetTsc(u64),
    /// A watched instruction, at this linear address, is about to be executed.
    Breakpoint(u64),
    /// Nothing to do: continue.
    Nothing,
    /// A failure of the host.
    Failure(Failure),
}

/// Failures of KVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Entry(u64),
    SplitLock,
    Unexpected(u32),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Entry(reason) => write!(
                f,
                "the processor refused the guest's state (hardware entry failure {reason:#x})"
            ),
            Self::SplitLock => f.write_str(
                "the guest locked memory across two cache lines, which this host forbids; boot the host without split_lock_detect=fatal",
            ),
            Self::Unexpected(reason) => {
                write!(
                    f,
                    "KVM came back with exit reason {reason}, which was not asked for"
                )
            }
        }
    }
}

/// The meaning of `raw` for a processor whose instruction pointer is `rip`.
pub(crate) fn decode(raw: &RawExit, rip: u64) -> Meaning {
    let exit = match *raw {
        RawExit::Io(io) => return Meaning::Transfer(io),
        RawExit::MmioRead { address, len } => Exit::MmioRead {
            addr: address,
            len: width(len),
        },
        RawExit::MmioWrite { address, len, data } => Exit::MmioWrite {
            addr: address,
            len: width(len),
            data: data & u64::MAX >> (64 - 8 * u32::from(width(len))),
        },
        RawExit::ReadMsr { index } => Exit::MsrRead { index },
        RawExit::WriteMsr {
            index: MSR_TSC,
            value,
        } => return Meaning::SetTsc(value),
        RawExit::WriteMsr { index, value } => Exit::MsrWrite { index, value },
        RawExit::Halt => Exit::Halt,
        RawExit::Debug { at, .. } => return Meaning::Breakpoint(at),
        RawExit::Exception {
            vector: ALIGNMENT_CHECK,
        } => return Meaning::Failure(Failure::SplitLock),
        RawExit::Exception { .. } => {
            return Meaning::Failure(Failure::Unexpected(KVM_EXIT_EXCEPTION));
        }
        RawExit::Window => Exit::InterruptWindow,
        RawExit::TaskPriority | RawExit::Interrupted => return Meaning::Nothing,
        RawExit::Shutdown => Exit::Shutdown(ShutdownCause::TripleFault {
            vector: DOUBLE_FAULT,
            rip,
        }),
        RawExit::NotEmulated { .. } => Exit::Shutdown(ShutdownCause::NotEmulated { rip }),
        RawExit::Refused { reason } => return Meaning::Failure(Failure::Entry(reason)),
        RawExit::Unexpected(reason) => return Meaning::Failure(Failure::Unexpected(reason)),
    };
    Meaning::Exit(exit)
}

/// A width in bytes, which KVM gives as 1 to 8.
fn width(len: u32) -> u8 {
    len.clamp(1, 8) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_cut_to_their_width() {
        let raw = RawExit::MmioWrite {
            address: 0xfee0_00b0,
            len: 4,
            data: u64::MAX,
        };
        let expected = Exit::MmioWrite {
            addr: 0xfee0_00b0,
            len: 4,
            data: 0xffff_ffff,
        };
        assert_eq!(decode(&raw, 0), Meaning::Exit(expected));
        let raw = RawExit::MmioWrite {
            address: 1,
            len: 8,
            data: u64::MAX,
        };
        let Meaning::Exit(Exit::MmioWrite { data, .. }) = decode(&raw, 0) else {
            panic!("not a store")
        };
        assert_eq!(data, u64::MAX);
    }

    #[test]
    fn the_clock_is_ours_and_other_registers_are_the_callers() {
        let write = |index| RawExit::WriteMsr { index, value: 7 };
        assert_eq!(decode(&write(MSR_TSC), 0), Meaning::SetTsc(7));
        let deadline = Exit::MsrWrite {
            index: 0x6e0,
            value: 7,
        };
        assert_eq!(decode(&write(0x6e0), 0), Meaning::Exit(deadline));
    }

    #[test]
    fn a_string_goes_item_by_item() {
        let mut io = Io {
            input: false,
            port: 0x3f8,
            size: 2,
            count: 2,
            done: 0,
        };
        assert!(io.goes_on());
        let expected = Exit::PioWrite {
            port: 0x3f8,
            len: 2,
            data: 9,
        };
        assert_eq!(io.exit(9), expected);
        io.done = 2;
        assert!(!io.goes_on());
    }

    #[test]
    fn what_nobody_asked_for_is_told_with_its_number() {
        let Meaning::Failure(failure) = decode(&RawExit::Unexpected(40), 0) else {
            panic!("taken for something")
        };
        assert!(failure.to_string().contains("40"));
        let told = |vector| match decode(&RawExit::Exception { vector }, 0) {
            Meaning::Failure(failure) => failure.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(told(17).contains("split_lock_detect"));
        assert!(told(18).contains("exit reason 1,"));
        let end = decode(&RawExit::NotEmulated { suberror: 1 }, 0x77);
        let cause = ShutdownCause::NotEmulated { rip: 0x77 };
        assert_eq!(end, Meaning::Exit(Exit::Shutdown(cause)));
    }
}
