//! What a run records of MPI: events and the objects that they name.
//!
//! An [`Event`] is one call, in its process's own numbers. Nothing here knows of guests, and nothing is concluded:
//! events are made by `belljar-tracer`, `belljar-archive` writes and reads files of them, and what follows from
//! all of them together is worked out by `belljar-analysis`.
//!
//! From top to bottom: `file` is what the file's versions have in common; `saved` is events in a checkpoint;
//! `event` has calls, `probe` those that probes of the user's see, `object`, `site` and `launch` what they name; `codec`, `account`, `counters` and `datatypes` are
//! below all; `polls` says what folded calls are, and its `fold` makes them of events. None imports one above it.

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
/// What versions of the trace file have in common.
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
/// What probes of the user's own record.
mod probe;
/// Events as bytes.
mod saved;
/// Where in a program a call was made.
mod site;

pub use account::{Account, Accounts};
pub use counters::{Counters, NodeSummary, ProcessInfo, TraceSummary, Warnings};
pub use datatypes::Predefined;
pub use event::details::{Bounds, Detailed, Details, UngroupedDetails, UnnumberedDetails};
pub use event::earlier::EarlierEvent;
pub use event::{
    Amount, Collective, Completion, Direction, Ending, Event, GivenUp, Phase, Share, Status, Text,
    Transfer, TransferKind, Who,
};
pub use file::{
    EARLIEST_VERSION, MAGIC, TRACE_FILE, TraceError, TraceHeader, TraceState, UNCOUNTED_VERSION,
    UNEXPLAINED_VERSION, UNGROUPED_VERSION, VERSION,
};
pub use implementation::{Implementation, MpiLibrary, Peer, UNDEFINED, standard_abi};
pub use launch::Launch;
pub use object::{
    Datatype, Fact, GroupMembers, Making, NewCommunicator, SELF, ScheduledCall, WORLD,
};
pub use pattern::matches;
pub use polls::fold::Folder;
pub use polls::{Folded, MOST_POLLS, Polls};
pub use probe::{
    MESSAGE, MOST_PROBE_ARGUMENTS, MOST_PROBE_TEXT, MOST_PROBES, MessageWord, PROBES_FILE, Probe,
    ProbeAt, ProbePurpose, ProbeRecord, ProbeValue, ProbesEnd, Recorded, UnknownKind, ValueKind,
};
pub use saved::{
    SavedSites, StateError, Unencoded, give_back, load_events, load_probes, load_sites,
    load_summaries, save_events, save_probes, save_sites, save_summaries, unencoded,
};
pub use site::{CallStack, CodeFile, Frame, MOST_FRAMES, NewSites, Site, SiteNumbers, Sites};
