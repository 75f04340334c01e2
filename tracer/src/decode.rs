//! What a call's words mean: functions, arguments, collective operations, implementations.
//!
//! Everything is read from the guest's memory and may be wrong; what cannot be read is left out and said so.
//! Called by `process` when calls are entered and left.

/// What each function does.
pub(crate) mod action;
/// The arguments of a call.
pub(crate) mod arguments;
/// What collective operations give and get.
pub(crate) mod collective;
/// Handles and statuses as each implementation has them in memory.
pub(crate) mod implementation;
