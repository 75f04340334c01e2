//! Processes and their nodes.
//!
//! The processes of MPI are in one group, by the locations of their main threads, in the order of their numbers. A part of the machine with the class `node` is a node;
//! without such parts, the direct parent of processes. Used when all definitions are read.

use std::collections::{BTreeMap, BTreeSet};

use super::{COMM_LOCATION_GROUPS, COMM_LOCATIONS, Definitions};

/// The class of nodes in the machine's tree.
const NODE: &str = "node";
/// Deepest nesting of the machine's tree.
const DEEPEST: u32 = 64;
/// Most nodes and processes.
const MOST: usize = 1 << 20;

/// A process of MPI in an OTF2 archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::otf2::reader) struct Otf2Process {
    pub(in crate::otf2::reader) node: u32,
    /// Its threads, the main one first.
    pub(in crate::otf2::reader) locations: Vec<u64>,
}

impl Definitions {
    /// Returns the processes of MPI, by their positions in communicators.
    pub(in crate::otf2::reader) fn processes(&self) -> &[Otf2Process] {
        &self.processes
    }

    /// Returns the number of their nodes.
    pub(in crate::otf2::reader) fn nodes(&self) -> u32 {
        self.nodes.max(1)
    }

    pub(super) fn find_processes(&mut self) {
        let owners: BTreeMap<u64, u32> = self.threads.iter().copied().collect();
        let mut threads: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (location, owner) in &self.threads {
            threads.entry(*owner).or_default().push(*location);
        }
        let mut nodes: BTreeMap<Option<u32>, u32> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut processes = Vec::new();
        for (main, owner) in self.mains(&owners, &threads) {
            let place = self.places.get(&owner).copied().flatten();
            let next = nodes.len() as u32;
            let node = *nodes.entry(self.node(place)).or_insert(next);
            // A process that is named again has no events.
            let mut locations = Vec::new();
            if seen.insert(main) {
                locations.push(main);
                let own = threads.remove(&owner).unwrap_or_default();
                let others = own.into_iter().filter(|location| *location != main);
                locations.extend(others.filter(|location| seen.insert(*location)));
            }
            processes.push(Otf2Process { node, locations });
        }
        self.nodes = nodes.len() as u32;
        self.processes = processes;
    }

    /// Returns the main threads of MPI's processes with their parents, in the order of processes.
    fn mains(
        &self,
        owners: &BTreeMap<u64, u32>,
        threads: &BTreeMap<u32, Vec<u64>>,
    ) -> Vec<(u64, u32)> {
        let all = |kind| {
            let mut groups = self.groups.values();
            groups.find(|group| group.kind == kind && group.mpi)
        };
        let first = |owner: u32| Some((*threads.get(&owner)?.first()?, owner));
        let mains: Vec<(u64, u32)> = match (all(COMM_LOCATIONS), all(COMM_LOCATION_GROUPS)) {
            (Some(group), _) => {
                let members = group.members.iter();
                members
                    .filter_map(|it| Some((*it, *owners.get(it)?)))
                    .collect()
            }
            (None, Some(group)) => {
                let members = group.members.iter();
                members
                    .filter_map(|it| first(u32::try_from(*it).ok()?))
                    .collect()
            }
            (None, None) => threads.keys().filter_map(|owner| first(*owner)).collect(),
        };
        mains.into_iter().take(MOST).collect()
    }

    /// Returns the node that contains a part of the machine.
    fn node(&self, place: Option<u32>) -> Option<u32> {
        let mut at = place;
        for _ in 0..DEEPEST {
            let part = self.tree.get(&at?)?;
            if self.text(part.class) == NODE {
                return at;
            }
            let Some(parent) = part.parent else {
                break;
            };
            at = Some(parent);
        }
        place
    }
}
