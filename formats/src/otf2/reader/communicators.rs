//! Communicators and windows in processes' numbers.
//!
//! An archive names the members of a communicator by their positions among all processes. `MPI_COMM_WORLD` is identified by its name; its order is the order of
//! ranks. Created from the definitions, before the events.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_trace::{Peer, SELF, WORLD};

use super::definitions::{COMM_SELF, Definitions, Otf2Group};
use crate::builder::layout::Layout;

/// A communicator.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The number in its members.
    pub(super) number: u32,
    /// Its members, and the remote ones if there are any.
    members: Arc<Members>,
    remote: Option<Arc<Members>>,
    /// True if events name peers by their positions among all processes.
    global: bool,
}

/// Members of a group: the rank of each in it, by its position among all processes.
type Members = BTreeMap<u32, u32>;

/// A group of MPI's processes, with its members' ranks.
#[derive(Debug)]
struct ResolvedGroup<'d> {
    told: &'d Otf2Group,
    /// Their positions among all processes, in order.
    ranks: Vec<u32>,
    members: Arc<Members>,
}

/// All communicators.
#[derive(Debug)]
pub(super) struct Communicators {
    known: BTreeMap<u32, Known>,
    pub(super) layout: Layout,
    /// The number of unknown communicators.
    pub(super) unknown: u64,
}

impl Communicators {
    pub(super) fn of(definitions: &Definitions) -> Self {
        let processes = definitions.processes().len() as u32;
        let mut own = Self {
            known: BTreeMap::new(),
            layout: Layout::new(processes),
            unknown: 0,
        };
        // Many communicators may have one group.
        let groups = definitions.groups.iter();
        let sides = groups.filter_map(|(number, group)| Some((*number, ResolvedGroup::of(group)?)));
        let sides: BTreeMap<u32, ResolvedGroup<'_>> = sides.collect();
        for (reference, comm) in &definitions.comms {
            let Some(side) = comm.group.and_then(|group| sides.get(&group)) else {
                continue;
            };
            let name = definitions.text(comm.name);
            let known = match comm.remote {
                Some(remote) => sides.get(&remote).and_then(|it| own.between(side, it)),
                None => own.among(side, name, processes),
            };
            match known {
                Some(known) => drop(own.known.insert(*reference, known)),
                None => own.unknown += 1,
            }
        }
        own
    }

    fn among(&mut self, side: &ResolvedGroup<'_>, name: &str, processes: u32) -> Option<Known> {
        let number = match name {
            _ if side.told.kind == COMM_SELF => SELF,
            // Archives of earlier Belljars give its copies the same name.
            "MPI_COMM_WORLD" if side.is_all(processes) && !self.has_world() => WORLD,
            _ => self.layout.communicator(&side.ranks)?,
        };
        Some(Known {
            number,
            members: Arc::clone(&side.members),
            remote: None,
            global: side.told.global,
        })
    }

    fn between(&mut self, side: &ResolvedGroup<'_>, remote: &ResolvedGroup<'_>) -> Option<Known> {
        let layout = &mut self.layout;
        Some(Known {
            number: layout.intercommunicator(&side.ranks, &remote.ranks)?,
            members: Arc::clone(&side.members),
            remote: Some(Arc::clone(&remote.members)),
            global: side.told.global,
        })
    }

    fn has_world(&self) -> bool {
        self.known.values().any(|known| known.number == WORLD)
    }

    /// Returns the communicator with this number in the archive.
    pub(super) fn get(&self, reference: u32) -> Option<&Known> {
        self.known.get(&reference)
    }
}

impl<'d> ResolvedGroup<'d> {
    fn of(told: &'d Otf2Group) -> Option<Self> {
        if !told.mpi {
            return None;
        }
        let members: &[u64] = match told.kind {
            COMM_SELF => &[],
            _ => &told.members,
        };
        let ranks: Option<Vec<u32>> = members
            .iter()
            .map(|member| u32::try_from(*member).ok())
            .collect();
        let ranks = ranks?;
        let members = ranks.iter().copied().zip(0..).collect();
        Some(Self {
            told,
            ranks,
            members: Arc::new(members),
        })
    }

    /// True if it has all processes, in their order.
    fn is_all(&self, processes: u32) -> bool {
        self.ranks.len() == processes as usize && self.ranks.iter().copied().eq(0..processes)
    }
}

impl Known {
    /// Returns the members to which a process of this rank among all sends.
    fn others(&self, rank: u32) -> &Members {
        match &self.remote {
            Some(remote) if self.members.contains_key(&rank) => remote,
            _ => &self.members,
        }
    }

    /// Returns the peer with this number, for a process of this rank among all.
    pub(super) fn peer(&self, rank: u32, number: u32) -> Peer {
        match self.global {
            true => match self.others(rank).get(&number) {
                Some(place) => Peer::Rank(*place),
                None => Peer::Invalid(-1),
            },
            false => Peer::Rank(number),
        }
    }

    /// Returns the number of partners in its collective operations, and the position of a process of this rank among all in its own group.
    pub(super) fn place(&self, rank: u32) -> (u32, u32) {
        let own = self.members.get(&rank).copied();
        let others = self.others(rank).len().max(1) as u32;
        (others, own.unwrap_or(0))
    }
}
