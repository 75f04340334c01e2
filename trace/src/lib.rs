//! A run's records of MPI: events and the objects that they refer to.
//!
//! An [`Event`] is one call, in its process's own numbers. This crate neither accesses guests nor analyses events: `belljar-tracer` creates events,
//! `belljar-archive` writes and reads files of them, and `belljar-analysis` analyses them.
//!
//! From top to bottom: `file` has the common parts of the file's versions. `saved` encodes events in a checkpoint. `event` has calls, and `probe` has records of
//! the user's probes. `object`, `site` and `launch` have the objects that both refer to. `codec`, `account`, `counters` and `datatypes` are below all. `polls`
//! describes folded calls, and its `fold` creates them from events. No module imports one above it.

/// Accounts of a node's time.
mod account;
/// The binary encoding of records.
pub mod codec;
/// Counters of calls and warnings, and the end of a trace.
mod counters;
/// Predefined datatypes.
pub mod datatypes;
/// One call of an MPI function.
mod event;
/// Common parts of all versions of the trace file.
mod file;
/// MPI implementations and their numbers.
mod implementation;
/// The job of a process, as its launcher names it.
mod launch;
/// Processes that have ended.
mod lost;
/// Communicators, groups and datatypes, as a process's calls define them.
mod object;
/// Patterns for names of functions.
mod pattern;
/// Calls that programs repeat in loops to wait.
mod polls;
/// Records of the user's probes.
mod probe;
/// Events as bytes.
mod saved;
/// Call sites.
mod site;
/// Contents of datatypes, and datatypes of collective operations.
mod typed;

pub use account::{Account, Accounts};
pub use counters::{Counters, NodeSummary, ProcessInfo, TraceSummary, Warnings};
pub use datatypes::Predefined;
pub use event::details::{
    Bounds, Detailed, Details, UngroupedDetails, UnnumberedDetails, UntypedDetails,
};
pub use event::earlier::EarlierEvent;
pub use event::{
    Amount, Collective, Completion, Direction, Ending, Event, GivenUp, Phase, Share, Status, Text,
    Transfer, TransferKind, Who,
};
pub use file::{
    EARLIEST_VERSION, LATEST_VERSION, MAGIC, MODELLED_VERSION, TRACE_FILE, TYPED_VERSION,
    TraceError, TraceHeader, TraceState, UNCOUNTED_VERSION, UNEXPLAINED_VERSION, UNGROUPED_VERSION,
    VERSION,
};
pub use implementation::{Implementation, MpiLibrary, Peer, UNDEFINED, standard_abi};
pub use launch::Launch;
pub use lost::{LOST_FILE, LostProcess};
pub use object::{
    Datatype, Fact, GroupMembers, Making, NewCommunicator, SELF, ScheduledCall, WORLD,
};
pub use pattern::matches;
pub use polls::fold::Folder;
pub use polls::{Folded, MOST_POLLS, Polls};
pub use probe::{
    BUFFER_ACCESS, BufferAccessWord, MESSAGE, MOST_PROBE_ARGUMENTS, MOST_PROBE_TEXT, MOST_PROBES,
    MessageWord, PROBES_FILE, Probe, ProbeAt, ProbePurpose, ProbeRecord, ProbeValue, ProbesEnd,
    Recorded, UnknownKind, ValueKind,
};
pub use saved::{
    SavedSites, StateError, Unencoded, give_back, load_events, load_probes, load_sites,
    load_summaries, save_events, save_probes, save_sites, save_summaries, unencoded,
};
pub use site::{CallStack, CodeFile, Frame, MOST_FRAMES, NewSites, Site, SiteNumbers, Sites};
pub use typed::{CallDatatypes, DatatypeContents, MOST_CONTENTS};
