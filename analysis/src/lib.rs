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

/// Causes of a program's time: waiting, the critical path, efficiencies.
mod causes;
/// Errors of MPI use.
mod check;
/// Comparison of traces.
mod comparison;
/// Calls without times.
mod counted;
/// Events as text and as JSON.
mod dump;
/// Synthetic traces of any size.
#[cfg(any(test, feature = "generated"))]
pub mod generated;
/// The structure of a program: event flow graphs, loops, phases.
mod structure;
/// Sums over calls: statistics, traffic, call sites, cycles per instruction.
mod sums;
/// Columns of text.
mod table;
/// All analyses at once.
mod together;
/// Filters that match nothing.
mod unmatched;

/// Tests of records that stand for several calls.
#[cfg(test)]
mod folded;

#[cfg(test)]
pub(crate) use generated::ranks;

pub use belljar_sim::figures::time as time_words;
pub use causes::efficiency::{Efficiency, Scaling};
pub use causes::hang::{Hang, HangVerdict, HungRank, JobRank, OneSided, RankState, hang, hang_in};
pub use causes::path::{
    CriticalPath, PathFunction, PathPhase, PathRank, PathSite, PathStretch, RankSlack,
    critical_path,
};
pub use causes::waiting::{
    CallWait, CodeDelay, CodePlace, DelayCosts, FunctionDelay, FunctionWait, KindWait, LoopDelay,
    PhaseWait, RankDelay, RankWait, SiteWait, WaitBy, WaitCollector, WaitKind, Waiting, waiting,
};
pub use check::{
    CheckedCall, Finding, FindingKind, JobEnd, MpiCheck, RunFacts, Severity, Unchecked, check,
    observed_run,
};
pub use comparison::diff::{
    Both, CallDiff, FunctionDiff, PhaseDiff, RankDiff, SiteDiff, TraceDiff, WaitDiff, diff,
    processors_warning,
};
pub use comparison::several::{Comparable, Lines, Several, Shape};
pub use counted::TimesMode;
pub use dump::frames::{FrameNames, SiteFrame, SitePlace};
pub use dump::{
    AnalysisError, DumpFormat, Filter, argument_words, counts, cpi, dump, statistics, write_event,
};
pub use structure::flow::{
    Detail, FlowCall, FlowCollector, FlowEdge, FlowGraph, FlowGraphs, FlowNode, FlowThread,
    GraphsOf, Label, PerThread, Spread, Temporal, flow_graphs,
};
pub use structure::loops::{
    ClassLoops, Iterations, LoopBalance, LoopFinder, LoopMeasure, LoopPart, LoopStructure, Phase,
    ProgramPart, Sequence, SequenceCall, When, loops, phases,
};
pub use structure::phases::{InPhase, PhaseSpans, Phases, ProgramPhase, phase_spans};
pub use sums::cpi::{CpiCollector, CpiPart, CpiStat, CpiStatistics, Ratio};
pub use sums::matrix::{
    AlgorithmTraffic, CallTraffic, Matrix, PairTraffic, TrafficBy, TrafficCollector, TrafficOf,
    UnknownTraffic, WireError, seen_traffic, traffic, untimed_traffic,
};
pub use sums::sites::{CallSites, ProbeSiteStat, SiteStat, TransitionStat, call_sites};
pub use sums::stat::{
    FunctionStat, IntervalStat, KeptStat, ProbeRankStat, ProbeStat, ProbeSum, RankStat, SizeStat,
    StatCollector, Statistics, TrafficStat,
};
pub use table::Table;
pub use together::{Analyses, CallingThread, Survey};
pub use unmatched::{Unmatched, unmatched};
