//! Processes and communicators of an imported trace.
//!
//! Formats with communicators name their members. In Belljar's trace the members follow from the calls that created them. Each process therefore begins with
//! calls of `MPI_Comm_split` on `MPI_COMM_WORLD`, one for each set of disjoint communicators. They are unselected and marked as nested, so that analyses do not
//! count them. Used by the readers.

use std::collections::{BTreeMap, BTreeSet};

use belljar_trace::{Event, Fact, Launch, Making, NewCommunicator, WORLD};

use crate::builder::calls::{Functions, ImportedThread, blank};

/// The first number of a created communicator: 0 is `MPI_COMM_WORLD`, 1 `MPI_COMM_SELF`.
const FIRST_MADE: u32 = 2;
/// Most calls of all processes before their first own ones.
const MOST_CALLS: u64 = 1 << 24;
/// Most steps for finding them.
const MOST_WORK: u64 = 1 << 28;
/// Most of them for each process: traces keep this many communicators of a thread.
const MOST_SPLITS: usize = 4000;

/// Most nodes for formats without nodes: as many as a scenario may have.
const MOST_NODES: u32 = 4096;

/// Returns the number of nodes for this many ranks, for formats without nodes.
pub(crate) fn nodes(ranks: u32) -> u32 {
    ranks.div_ceil(on_a_node(ranks)).max(1)
}

/// Returns the node and process of a rank: each rank has a node, within the limit of nodes.
pub(crate) fn place(rank: u32, ranks: u32) -> ImportedThread {
    let together = on_a_node(ranks);
    ImportedThread {
        node: rank / together,
        process: rank % together,
        thread: 0,
        rank,
    }
}

fn on_a_node(ranks: u32) -> u32 {
    ranks.div_ceil(MOST_NODES).max(1)
}

/// Communicators that are created together.
#[derive(Debug, Default)]
struct CommunicatorSplit {
    /// The communicator of each member, and its rank there.
    members: BTreeMap<u32, (u32, u32)>,
}

/// Two groups that are connected.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    number: u32,
    /// The communicators of its sides.
    sides: [u32; 2],
    /// Their first members' ranks among all.
    leaders: [u32; 2],
}

/// The communicators of a job with this many ranks.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    ranks: u32,
    next: u32,
    splits: Vec<CommunicatorSplit>,
    /// Number of steps taken to find splits with space.
    work: u64,
    meetings: Vec<Meeting>,
}

impl Layout {
    pub(crate) fn new(ranks: u32) -> Self {
        Self {
            ranks,
            next: FIRST_MADE,
            ..Self::default()
        }
    }

    /// Adds a communicator of these ranks, in this order. Returns its number in all of its members; `None` if there are too many, or a rank is invalid or occurs
    /// twice.
    pub(crate) fn communicator(&mut self, members: &[u32]) -> Option<u32> {
        let steps = (self.splits.len() + 1).saturating_mul(members.len() + 1);
        self.work = self.work.saturating_add(steps as u64);
        if self.work > MOST_WORK {
            return None;
        }
        let distinct: BTreeSet<u32> = members.iter().copied().collect();
        let sound = distinct.len() == members.len() && members.iter().all(|it| *it < self.ranks);
        if !sound || members.is_empty() {
            return None;
        }
        let free =
            |split: &CommunicatorSplit| members.iter().all(|it| !split.members.contains_key(it));
        let index = match self.splits.iter().position(free) {
            Some(index) => index,
            None if self.splits.len() >= MOST_SPLITS
                || self.calls_of_all(self.splits.len() + 1) > MOST_CALLS =>
            {
                return None;
            }
            None => {
                self.splits.push(CommunicatorSplit::default());
                self.splits.len() - 1
            }
        };
        let number = self.next;
        self.next += 1;
        let ranks = members.iter().copied().zip(0u32..);
        let own = ranks.map(|(member, rank)| (member, (number, rank)));
        self.splits[index].members.extend(own);
        Some(number)
    }

    /// Adds an intercommunicator of two groups of ranks.
    pub(crate) fn intercommunicator(&mut self, first: &[u32], second: &[u32]) -> Option<u32> {
        let leaders = [*first.first()?, *second.first()?];
        let sides = [self.communicator(first)?, self.communicator(second)?];
        let number = self.next;
        self.next += 1;
        self.meetings.push(Meeting {
            number,
            sides,
            leaders,
        });
        Some(number)
    }

    fn calls_of_all(&self, splits: usize) -> u64 {
        u64::from(self.ranks).saturating_mul(splits as u64)
    }

    /// Passes to `to` the calls that a process made before its first own one.
    pub(crate) fn opening<E>(
        &self,
        functions: &Functions,
        place: ImportedThread,
        at: u64,
        mut to: impl FnMut(&Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut tell = |name: &str, fact: Fact| {
            let function = functions.number(name).unwrap_or(u16::MAX);
            let mut event = blank(place, function, at, Some(at));
            (event.depth, event.selected) = (1, false);
            event.communicator = Some(WORLD);
            event.fact = Some(fact);
            to(&event)
        };
        let launch = Launch {
            name: Some("imported".to_owned()),
            size: Some(self.ranks),
        };
        tell("MPI_Comm_size", Fact::Launch(launch))?;
        let mut sides = BTreeSet::new();
        for (sequence, split) in (0u32..).zip(&self.splits) {
            let own = split.members.get(&place.rank);
            sides.extend(own.map(|(number, _)| *number));
            let how = Making::Split {
                color: own.map(|(number, _)| number.cast_signed()),
                key: own.map_or(0, |(_, rank)| rank.cast_signed()),
            };
            let new = NewCommunicator {
                number: own.map(|(number, _)| *number),
                parent: Some(WORLD),
                sequence,
                how,
            };
            tell("MPI_Comm_split", Fact::Communicator(new))?;
        }
        for meeting in &self.meetings {
            let mut own = (0..2usize).filter(|side| sides.contains(&meeting.sides[*side]));
            if let Some(side) = own.next() {
                let new = meeting.seen_from(side);
                tell("MPI_Intercomm_create", Fact::Communicator(new))?;
            }
        }
        Ok(())
    }
}

impl Meeting {
    fn seen_from(&self, side: usize) -> NewCommunicator {
        NewCommunicator {
            number: Some(self.number),
            parent: Some(self.sides[side]),
            sequence: 0,
            how: Making::Intercomm {
                local_leader: 0,
                bridge: Some(WORLD),
                remote_leader: self.leaders[1 - side],
                tag: self.number.cast_signed(),
            },
        }
    }
}
