//! The operations of an MPI job, from the events of its trace.
//!
//! An event describes a call as its process saw it. [`Operations`] reads events in trace order and reports [`Fact`]s:
//! operations that begin, match, meet and complete, with every request, window, epoch and turn followed once for all
//! readers. [`Communicators`] gives the members of communicators, and [`Expansion`] the messages of collective
//! operations. Readers hold the trace and store their own results; nothing here is written to a trace. Memory is
//! bounded for hostile traces: operations beyond a limit are reported as [`Fact::Lost`]. Called by analyses, exports
//! and replay.

/// The members of communicators.
mod communicators;
/// The messages of collective operations.
mod expansion;
/// The time between the start and the end of MPI.
mod main_part;
/// Matching of sends and receives.
mod matching;
/// Operations from their begin to their completion.
mod operations;

pub use communicators::{
    Collector, Communicators, Member, Members, ProcessKey, communicators, communicators_in,
    communicators_untimed,
};
pub use expansion::stated::each as each_given;
pub use expansion::{Expanded, Expansion, Unknown as UnknownCall};
pub use main_part::MainPart;
pub use matching::{Channel, ReceiveSelector};
pub use operations::Operations;
pub use operations::fact::{
    Completer, Fact, Locking, Loss, MeetingId, MeetingPart, Operation, OperationId, Origin, Signal,
    Turns, WindowId,
};
