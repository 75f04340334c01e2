//! Who waits for whom: waiting times by their causes, in Scalasca's terms.
//!
//! Calls are matched: sends with receives, and the parts that processes have in a collective operation with
//! each other. A call waits while it cannot continue because another process has not come yet: from its entry until
//! that process's entry, at most until it returns. Calls that start or end MPI are counted apart: sums by cause and by
//! process are over the program's main part. All nodes have one clock, so these times are exact and nothing is
//! corrected. The terms are those of F. Wolf and B. Mohr, "Automatic performance analysis of hybrid MPI/OpenMP
//! applications" (2003), and of Scalasca's documentation of its patterns. Made by [`WaitCollector`], shown by
//! `render`; called by `belljar trace wait`.

/// Calls, and how long they waited.
mod calls;
/// From events to waiting times.
mod collect;
/// Delay costs: whose earlier work caused waits.
mod delays;
/// What depends on whom in time.
mod dependency;
/// By call site and by phase.
mod places;
/// As text and as JSON.
mod render;

use serde::Serialize;

use crate::dump::frames::SiteFrame;
use crate::phases::ProgramPhase;
pub use collect::WaitCollector;
pub(crate) use delays::InLoops;
pub use delays::{CodeDelay, CodePlace, DelayCosts, FunctionDelay, LoopDelay, RankDelay};
pub(crate) use dependency::{Dependency, Point};
pub use places::{WaitBy, waiting};
pub(crate) use places::{by_labels, measured};

/// Why a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitKind {
    /// A receive, or the completion of one, for a message that is sent later.
    LateSender,
    /// A send, or the completion of one, for a receive that is posted later.
    LateReceiver,
    /// A barrier for the last of its processes.
    Barrier,
    /// A collective operation in which all depend on all, for the last of its processes.
    AllToAll,
    /// An operation in which all depend on the root, for the root.
    LateBroadcast,
    /// The root of an operation that depends on the others, for the last of them.
    EarlyReduce,
    /// A scan, for processes of lower ranks.
    EarlyScan,
}

impl WaitKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::LateSender,
        Self::LateReceiver,
        Self::Barrier,
        Self::AllToAll,
        Self::LateBroadcast,
        Self::EarlyReduce,
        Self::EarlyScan,
    ];

    /// Its name for people.
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

/// Waiting times of a trace, in picoseconds of virtual time. Only calls that the program itself made count.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Waiting {
    /// By cause, all of them; calls that start or end MPI are left out.
    pub kinds: Vec<KindWait>,
    /// By cause, of the calls that start or end MPI; causes that made none wait are left out.
    pub start_and_end: Vec<KindWait>,
    /// By function, those that waited longest first; functions that never waited are left out.
    pub functions: Vec<FunctionWait>,
    /// By process, in the order of jobs and ranks.
    pub ranks: Vec<RankWait>,
    /// By call site, those that waited longest first; sites that never waited are left out. Empty where the trace does not
    /// tell where calls were made.
    pub sites: Vec<SiteWait>,
    /// By phase of the program, where that was asked for.
    pub phases: Vec<PhaseWait>,
    /// The root causes of the waiting in `kinds`: direct, indirect and unattributed costs add up to it.
    pub delays: Option<DelayCosts>,
    /// The longest waits, without calls that start or end MPI.
    pub longest: Vec<CallWait>,
    /// Messages of which both sides are known.
    pub messages: u64,
    /// Sends that no receive is known for.
    pub lone_sends: u64,
    /// Receives that no send is known for, or of which it is not known what they got.
    pub lone_receives: u64,
    /// Collective operations that all of their processes took part in.
    pub collectives: u64,
    /// Collective operations in which processes are missing.
    pub lone_collectives: u64,
    /// Messages and parts of operations whose communicator or partner the trace does not tell.
    pub unresolved: u64,
    /// Whether times are those of hosts' own clocks, as in a trace of another tool, and not of one clock of all. Said by whoever knows it.
    pub own_clocks: bool,
}

/// What one cause made wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KindWait {
    /// The cause.
    pub kind: WaitKind,
    /// Calls that waited.
    pub calls: u64,
    /// How long in all.
    pub waiting_ps: u64,
    /// The longest of them.
    pub max_ps: u64,
}

/// How long one function's calls waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionWait {
    /// Its name.
    pub function: &'static str,
    /// Calls that returned.
    pub calls: u64,
    /// Those that waited.
    pub waited: u64,
    /// Time in its calls.
    pub total_ps: u64,
    /// How much of that was waiting.
    pub waiting_ps: u64,
}

/// How long the calls from one call site waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteWait {
    /// The function that is called.
    pub function: &'static str,
    /// Where it is called, and where that function is called, and so on.
    pub frames: Vec<SiteFrame>,
    /// Calls that returned.
    pub calls: u64,
    /// Those that waited.
    pub waited: u64,
    /// Time in its calls.
    pub total_ps: u64,
    /// How much of that was waiting.
    pub waiting_ps: u64,
    /// By cause, those that made some wait.
    pub kinds: Vec<KindWait>,
}

/// How long calls waited in one phase of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseWait {
    /// The phase.
    pub phase: ProgramPhase,
    /// How long it lasts, of all threads together.
    pub time_ps: u64,
    /// Calls that returned.
    pub calls: u64,
    /// Those that waited.
    pub waited: u64,
    /// Time in them.
    pub total_ps: u64,
    /// How much of that was waiting.
    pub waiting_ps: u64,
    /// By cause, those that made some wait.
    pub kinds: Vec<KindWait>,
}

/// How long one process waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankWait {
    /// The MPI program it belongs to.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// Time in MPI calls.
    pub mpi_ps: u64,
    /// The part of that in calls that start or end MPI.
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
    /// Why.
    pub kind: WaitKind,
    /// Its process's MPI program.
    pub job: u32,
    /// Its process's rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// The function.
    pub function: &'static str,
    /// When it was entered.
    pub at_ps: u64,
    /// How long it waited.
    pub waiting_ps: u64,
    /// For which MPI program's process ...
    pub for_job: u32,
    /// ... of which rank.
    pub for_rank: u32,
}

#[cfg(test)]
mod tests;
