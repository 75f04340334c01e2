//! Runs: from the caller's request to the resulting exit.
//!
//! A run begins and ends at an instruction boundary. Callers use the `Vcpu` trait of `belljar-cpu`.

/// The run loop.
pub(crate) mod dispatch;
/// State for tests and tools.
pub(crate) mod inspect;
/// The `Vcpu` trait.
pub(crate) mod interface;
/// Following the guest's path under a processor model.
pub(crate) mod path;
/// A vCPU's state as it is stored in checkpoints.
pub(crate) mod saved;
/// A turn of the run loop: its state, and conditions for the next instruction only.
pub(crate) mod turn;
/// A visit to translated code, and the handling of its exits.
pub(crate) mod visit;
