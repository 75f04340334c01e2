//! Which processes a communicator joins: worked out from all processes' events.
//!
//! What a process passes to `MPI_Comm_split` decides about others too. All members of a
//! communicator make new ones from it in the same order, so the calls of one time are
//! found by counting: same parent, same sequence number (MPI-4.0, 7.4.2).

/// Gathers what events tell of communicators, process by process.
mod collect;
/// The members of groups (MPI-4.0, 7.3.2).
mod groups;
/// What one process's events tell of its communicators, before others are heard.
mod history;
/// An ordered set of processes, by their jobs and ranks.
mod members;
/// Puts the processes' histories together, communicator by communicator.
mod resolve;
/// With whom a member exchanges data in neighbourhood collectives.
mod topology;

use std::collections::BTreeMap;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_trace::{Amount, Collective, Event, Peer, Share, TraceError, Who};

use topology::Neighbors;

pub use collect::Collector;
pub use members::{Member, Members};

/// A process of the cluster: its node, and its number there.
pub type ProcessKey = (u32, u32);

/// A communicator, seen from one of its members.
#[derive(Clone, Debug)]
struct View {
    /// The number that all of its members have for it, those of both sides of an intercommunicator.
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

impl View {
    /// How many processes a collective operation exchanges data with.
    fn partners(&self) -> u32 {
        self.remote.as_ref().unwrap_or(&self.members).len()
    }
}

/// All processes' communicators, resolved.
///
/// Ranks are those of `MPI_COMM_WORLD`. A cluster may run several MPI programs one
/// after the other, each with a world of its own: a *job*.
#[derive(Clone, Debug, Default)]
pub struct Communicators {
    views: BTreeMap<(ProcessKey, u32), View>,
    jobs: BTreeMap<ProcessKey, u32>,
    sizes: Vec<u32>,
    nodes: BTreeMap<Member, u32>,
    /// The groups with which processes began epochs on windows.
    groups: BTreeMap<(ProcessKey, u32), Members>,
}

impl Communicators {
    /// How many jobs there were.
    pub fn jobs(&self) -> u32 {
        self.sizes.len() as u32
    }

    /// How many processes a job has; 0 for a job that is not there.
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

    /// The members of a process's communicator (of its local group, for an
    /// intercommunicator) in the order of their ranks in it. `None` when the trace does not tell.
    pub fn members(&self, process: ProcessKey, communicator: u32) -> Option<&Members> {
        self.views
            .get(&(process, communicator))
            .map(|view| &view.members)
    }

    /// The members of the remote group of a process's intercommunicator. `None` when it is none, or
    /// the trace does not tell.
    pub fn remote_members(&self, process: ProcessKey, communicator: u32) -> Option<&Members> {
        let view = self.views.get(&(process, communicator))?;
        view.remote.as_ref()
    }

    /// The members of the group of this number with which a process began an epoch on a window, in their order. `None` when the trace does
    /// not tell them.
    pub fn group(&self, process: ProcessKey, group: u32) -> Option<&Members> {
        self.groups.get(&(process, group))
    }

    /// The number of a process's communicator that all of its members, those of the remote group too, have for it.
    /// `None` when the trace does not tell its members.
    pub fn identity(&self, process: ProcessKey, communicator: u32) -> Option<u32> {
        let view = self.views.get(&(process, communicator))?;
        Some(view.identity)
    }

    /// A process's rank in its communicator (in the local group, for an intercommunicator).
    pub fn rank(&self, process: ProcessKey, communicator: u32) -> Option<u32> {
        let view = self.views.get(&(process, communicator))?;
        Some(view.rank)
    }

    /// The processes that the trace has, in the order of jobs and ranks.
    pub fn all(&self) -> impl Iterator<Item = Member> {
        self.nodes.keys().copied()
    }

    /// How many processes the trace has.
    pub fn processes(&self) -> usize {
        self.nodes.len()
    }

    /// The node on which a process runs. `None` when the trace does not tell.
    pub fn node(&self, member: Member) -> Option<u32> {
        self.nodes.get(&member).copied()
    }

    /// The neighbours of a process in its communicator's grid, in the order of its buffers' blocks; a place outside of the
    /// grid is `None`. `None` altogether when there is no grid, or the trace does not tell it.
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

    /// Who a peer in a process's communicator is. `None` when it is no rank, or the trace does
    /// not tell.
    pub fn peer(&self, process: ProcessKey, communicator: u32, peer: Peer) -> Option<Member> {
        let Peer::Rank(rank) = peer else {
            return None;
        };
        let view = self.views.get(&(process, communicator))?;
        view.remote.as_ref().unwrap_or(&view.members).get(rank)
    }

    /// Bytes that `event`'s process gives to and gets from a collective operation of it. `None` where
    /// the trace does not tell.
    pub fn volume(&self, event: &Event, collective: &Collective) -> (Option<u64>, Option<u64>) {
        self.moved((event.node, event.process), collective)
    }

    /// The same of a collective operation of this process.
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
        // An intercommunicator's processes in the root's group, but for the root, take no part.
        let beside = collective.root == Some(Peer::Null);
        let count = |amount: &Amount| {
            if amount.bytes == Some(0) || beside {
                return Some(0);
            }
            let counts = match amount.who {
                // Between groups the root has one side: it takes what others give, or gives.
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
    let mut reader = TraceReader::open(path)?;
    let mut collector = Collector::new();
    let header = reader.header().clone();
    for event in reader.by_ref() {
        collector.observe(&event, &header);
    }
    Ok(collector.resolve())
}

/// All bytes of an amount, for a process that sees its communicator so.
fn total(amount: &Amount, view: Option<&View>) -> Option<u64> {
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

/// The sum of so many pieces; `None` when there are fewer.
fn sum(pieces: &[u64], count: u32) -> Option<u64> {
    let pieces = pieces.get(..count as usize)?.iter();
    Some(pieces.fold(0, |sum, piece| sum.saturating_add(*piece)))
}

#[cfg(test)]
mod tests;
