//! Who is who, and which communicators there are.
//!
//! Formats that have communicators name their members. In Belljar's trace these follow from the calls that made them, so each process has calls before its first
//! own one: `MPI_Comm_split` of `MPI_COMM_WORLD`, one for as many communicators as have no member in common. They are not selected and stand within the
//! library, so that nobody counts them. Called by the readers.

use std::collections::{BTreeMap, BTreeSet};

use belljar_trace::{Event, Fact, Launch, Making, NewCommunicator, WORLD};

use crate::builder::calls::{Functions, Place, blank};

/// The first number of a communicator that is made: 0 is `MPI_COMM_WORLD`, 1 `MPI_COMM_SELF`.
const FIRST_MADE: u32 = 2;
/// Calls of all processes before their first own ones, at most.
const MOST_CALLS: u64 = 1 << 24;
/// Steps that finding them may take.
const MOST_WORK: u64 = 1 << 28;
/// Of these, of each process: traces remember so many communicators of a thread.
const MOST_SPLITS: usize = 4000;

/// Nodes of formats that tell none, at most: as many as a scenario may have.
const MOST_NODES: u32 = 4096;

/// How many nodes so many ranks are on, of formats that tell none.
pub(crate) fn nodes(ranks: u32) -> u32 {
    ranks.div_ceil(on_a_node(ranks)).max(1)
}

/// Where a rank of so many is: each on a node of its own, as long as there may be so many.
pub(crate) fn place(rank: u32, ranks: u32) -> Place {
    let together = on_a_node(ranks);
    Place {
        node: rank / together,
        process: rank % together,
        thread: 0,
        rank,
    }
}

fn on_a_node(ranks: u32) -> u32 {
    ranks.div_ceil(MOST_NODES).max(1)
}

/// Communicators that are made together.
#[derive(Debug, Default)]
struct Split {
    /// Of each member: the communicator, and its rank there.
    members: BTreeMap<u32, (u32, u32)>,
}

/// Two groups that meet.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    number: u32,
    /// The communicators of its sides.
    sides: [u32; 2],
    /// Their first members' ranks among all.
    leaders: [u32; 2],
}

/// The communicators of a job of so many ranks.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    ranks: u32,
    next: u32,
    splits: Vec<Split>,
    /// Steps that were taken to find splits with room.
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

    /// A communicator of these ranks, in this order. Returns its number in all of its members; `None` where there are too many, or a rank is none or twice there.
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
        let free = |split: &Split| members.iter().all(|it| !split.members.contains_key(it));
        let index = match self.splits.iter().position(free) {
            Some(index) => index,
            None if self.splits.len() >= MOST_SPLITS
                || self.calls_of_all(self.splits.len() + 1) > MOST_CALLS =>
            {
                return None;
            }
            None => {
                self.splits.push(Split::default());
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

    /// An intercommunicator of two groups of ranks.
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

    /// Tells `to` of the calls that a process made before its first own one.
    pub(crate) fn opening<E>(
        &self,
        functions: &Functions,
        (place, at): (Place, u64),
        mut to: impl FnMut(&Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut tell = |name: &str, fact: Fact| {
            let function = functions.number(name).unwrap_or(u16::MAX);
            let mut event = blank(place, function, (at, Some(at)));
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
