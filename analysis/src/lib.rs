//! Analyses of a finished trace.
//!
//! A trace has each call as its process saw it. The members of communicators, and the matching of operations, follow from
//! all processes' events together. The crate `job` computes both, the former in a first pass over the trace, the latter
//! during the analysis. This crate does not depend on guests or on how calls are observed. Used by `belljar trace` and
//! `belljar report`.
//!
//! An analysis has three parts. A collector observes events one by one, so an analysis of many gigabytes takes no more
//! memory than its result. The numeric result is serializable, and has a text form.
//!
//! Analyses use one another where one continues from the other's result: `loops` from `flow`, `path` and `diff` from
//! `waiting`. `phases` and the numbers of `sites` are shared by several of them, and `table` formats them.

/// Calls without times.
mod counted;
/// Cycles per instruction, and their parts.
mod cpi;
/// Comparison of two traces.
mod diff;
/// Events as text and as JSON.
mod dump;
/// Efficiencies of parallel programs.
mod efficiency;
/// Event flow graphs.
mod flow;
/// Synthetic traces of any size.
#[cfg(any(test, feature = "generated"))]
pub mod generated;
/// Loops, their iterations and their times.
mod loops;
/// Traffic between ranks.
mod matrix;
/// The chain of calls that determines how long a program took.
mod path;
/// Phases: before, in and after a program's main loop.
mod phases;
/// Results of several traces next to each other.
mod several;
/// Statistics by call site.
mod sites;
/// Sums over calls, ranks, sizes and intervals.
mod stat;
/// Columns of text.
mod table;
/// All analyses at once.
mod together;
/// Filters that match nothing.
mod unmatched;
/// Waiting of ranks for each other.
mod waiting;

/// Tests of records that stand for several calls.
#[cfg(test)]
mod folded;

#[cfg(test)]
pub(crate) use generated::ranks;

pub use belljar_sim::figures::time as time_words;
pub use counted::TimesMode;
pub use cpi::{CpiCollector, CpiPart, CpiStat, CpiStatistics, Ratio};
pub use diff::{
    Both, CallDiff, FunctionDiff, PhaseDiff, RankDiff, SiteDiff, TraceDiff, WaitDiff, diff,
};
pub use dump::frames::{FrameNames, SiteFrame, SitePlace};
pub use dump::{
    AnalysisError, DumpFormat, Filter, argument_words, counts, cpi, dump, statistics, write_event,
};
pub use efficiency::{Efficiency, Scaling};
pub use flow::{
    Detail, FlowCall, FlowCollector, FlowEdge, FlowGraph, FlowGraphs, FlowNode, FlowThread,
    GraphsOf, Label, PerThread, Spread, Temporal, flow_graphs,
};
pub use loops::{
    ClassLoops, Iterations, LoopBalance, LoopFinder, LoopMeasure, LoopPart, LoopStructure, Phase,
    ProgramPart, Sequence, SequenceCall, When, loops, phases,
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
pub use table::Table;
pub use together::{Analyses, CallingThread, Survey};
pub use unmatched::{Unmatched, unmatched};
pub use waiting::{
    CallWait, CodeDelay, CodePlace, DelayCosts, FunctionDelay, FunctionWait, KindWait, LoopDelay,
    PhaseWait, RankDelay, RankWait, SiteWait, WaitBy, WaitCollector, WaitKind, Waiting, waiting,
};
