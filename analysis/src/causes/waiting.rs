//! Waiting times of ranks by their causes, in Scalasca's terms.
//!
//! Calls are matched: sends with receives, and the parts of processes in a collective operation with each other. A call waits while it
//! cannot continue because another process has not arrived yet: from its entry until that process's entry, at most until it returns. Calls
//! that start or end MPI are counted separately: sums by cause and by process cover the program's main part. All nodes share one clock, so
//! these times are exact and need no correction. The terms are from F. Wolf and B. Mohr, "Automatic performance analysis of hybrid
//! MPI/OpenMP applications" (2003), and of Scalasca's documentation of its patterns. Computed by [`WaitCollector`](waiting::WaitCollector), shown by `render`;
//! used by `belljar trace wait`.

/// Calls and their waiting times.
mod calls;
/// Computation of waiting times from events.
mod collect;
/// Delay costs: the earlier work that caused waits.
mod delays;
/// Dependencies in time.
mod dependency;
/// Waiting by call site and by phase.
mod places;
/// As text and as JSON.
mod render;

use serde::Serialize;

use crate::dump::frames::SiteFrame;
use crate::structure::phases::ProgramPhase;
pub use collect::WaitCollector;
pub(crate) use delays::InLoops;
pub use delays::{CodeDelay, CodePlace, DelayCosts, FunctionDelay, LoopDelay, RankDelay};
pub(crate) use dependency::{Dependency, DependencyNode};
pub use places::{WaitBy, waiting};
pub(crate) use places::{by_labels, measured};

/// The cause of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitKind {
    /// A receive, or its completion, waits for a message that is sent later.
    LateSender,
    /// A send, or its completion, waits for a receive that is posted later.
    LateReceiver,
    /// A barrier waits for the last of its processes.
    Barrier,
    /// A collective operation in which all depend on all waits for the last of its processes.
    AllToAll,
    /// An operation in which all depend on the root waits for the root.
    LateBroadcast,
    /// The root of an operation that depends on the others waits for the last of them.
    EarlyReduce,
    /// A scan waits for processes of lower ranks.
    EarlyScan,
}

impl WaitKind {
    /// All causes.
    pub const ALL: [Self; 7] = [
        Self::LateSender,
        Self::LateReceiver,
        Self::Barrier,
        Self::AllToAll,
        Self::LateBroadcast,
        Self::EarlyReduce,
        Self::EarlyScan,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::LateSender => "late sender",
            Self::LateReceiver => "late receiver",
            Self::Barrier => "wait at barrier",
            Self::AllToAll => "wait at N x N",
            Self::LateBroadcast => "late broadcast",
            Self::EarlyReduce => "early reduce",
            Self::EarlyScan => "early scan",
        }
    }
}

/// Waiting times of a trace, in picoseconds of virtual time. Only calls by the program itself count.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Waiting {
    /// All causes, without calls that start or end MPI.
    pub kinds: Vec<KindWait>,
    /// Causes with waits, in calls that start or end MPI.
    pub start_and_end: Vec<KindWait>,
    /// Functions with waits, in descending order of waiting.
    pub functions: Vec<FunctionWait>,
    /// By process, in the order of jobs and ranks.
    pub ranks: Vec<RankWait>,
    /// Call sites with waits, in descending order of waiting. Empty if the trace has no call sites.
    pub sites: Vec<SiteWait>,
    /// By phase of the program, if requested.
    pub phases: Vec<PhaseWait>,
    /// The root causes of the waiting in `kinds`: direct, indirect and unattributed costs add up to it.
    pub delays: Option<DelayCosts>,
    /// The longest waits, without calls that start or end MPI.
    pub longest: Vec<CallWait>,
    /// Messages with both sides known.
    pub messages: u64,
    /// Sends without a known receive.
    pub lone_sends: u64,
    /// Receives without a known send, or with an unknown message.
    pub lone_receives: u64,
    /// Collective operations with all of their processes.
    pub collectives: u64,
    /// Collective operations in which processes are missing.
    pub lone_collectives: u64,
    /// Messages and parts of operations whose communicator or partner the trace does not contain.
    pub unresolved: u64,
    /// True if times are from hosts' own clocks, as in a trace of another tool, and not from one common clock. Set by the caller.
    pub own_clocks: bool,
}

/// Waiting by one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KindWait {
    /// The cause.
    pub kind: WaitKind,
    /// Calls that waited.
    pub calls: u64,
    /// Total waiting.
    pub waiting_ps: u64,
    /// The longest of them.
    pub max_ps: u64,
}

/// Waiting of one function's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionWait {
    /// Its name.
    pub function: &'static str,
    /// Calls that returned.
    pub calls: u64,
    /// Calls that waited.
    pub waited: u64,
    /// Time in its calls.
    pub total_ps: u64,
    /// The part that was waiting.
    pub waiting_ps: u64,
}

/// Waiting of the calls from one call site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteWait {
    /// The function that is called.
    pub function: &'static str,
    /// The call's address, the address at which its function was called, and so on.
    pub frames: Vec<SiteFrame>,
    /// Calls that returned.
    pub calls: u64,
    /// Calls that waited.
    pub waited: u64,
    /// Time in its calls.
    pub total_ps: u64,
    /// The part that was waiting.
    pub waiting_ps: u64,
    /// Causes with waits.
    pub kinds: Vec<KindWait>,
}

/// Waiting of calls in one phase of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseWait {
    /// The phase.
    pub phase: ProgramPhase,
    /// Its duration, summed over all threads.
    pub time_ps: u64,
    /// Calls that returned.
    pub calls: u64,
    /// Calls that waited.
    pub waited: u64,
    /// Time in them.
    pub total_ps: u64,
    /// The part that was waiting.
    pub waiting_ps: u64,
    /// Causes with waits.
    pub kinds: Vec<KindWait>,
}

/// Waiting of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankWait {
    /// Its MPI program.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// Time in MPI calls.
    pub mpi_ps: u64,
    /// The part in calls that start or end MPI.
    pub start_and_end_ps: u64,
    /// Waiting in all other calls.
    pub waiting_ps: u64,
    /// Waiting in calls that start or end MPI.
    pub start_and_end_waiting_ps: u64,
    /// Waiting of other processes for it, without calls that start or end MPI.
    pub caused_ps: u64,
}

/// One call that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CallWait {
    /// The cause.
    pub kind: WaitKind,
    /// Its process's MPI program.
    pub job: u32,
    /// Its process's rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// The function.
    pub function: &'static str,
    /// Its entry.
    pub at_ps: u64,
    /// Its waiting time.
    pub waiting_ps: u64,
    /// The MPI program of the process that it waited for ...
    pub for_job: u32,
    /// ... and its rank.
    pub for_rank: u32,
}

#[cfg(test)]
mod tests;
