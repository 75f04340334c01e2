//! The guest as the tracer sees it: registers of a vCPU, and memory.
//!
//! Nothing read from the guest is trusted. Used by all other modules.

/// The guest's memory.
pub(crate) mod memory;
/// A vCPU's registers.
pub(crate) mod registers;
