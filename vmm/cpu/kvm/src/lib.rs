//! The kvm engine: guests on the processor's own virtualisation, in virtual time.
//!
//! A [`Machine`] is a node's memory under KVM, a [`KvmVcpu`] one of its processors. KVM
//! keeps nothing but processors: interrupt controllers, timers and clocks are the node's
//! devices, as under every engine. A guest's time stamp counter runs while the guest does
//! and stands while it does not; what does not work out in that is measured.
//!
//! Rooms, of which each imports those above it alone: `host` is KVM on this host, `exits` and `state`
//! are what goes over the border as plain values, `vcpu` takes a guest over it and back, `trial` tries
//! guests of its own. Making a vCPU asks `trial` what that measured, once in a process.

/// What KVM says of an exit, and what it means.
mod exits;
/// This host's KVM: its capabilities, machines, and the means by which guests run.
mod host;
/// What a vCPU's state is for KVM, and for the rest of Belljar.
mod state;
/// Guests of the engine's own: what entries cost, and whether KVM can carry a kernel.
mod trial;
/// A vCPU from one exit to the next.
mod vcpu;

pub use host::breakpoints::Breakpoints;
pub use host::ioctl::RUNNING_IOCTLS;
pub use host::machine::Machine;
pub use host::means::{Means, Wanted};
pub use host::tsc::TscControl;
pub use host::{Host, HostError};
pub use trial::probe::{Probe, ProbeError, probe};
pub use vcpu::saved::ENGINE_NAME;
pub use vcpu::{KvmConfig, KvmVcpu};
