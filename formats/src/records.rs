//! A trace as records that other formats have: messages with their peers, requests, collective operations, accesses to windows.
//!
//! A [`Source`] reads a trace call by call and only keeps processes, communicators and open requests, independent of the trace's size. The writers of `chrome`,
//! `otf2`, `paraver`, `perfetto` and `tables` read it.

/// A call and its records.
pub(crate) mod calls;
/// The operations of collective calls.
pub(crate) mod collective;
/// Named values that describe a call.
pub(crate) mod described;
/// Errors of exports.
mod error;
/// Counts of data that a format cannot hold.
mod left_out;
/// Numbers of messages.
mod numbers;
/// Processes, threads, communicators and windows, by number.
pub(crate) mod places;
/// A trace, call by call.
pub(crate) mod source;

pub use calls::{Collected, ExportedCall, ExportedMessage, Other, Record, Root};
pub use error::ExportError;
pub(crate) use error::failed;
pub use left_out::LeftOut;
pub use places::{ExportedCommunicator, ExportedThread, Places, Window};
pub use source::Source;
