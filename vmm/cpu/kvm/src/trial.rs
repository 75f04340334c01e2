//! Guests of the engine's own, without a kernel: what is found out of a host before it runs others'.
//!
//! Called by `belljar doctor` and each run under this engine, and by the first vCPU that is made.

/// A machine without a kernel.
pub(crate) mod bare;
/// What entering and leaving a guest costs.
mod calibrate;
/// Whether KVM can carry a kernel.
pub(crate) mod probe;
