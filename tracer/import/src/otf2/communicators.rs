//! Communicators and windows, as processes know them.
//!
//! An archive names the members of a communicator by their places among all processes. `MPI_COMM_WORLD` is the one of that name; its order is that of ranks. Made
//! of the definitions, before the events.

use std::collections::BTreeMap;

use belljar_trace::{Peer, SELF, WORLD};

use super::definitions::{COMM_SELF, Definitions, Group};
use crate::layout::Layout;

/// A communicator.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The number that its members have for it.
    pub(super) number: u32,
    /// Its members, and the remote ones where it has any.
    members: Members,
    remote: Option<Members>,
    /// Events name peers by their places among all processes.
    global: bool,
}

/// Members of a group: the rank of each in it, by its place among all processes.
type Members = BTreeMap<u32, u32>;

/// All communicators.
#[derive(Debug)]
pub(super) struct Communicators {
    known: BTreeMap<u32, Known>,
    pub(super) layout: Layout,
    /// How many are not known.
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
        for (reference, comm) in &definitions.comms {
            let group = |number: Option<u32>| {
                let group = definitions.groups.get(&number?)?;
                group.mpi.then_some(group)
            };
            let Some(group_of) = group(comm.group) else {
                continue;
            };
            let remote = comm.remote.map(|remote| group(Some(remote)));
            let name = definitions.text(comm.name);
            let known = match remote {
                Some(Some(remote)) => own.between(group_of, remote),
                Some(None) => None,
                None => own.among(group_of, name, processes),
            };
            match known {
                Some(known) => drop(own.known.insert(*reference, known)),
                None => own.unknown += 1,
            }
        }
        own
    }

    fn among(&mut self, group: &Group, name: &str, processes: u32) -> Option<Known> {
        let members = ranks(group)?;
        let is_all = members.iter().copied().eq(0..processes);
        let number = match name {
            _ if group.kind == COMM_SELF => SELF,
            "MPI_COMM_WORLD" if is_all => WORLD,
            _ => self.layout.communicator(&members)?,
        };
        Some(Known {
            number,
            members: numbered(&members),
            remote: None,
            global: group.global,
        })
    }

    fn between(&mut self, group: &Group, remote: &Group) -> Option<Known> {
        let (members, others) = (ranks(group)?, ranks(remote)?);
        Some(Known {
            number: self.layout.intercommunicator(&members, &others)?,
            members: numbered(&members),
            remote: Some(numbered(&others)),
            global: group.global,
        })
    }

    /// The communicator that the archive has under this number.
    pub(super) fn get(&self, reference: u32) -> Option<&Known> {
        self.known.get(&reference)
    }
}

fn ranks(group: &Group) -> Option<Vec<u32>> {
    if group.kind == COMM_SELF {
        return Some(Vec::new());
    }
    let members = group.members.iter();
    members.map(|member| u32::try_from(*member).ok()).collect()
}

fn numbered(ranks: &[u32]) -> Members {
    ranks.iter().copied().zip(0..).collect()
}

impl Known {
    /// Those whom a process of this rank among all sends to.
    fn others(&self, rank: u32) -> &Members {
        match &self.remote {
            Some(remote) if self.members.contains_key(&rank) => remote,
            _ => &self.members,
        }
    }

    /// Who is meant by a number, to a process of this rank among all.
    pub(super) fn peer(&self, rank: u32, number: u32) -> Peer {
        match self.global {
            true => match self.others(rank).get(&number) {
                Some(place) => Peer::Rank(*place),
                None => Peer::Invalid(-1),
            },
            false => Peer::Rank(number),
        }
    }

    /// How many give and get in its collective operations, and the place of a process of this rank among its own ones.
    pub(super) fn place(&self, rank: u32) -> (u32, u32) {
        let own = self.members.get(&rank).copied();
        let others = self.others(rank).len().max(1) as u32;
        (others, own.unwrap_or(0))
    }
}
