//! Runs: from the caller's request to the exit that it gets.
//!
//! A run begins and ends at an instruction boundary. The `Vcpu` trait of `belljar-cpu` is how others come here.

/// The run loop.
pub(crate) mod dispatch;
/// What tests and tools look at.
pub(crate) mod inspect;
/// The `Vcpu` trait.
pub(crate) mod interface;
/// A vCPU's state as it is stored in checkpoints.
pub(crate) mod saved;
/// One turn of the run loop: its state, and what holds for the next instruction alone.
pub(crate) mod turn;
/// One visit to translated code, and what its exit asks for.
pub(crate) mod visit;
