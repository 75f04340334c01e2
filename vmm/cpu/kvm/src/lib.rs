//! The kvm engine: guests on the processor's hardware virtualisation, in virtual time.
//!
//! A [`Machine`] is a node's memory under KVM, a [`KvmVcpu`] one of its processors. KVM only emulates
//! processors: interrupt controllers, timers and clocks are the node's devices, as under every engine.
//! A guest's time stamp counter runs while the guest runs and stops when it stops; the remaining error
//! is measured.
//!
//! Each module imports only earlier ones in this list: `host` is KVM on this host, `exits` and `state`
//! convert values at the interface, `vcpu` enters and leaves a guest, `trial` runs trial guests.
//! Creating a vCPU queries the measurements of `trial`, which are made once in a process.

/// Exits of KVM and their meaning.
mod exits;
/// This host's KVM: its capabilities, machines, and alternative mechanisms.
mod host;
/// Conversions of a vCPU's state between KVM's form and Belljar's.
mod state;
/// Trial guests: they measure the cost of entries, and check that KVM can run a kernel.
mod trial;
/// A vCPU from one exit to the next.
mod vcpu;

pub use host::breakpoints::Breakpoints;
pub use host::ioctl::RUNNING_IOCTLS;
pub use host::machine::Machine;
pub use host::means::{Means, RequestedMeans};
pub use host::tsc::TscControl;
pub use host::{Host, HostError};
pub use trial::probe::{Probe, ProbeError, probe};
pub use vcpu::saved::ENGINE_NAME;
pub use vcpu::{KvmConfig, KvmVcpu};
