//! The members of communicators, resolved from all processes' events.
//!
//! A process's arguments to `MPI_Comm_split` affect other processes, too. All members of a communicator create communicators from it in
//! the same order, so matching calls are found by counting: same parent, same sequence number (MPI-4.0, 7.4.2).

/// Collects the events about communicators, process by process.
mod collect;
/// The members of groups (MPI-4.0, 7.3.2).
mod groups;
/// One process's communicators as its own events describe them.
mod history;
/// An ordered set of processes, by their jobs and ranks.
mod members;
/// Combines the processes' histories, communicator by communicator.
mod resolve;
/// Neighbours of a member in neighbourhood collectives.
mod topology;

use std::collections::BTreeMap;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_trace::{Amount, Collective, Event, Peer, Share, TraceError, TraceState, Who};

use topology::Neighbors;

pub use collect::Collector;
pub use members::{Member, Members};

/// A process of the cluster: its node, and its number there.
pub type ProcessKey = (u32, u32);

/// A communicator, seen from one of its members.
#[derive(Clone, Debug)]
struct CommunicatorView {
    /// The number of the communicator that all members use, on both sides of an intercommunicator.
    identity: u32,
    /// Its members.
    members: Members,
    /// The members of the remote group, for an intercommunicator.
    remote: Option<Members>,
    /// The process's own rank in it.
    rank: u32,
    /// The process's neighbours in its topology.
    neighbors: Option<Neighbors>,
}

impl CommunicatorView {
    /// The number of processes with which a collective operation exchanges data.
    fn partners(&self) -> u32 {
        self.remote.as_ref().unwrap_or(&self.members).len()
    }
}

/// All processes' communicators, resolved.
///
/// Ranks refer to `MPI_COMM_WORLD`. A cluster may run several MPI programs in succession, each with a world of its own: a *job*.
#[derive(Clone, Debug, Default)]
pub struct Communicators {
    views: BTreeMap<(ProcessKey, u32), CommunicatorView>,
    jobs: BTreeMap<ProcessKey, u32>,
    sizes: Vec<u32>,
    nodes: BTreeMap<Member, u32>,
    /// The groups with which processes began epochs on windows.
    groups: BTreeMap<(ProcessKey, u32), Members>,
    singletons: u64,
}

impl Communicators {
    /// The number of jobs.
    pub fn jobs(&self) -> u32 {
        self.sizes.len() as u32
    }

    /// The number of processes whose world has one process although their launcher started several. Their MPI library is not the launcher's, and their program did
    /// not run in parallel.
    pub fn singletons(&self) -> u64 {
        self.singletons
    }

    /// The number of processes of a job; 0 for an unknown job.
    pub fn job_size(&self, job: u32) -> u32 {
        self.sizes.get(job as usize).copied().unwrap_or(0)
    }

    /// The job of a process, counted from 0 in the order of their starts.
    pub fn job(&self, process: ProcessKey) -> Option<u32> {
        self.jobs.get(&process).copied()
    }

    /// All processes whose job is known.
    pub fn process_keys(&self) -> impl Iterator<Item = ProcessKey> {
        self.jobs.keys().copied()
    }

    /// The members of a process's communicator (of its local group, for an intercommunicator), in rank order. `None` if unknown.
    pub fn members(&self, process: ProcessKey, communicator: u32) -> Option<&Members> {
        self.views
            .get(&(process, communicator))
            .map(|view| &view.members)
    }

    /// The members of the remote group of a process's intercommunicator. `None` for an intracommunicator, or if unknown.
    pub fn remote_members(&self, process: ProcessKey, communicator: u32) -> Option<&Members> {
        let view = self.views.get(&(process, communicator))?;
        view.remote.as_ref()
    }

    /// The members, in order, of the group with this number, with which a process began an epoch on a window. `None` if unknown.
    pub fn group(&self, process: ProcessKey, group: u32) -> Option<&Members> {
        self.groups.get(&(process, group))
    }

    /// The number of a process's communicator that all its members use, including those of the remote group. `None` if its members are
    /// unknown.
    pub fn identity(&self, process: ProcessKey, communicator: u32) -> Option<u32> {
        let view = self.views.get(&(process, communicator))?;
        Some(view.identity)
    }

    /// A process's rank in its communicator (in the local group, for an intercommunicator).
    pub fn rank(&self, process: ProcessKey, communicator: u32) -> Option<u32> {
        let view = self.views.get(&(process, communicator))?;
        Some(view.rank)
    }

    /// The processes in the trace, in the order of jobs and ranks.
    pub fn all(&self) -> impl Iterator<Item = Member> {
        self.nodes.keys().copied()
    }

    /// The number of processes in the trace.
    pub fn processes(&self) -> usize {
        self.nodes.len()
    }

    /// The node of a process. `None` if unknown.
    pub fn node(&self, member: Member) -> Option<u32> {
        self.nodes.get(&member).copied()
    }

    /// The neighbours of a process in its communicator's grid, in the order of its buffers' blocks; an entry outside the grid is `None`.
    /// The result is `None` if there is no grid, or it is unknown.
    pub fn grid_neighbors(
        &self,
        process: ProcessKey,
        communicator: u32,
    ) -> Option<Vec<Option<Member>>> {
        let view = self.views.get(&(process, communicator))?;
        let Some(Neighbors::Slots(slots)) = &view.neighbors else {
            return None;
        };
        let member = |rank: &Option<u32>| rank.and_then(|rank| view.members.get(rank));
        Some(slots.iter().map(member).collect())
    }

    /// The process of a peer in a process's communicator. `None` if the peer is not a rank, or unknown.
    pub fn peer(&self, process: ProcessKey, communicator: u32, peer: Peer) -> Option<Member> {
        let Peer::Rank(rank) = peer else {
            return None;
        };
        let view = self.views.get(&(process, communicator))?;
        view.remote.as_ref().unwrap_or(&view.members).get(rank)
    }

    /// Bytes that `event`'s process sends to and receives from its collective operation. `None` if unknown.
    pub fn volume(&self, event: &Event, collective: &Collective) -> (Option<u64>, Option<u64>) {
        self.moved((event.node, event.process), collective)
    }

    /// The same for a collective operation of this process.
    pub fn moved(
        &self,
        process: ProcessKey,
        collective: &Collective,
    ) -> (Option<u64>, Option<u64>) {
        let view = collective
            .communicator
            .and_then(|communicator| self.views.get(&(process, communicator)));
        let is_root = match collective.root {
            Some(Peer::Root) => Some(true),
            Some(Peer::Rank(root)) => view.map(|view| view.remote.is_none() && view.rank == root),
            _ => Some(false),
        };
        // In an intercommunicator, processes of the root's group other than the root do not take part.
        let beside = collective.root == Some(Peer::Null);
        let count = |amount: &Amount| {
            if amount.bytes == Some(0) || beside {
                return Some(0);
            }
            let counts = match amount.who {
                // In an intercommunicator, the root either only sends or only receives.
                Who::Everyone => collective.root != Some(Peer::Root),
                Who::Root => is_root?,
                Who::Others => !is_root?,
            };
            if counts { total(amount, view) } else { Some(0) }
        };
        (count(&collective.sent), count(&collective.received))
    }
}

/// The communicators of the trace at `path`.
///
/// # Errors
/// [`TraceError`] when the file cannot be read as a trace.
pub fn communicators(path: &Path) -> Result<Communicators, TraceError> {
    Ok(communicators_in(TraceReader::open(path)?))
}

/// The communicators of all processes of a trace, which `reader` reads to its end.
pub fn communicators_in(mut reader: TraceReader) -> Communicators {
    let mut collector = Collector::new();
    let header = reader.header().clone();
    for event in reader.by_ref() {
        collector.observe(&event, &header);
    }
    collector.resolve()
}

/// The same as [`communicators`] without reading the trace's times, in a fraction of the time. `None` if they may depend on times: there are several jobs, jobs meet or
/// spawn others, a process has several threads, or the trace is incomplete.
///
/// # Errors
/// [`TraceError`] when the file cannot be read as a trace.
pub fn communicators_untimed(path: &Path) -> Result<Option<Communicators>, TraceError> {
    let mut reader = TraceReader::open_untimed(path)?;
    let mut collector = Collector::new();
    let header = reader.header().clone();
    let mut threads = BTreeMap::new();
    for event in reader.by_ref() {
        let thread = threads.entry((event.node, event.process));
        if *thread.or_insert(event.thread) != event.thread {
            return Ok(None);
        }
        collector.observe(&event, &header);
    }
    let timeless = *reader.state() == TraceState::Complete && collector.is_timeless();
    Ok(timeless.then(|| collector.resolve()))
}

/// The total bytes of an amount, for a process with this view of its communicator.
fn total(amount: &Amount, view: Option<&CommunicatorView>) -> Option<u64> {
    let sources = amount.share == Share::Sources;
    if let Some(bytes) = amount.bytes {
        let times = match amount.share {
            Share::Whole | Share::Own => 1,
            Share::Members => u64::from(view?.partners()),
            Share::Group => u64::from(view?.members.len()),
            Share::Sources | Share::Destinations => view?.neighbors.as_ref()?.count(sources),
        };
        return Some(bytes.saturating_mul(times));
    }
    match amount.share {
        Share::Whole => None,
        Share::Own => amount.pieces.get(view?.rank as usize).copied(),
        Share::Members => sum(&amount.pieces, view?.partners()),
        Share::Group => sum(&amount.pieces, view?.members.len()),
        Share::Sources | Share::Destinations => {
            let neighbors = view?.neighbors.as_ref()?;
            neighbors.sum(&amount.pieces, sources)
        }
    }
}

/// The sum of the first `count` pieces; `None` if there are fewer.
fn sum(pieces: &[u64], count: u32) -> Option<u64> {
    let pieces = pieces.get(..count as usize)?.iter();
    Some(pieces.fold(0, |sum, piece| sum.saturating_add(*piece)))
}

#[cfg(test)]
mod tests;
