//! Statistics of a trace: by function, by rank, by message.
//!
//! Only calls by the program itself count, and times are virtual. Missing data is counted as unknown and not guessed.
//! Computed by `collect`, shown by `render`; used by `belljar trace stat` and at a run's end.

/// Collection of statistics, event by event.
mod collect;
/// Calls missing from a trace of some iterations.
mod collected;
/// Sums over records of the user's probes.
mod probes;
/// Statistics as text.
mod render;
/// Bytes of a call.
mod volume;

use serde::Serialize;

use crate::causes::efficiency::Efficiency;

pub(crate) use collect::DIGITS;
pub use collect::StatCollector;
pub use collected::KeptStat;
pub use probes::{ProbeRankStat, ProbeStat, ProbeSum};
pub(crate) use volume::Volume;

/// Statistics of a trace. Only calls by the program itself count, not calls that the MPI implementation made within
/// them. Times are virtual, in picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// True if no times were read: times and their counts are 0, and are not shown.
    #[serde(skip_serializing_if = "is_not")]
    pub untimed: bool,
    /// Processors of the run's time models, each a name and the hash of its file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<String>,
    /// By function, in descending order of total time, or of calls without times.
    pub functions: Vec<FunctionStat>,
    /// By process, in the order of jobs and ranks.
    pub ranks: Vec<RankStat>,
    /// Compute intervals of all ranks.
    pub intervals: IntervalStat,
    /// Efficiencies of the main part; `None` for a part of the calls.
    pub efficiency: Option<Efficiency>,
    /// Sizes of the messages sent, empty ones first, then by powers of two; empty classes are omitted.
    pub sizes: Vec<SizeStat>,
    /// Messages from rank to rank, in the order of senders and receivers, by job and rank.
    pub traffic: Vec<TrafficStat>,
    /// Messages whose receiver the trace does not contain; they are not in `traffic`.
    pub unresolved_messages: u64,
    /// Collective operations whose bytes the trace does not contain; they count as 0.
    pub unresolved_collectives: u64,
    /// Bytes received that are sizes of buffers, because the program requested no status.
    pub inexact_received: u64,
    /// Processes whose world has one process although their launcher started several.
    #[serde(skip_serializing_if = "is_none")]
    pub singletons: u64,
    /// Calls that never returned.
    pub unfinished: u64,
    /// Calls with a pointer that could not be read.
    pub bad: u64,
    /// The number of kept iterations, if only some iterations of the main loop were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptStat>,
    /// By the user's probes, in the order of the scenario.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeStat>,
    /// Calls at probes whose returns were not followed.
    #[serde(skip_serializing_if = "is_none")]
    pub unfollowed: u64,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

fn is_not(whether: &bool) -> bool {
    !whether
}

/// The calls of one function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionStat {
    /// Its name.
    pub function: &'static str,
    /// Recorded calls by the program.
    pub calls: u64,
    /// Recorded calls that the MPI implementation made within others.
    pub nested: u64,
    /// Calls made, recorded or not, of both kinds; `None` if the trace is incomplete.
    pub seen: Option<u64>,
    /// Bytes that left the callers' buffers. Messages count at the call of the send, collective operations once for
    /// each process.
    pub sent: u64,
    /// Bytes that entered the callers' buffers. Nonblocking receives count at their completion.
    pub received: u64,
    /// Calls that returned, to which the following figures apply.
    pub returned: u64,
    /// Shortest call, in picoseconds.
    pub min_ps: u64,
    /// Median (the lower of the two middle values).
    pub median_ps: u64,
    /// Mean, rounded down.
    pub mean_ps: u64,
    /// Longest.
    pub max_ps: u64,
    /// Sum.
    pub total_ps: u64,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankStat {
    /// Its MPI program, counted from 0 in the order of their starts.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// Calls recorded.
    pub calls: u64,
    /// Time between MPI calls, of all its threads that make MPI calls.
    pub compute_ps: u64,
    /// Time in MPI calls.
    pub mpi_ps: u64,
    /// The part in calls that start or end MPI.
    pub start_and_end_ps: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Its compute intervals.
    pub intervals: IntervalStat,
}

/// Intervals between one MPI call's return and the next one's entry in the same thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct IntervalStat {
    /// The number of intervals.
    pub count: u64,
    /// Harmonic mean, in cycles of each node's own processor; an interval counts as at least one cycle. 0 without
    /// intervals.
    pub harmonic_mean_cycles: f64,
    /// The same in seconds.
    pub harmonic_mean_s: f64,
}

/// Messages of a class of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeStat {
    /// Smallest size, in bytes: 0 or a power of two.
    pub from: u64,
    /// Largest size.
    pub to: u64,
    /// Messages sent.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Messages from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TrafficStat {
    /// The sender's MPI program.
    pub job: u32,
    /// The sender's rank in its `MPI_COMM_WORLD`.
    pub from: u32,
    /// The receiver's MPI program, which differs from the sender's if programs spawn others or connect to them.
    pub to_job: u32,
    /// The receiver's rank in its `MPI_COMM_WORLD`.
    pub to: u32,
    /// Messages sent.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests;
