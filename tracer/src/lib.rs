//! MPI events, their decoding from guest memory, the trace format and its analyses.
//!
//! A [`NodeTracer`] turns the magic exits of a node into [`Event`]s, a [`TraceWriter`] stores them, a
//! [`TraceReader`] gives them back, and the analyses work on what it gives.

mod account;
mod action;
mod arguments;
mod calls;
mod codec;
mod collective;
mod communicators;
mod component;
mod counters;
mod cpi;
mod datatypes;
mod dump;
mod event;
#[cfg(test)]
mod guest;
mod implementation;
mod launch;
mod library;
mod memory;
mod node;
mod object;
mod probe;
mod process;
mod replaced;
mod saved;
mod selection;
mod stat;
mod table;
mod targets;
mod trace;

pub use account::{Account, Accounts};
pub use communicators::{Collector, Communicators, Member, Members, ProcessKey};
pub use counters::{Counters, NodeSummary, ProcessInfo, TraceSummary, Warnings};
pub use cpi::{CpiCollector, CpiPart, CpiStat, CpiStatistics, Ratio};
pub use datatypes::{PREDEFINED, Predefined};
pub use dump::{
    AnalysisError, DumpFormat, Filter, communicators, cpi, dump, statistics, write_event,
};
pub use event::{
    Amount, Collective, Completion, Direction, Ending, Event, Implementation, Peer, Phase, Share,
    Status, Text, Transfer, Who,
};
pub use launch::Launch;
pub use memory::{BadAddress, GuestMemory};
pub use node::{MagicRegisters, NodeTracer};
pub use object::{Datatype, Fact, GroupMembers, Making, NewCommunicator, SELF, WORLD};
pub use saved::{StateError, load_events, load_summaries, save_events, save_summaries};
pub use selection::{Selection, SelectionError, Window};
pub use stat::{
    FunctionStat, IntervalStat, RankStat, SizeStat, StatCollector, Statistics, TrafficStat,
};
pub use targets::{PAGE, TargetPage, Targets};
pub use trace::{
    MAGIC, TRACE_FILE, TraceError, TraceHeader, TraceReader, TraceState, TraceWriter, VERSION,
    VERSION_WITH_ACCOUNTS,
};

#[cfg(test)]
mod tests;
