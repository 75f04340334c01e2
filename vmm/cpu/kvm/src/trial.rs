//! Trial guests without a kernel: they measure and check a host before it runs other guests.
//!
//! Used by `belljar doctor`, by each run under this engine, and by the first vCPU of a process.

/// A machine without a kernel.
pub(crate) mod bare;
/// The cost of entering and leaving a guest.
mod calibrate;
/// Checks that KVM can run a kernel.
pub(crate) mod probe;
