//! What is worked out of a trace that is there.
//!
//! A trace has each call as its process saw it. Whom a communicator joins, what a collective operation moves
//! and to which job a process belongs follow from all processes' events together: [`communicators()`] works that
//! out in a first pass, and the other analyses use it in a second one. Nothing here knows of guests or of how
//! calls come to be seen. Called by `belljar trace` and `belljar report`.
//!
//! An analysis has three parts: a collector that observes events one by one (so an analysis of many gigabytes
//! takes no more memory than its result), the result in numbers, which is serializable, and its text for people.
//!
//! Analyses know one another where one continues from the other's result: `loops` from `flow`, `path` and `diff` from
//! `waiting`. `communicators`, `matching`, `expansion`, `phases` and the numbers of `sites` serve several of them, and `table` what they print.

/// Which processes a communicator joins.
mod communicators;
/// Calls without times.
mod counted;
/// Cycles per instruction, and what they went into.
mod cpi;
/// Two traces held against each other.
mod diff;
/// Events as text and as JSON.
mod dump;
/// What messages a collective call becomes.
mod expansion;
/// Which kind of call follows which.
mod flow;
/// Traces of any size, made call by call.
#[cfg(any(test, feature = "generated"))]
pub mod generated;
/// What is repeated, how often, and what it takes.
mod loops;
/// Which receive got which message.
mod matching;
/// Who sends how much to whom.
mod matrix;
/// The chain of calls that determines how long a program took.
mod path;
/// Before, in and after a program's main loop.
mod phases;
/// Results of several traces next to each other.
mod several;
/// By call site.
mod sites;
/// Sums over calls, ranks, sizes and intervals.
mod stat;
/// Columns of text.
mod table;
/// All analyses at once.
mod together;
/// Who waits for whom.
mod waiting;

/// Records of several calls held against these calls.
#[cfg(test)]
mod folded;

#[cfg(test)]
pub(crate) use generated::ranks;

pub use communicators::{Collector, Communicators, Member, Members, ProcessKey};
pub use counted::Times;
pub use cpi::{CpiCollector, CpiPart, CpiStat, CpiStatistics, Ratio};
pub use diff::{
    Both, CallDiff, FunctionDiff, PhaseDiff, RankDiff, SiteDiff, TraceDiff, WaitDiff, diff,
};
pub use dump::frames::{FrameNames, SiteFrame, SitePlace};
pub use dump::{
    AnalysisError, DumpFormat, Filter, argument_words, communicators, counts, cpi, dump,
    statistics, write_event,
};
pub use expansion::{Expanded, Expansion, Unknown as UnknownCall};
pub use flow::{
    Detail, FlowCall, FlowCollector, FlowEdge, FlowGraph, FlowGraphs, FlowNode, FlowThread,
    GraphsOf, Label, PerThread, Spread, Temporal, flow_graphs,
};
pub use loops::{
    ClassLoops, Iterations, LoopBalance, LoopFinder, LoopMeasure, LoopPart, LoopStructure, Part,
    Phase, Sequence, SequenceCall, When, loops, phases,
};
pub use matrix::{
    AlgorithmTraffic, CallTraffic, Matrix, PairTraffic, TrafficBy, TrafficCollector, TrafficOf,
    UnknownTraffic, WireError, seen_traffic, traffic, untimed_traffic,
};
pub use path::{
    CriticalPath, PathFunction, PathPhase, PathRank, PathSite, PathStretch, RankSlack,
    critical_path,
};
pub use phases::{InPhase, PhaseSpans, Phases, ProgramPhase, phase_spans};
pub use several::{Comparable, Lines, Several, Shape};
pub use sites::{CallSites, ProbeSiteStat, SiteStat, TransitionStat, call_sites};
pub use stat::{
    FunctionStat, IntervalStat, KeptStat, ProbeRankStat, ProbeStat, ProbeSum, RankStat, SizeStat,
    StatCollector, Statistics, TrafficStat,
};
pub use table::{Table, time as time_words};
pub use together::{Analyses, CallingThread, Survey};
pub use waiting::{
    CallWait, FunctionWait, KindWait, PhaseWait, RankWait, SiteWait, WaitBy, WaitCollector,
    WaitKind, Waiting, waiting,
};
