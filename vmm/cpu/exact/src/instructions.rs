//! Instructions and events that are executed in Rust.
//!
//! Each handler executes an instruction completely, or returns the exception or the exit to the
//! caller. `run` calls them.

/// The budget in MM7 while the guest does not use the x87.
pub(crate) mod apart;
/// The x87's functions, as the engine defines them.
pub(crate) mod defined;
/// The results of instructions executed in Rust.
pub(crate) mod done;
/// Exceptions and interrupts, delivered through the IDT.
pub(crate) mod exception;
/// Instructions that translated code does not execute itself.
pub(crate) mod system;
