//! Decoding of a call's words: functions, arguments, collective operations, implementations.
//!
//! All data is read from the guest's memory and may be wrong; unreadable data is omitted and marked. Used by `process`
//! when calls are entered and left.

/// The effect of each function.
pub(crate) mod action;
/// The arguments of a call.
pub(crate) mod arguments;
/// Amounts sent and received in collective operations.
pub(crate) mod collective;
/// Handles and statuses in each implementation's memory layout.
pub(crate) mod implementation;
