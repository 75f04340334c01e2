//! Instructions and events that are carried out in Rust.
//!
//! Each is done whole or says what it raises, or whom to ask first. `run` is the caller.

/// The budget in MM7 while the guest does not use the x87.
pub(crate) mod apart;
/// The x87's functions, as the engine defines them.
pub(crate) mod defined;
/// How an instruction that is carried out in Rust ended.
pub(crate) mod done;
/// Exceptions and interrupts, delivered through the IDT.
pub(crate) mod exception;
/// Instructions that translated code does not do by itself.
pub(crate) mod system;
