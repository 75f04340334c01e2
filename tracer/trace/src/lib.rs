//! What a run records of MPI: events, the objects that they name, and the file that holds them.
//!
//! An [`Event`] is one call, in its process's own numbers. A [`TraceWriter`] stores events in the order of
//! their recording, and a [`TraceReader`] gives them back one by one, as far as a damaged or unfinished file
//! is whole. Nothing here knows of guests, and nothing is concluded: events are made by `belljar-tracer`, and
//! what follows from all of them together is worked out by `belljar-analysis`.
//!
//! ```no_run
//! # fn main() -> Result<(), belljar_trace::TraceError> {
//! use belljar_trace::{TraceReader, TraceState};
//!
//! let mut trace = TraceReader::open("trace.bjt".as_ref())?;
//! let clocks = trace.header().clone();
//! for event in trace.by_ref() {
//!     let entered = clocks.frequency(event.node).time_of(event.entry);
//!     println!("{entered:?} rank {}: {}", event.rank, event.name());
//! }
//! assert_eq!(*trace.state(), TraceState::Complete);
//! # Ok(())
//! # }
//! ```
//!
//! The format is described field by field in `docs/trace-format.md`.
//!
//! From top to bottom: `file` reads and writes; `saved` is a writer's state in a checkpoint; `event` has calls,
//! `object` and `launch` what they name; `codec`, `account`, `counters` and `datatypes` are below all. None imports one
//! above it.

/// What a node's time went into.
mod account;
/// The binary encoding of records.
pub mod codec;
/// Calls and oddities that are counted, and the end of a trace.
mod counters;
/// Predefined datatypes.
pub mod datatypes;
/// One call of an MPI function.
mod event;
/// The trace file: format, reader, writer.
mod file;
/// MPI implementations and their numbers.
mod implementation;
/// The job of a process, in its launcher's words.
mod launch;
/// Communicators, groups and datatypes, as a process's calls tell of them.
mod object;
/// Patterns for names of functions.
mod pattern;
/// Calls by which programs wait in loops.
mod polls;
/// Events and a writer's state as bytes.
mod saved;

pub use account::{Account, Accounts};
pub use counters::{Counters, NodeSummary, ProcessInfo, TraceSummary, Warnings};
pub use event::{
    Amount, Collective, Completion, Direction, Ending, Event, Phase, Share, Status, Text, Transfer,
    Who,
};
pub use file::{
    MAGIC, TRACE_FILE, TraceError, TraceHeader, TraceReader, TraceState, TraceWriter, VERSION,
    VERSION_WITH_ACCOUNTS,
};
pub use implementation::{Implementation, Peer, UNDEFINED};
pub use launch::Launch;
pub use object::{Datatype, Fact, GroupMembers, Making, NewCommunicator, SELF, WORLD};
pub use pattern::matches;
pub use polls::is_poll;
pub use saved::{StateError, load_events, load_summaries, save_events, save_summaries};
