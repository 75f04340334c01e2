//! The kvm engine: guests on the processor's own virtualisation, in virtual time.
//!
//! A [`Machine`] is a node's memory under KVM, a [`KvmVcpu`] one of its processors. KVM
//! keeps nothing but processors: interrupt controllers, timers and clocks are the node's
//! devices, as under every engine. A guest's time stamp counter runs while the guest does
//! and stands while it does not; what does not work out in that is measured.

mod bare;
mod breakpoints;
mod calibrate;
mod calls;
mod clock;
mod cpuid;
mod decode;
mod history;
mod host;
mod interface;
mod ioctl;
mod machine;
mod means;
mod msr;
mod page;
mod preempt;
mod probe;
mod registers;
mod saved;
mod tsc;
mod vcpu;
mod walk;
mod xstate;

pub use breakpoints::Breakpoints;
pub use host::{Host, HostError};
pub use ioctl::RUNNING_IOCTLS;
pub use machine::Machine;
pub use means::{Means, Wanted};
pub use probe::{Probe, ProbeError, probe};
pub use saved::ENGINE_NAME;
pub use tsc::TscControl;
pub use vcpu::{KvmConfig, KvmVcpu};
