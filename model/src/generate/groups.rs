//! Members of communicators.
//!
//! A communicator is created when the next constructor of all members of its parent is called on that parent. Used by `generate`.

use std::collections::BTreeMap;

use belljar_trace::{Event, Fact, Making, NewCommunicator, SELF, WORLD};

use super::GenerateError;
use super::plan::Planned;
use crate::model::{Class, Shape};
use crate::relation::{Grid, RelationArguments};

/// Communicators of all ranks.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Index of a communicator, by rank and its own number.
    own: BTreeMap<(u32, u32), usize>,
    all: Vec<GeneratedCommunicator>,
}

/// A communicator of a generated run.
#[derive(Clone, Debug, Default)]
struct GeneratedCommunicator {
    /// Its members, in the order of their ranks in it.
    members: Vec<u32>,
    /// The dimensions of its grid, if it has one.
    grid: Vec<u32>,
}

/// A constructor that a rank will call.
#[derive(Clone, Copy, Debug)]
struct PlannedConstructor<'m> {
    new: &'m NewCommunicator,
    shape: &'m Shape,
    turn: u32,
    function: &'static str,
}

/// A member of the communicator on which a constructor is called, and its call.
type Caller<'m> = (u32, PlannedConstructor<'m>);

impl Groups {
    /// Creates the communicators of ranks with these plans.
    pub(super) fn make<'m>(
        templates: &'m [Event],
        plans: &[(&'m Class, Vec<Planned>)],
        per_node: u32,
    ) -> Result<Self, GenerateError> {
        let mut groups = Self::default();
        let ranks = plans.len() as u32;
        let world = groups.add((0..ranks).collect(), Vec::new());
        for rank in 0..ranks {
            groups.own.insert((rank, WORLD), world);
            let own = groups.add(vec![rank], Vec::new());
            groups.own.insert((rank, SELF), own);
        }
        let wanted = |(class, plan): &(&'m Class, Vec<Planned>)| -> Vec<PlannedConstructor<'m>> {
            let all = plan.iter().filter_map(|planned| {
                let call = &class.calls[planned.call as usize];
                let event = &templates[call.template as usize];
                let Some(Fact::Communicator(new)) = &event.fact else {
                    return None;
                };
                Some(PlannedConstructor {
                    new,
                    shape: &call.shape,
                    turn: planned.turns.turn,
                    function: event.name(),
                })
            });
            all.collect()
        };
        let mut left: Vec<Vec<PlannedConstructor<'m>>> = plans.iter().map(wanted).collect();
        for own in &mut left {
            own.reverse();
        }
        while let Some(callers) = groups.next(&left)? {
            for (rank, _) in &callers {
                left[*rank as usize].pop();
            }
            groups.construct(&callers, per_node)?;
        }
        Ok(groups)
    }

    fn add(&mut self, members: Vec<u32>, grid: Vec<u32>) -> usize {
        self.all.push(GeneratedCommunicator { members, grid });
        self.all.len() - 1
    }

    /// Returns all members of a communicator whose next constructors are called on it; `None` if no constructors are left.
    fn next<'m>(
        &self,
        left: &[Vec<PlannedConstructor<'m>>],
    ) -> Result<Option<Vec<Caller<'m>>>, GenerateError> {
        let mut waiting = None;
        for (rank, own) in (0..).zip(left) {
            let Some(wanted) = own.last() else {
                continue;
            };
            let on = self.parent(rank, wanted)?;
            let callers = match self.meeting(on, rank, wanted) {
                None => self.all_of(on, left),
                Some(meeting) => self.those_of(on, &meeting, left),
            };
            if callers.is_some() {
                return Ok(callers);
            }
            waiting.get_or_insert(*wanted);
        }
        match waiting {
            Some(wanted) => Err(unknown(&wanted, "its members do not all call it")),
            None => Ok(None),
        }
    }

    /// Returns all members of a communicator, if the next constructor of each is called on it.
    fn all_of<'m>(
        &self,
        on: usize,
        left: &[Vec<PlannedConstructor<'m>>],
    ) -> Option<Vec<Caller<'m>>> {
        let members = self.all[on].members.iter();
        let callers = members.map(|member| {
            let next = *left[*member as usize].last()?;
            let same = self.parent(*member, &next).is_ok_and(|its| its == on);
            (same && tag(&next).is_none()).then_some((*member, next))
        });
        callers.collect()
    }

    /// Returns the key that distinguishes a constructor called only by a group's members from others of that communicator: its tag, and the
    /// first member.
    fn meeting(
        &self,
        on: usize,
        rank: u32,
        wanted: &PlannedConstructor<'_>,
    ) -> Option<(i32, Option<u32>)> {
        let tag = tag(wanted)?;
        let Shape::Members { first, .. } = wanted.shape else {
            return Some((tag, None));
        };
        let members = &self.all[on].members;
        let at = members.iter().position(|member| *member == rank)?;
        let place = RelationArguments {
            rank: at as u32,
            ranks: members.len() as u32,
            turn: wanted.turn,
        };
        Some((tag, first.at(place)))
    }

    /// Returns the members of a communicator that still have to call a constructor with that key, if it is the next one of each.
    fn those_of<'m>(
        &self,
        on: usize,
        meeting: &(i32, Option<u32>),
        left: &[Vec<PlannedConstructor<'m>>],
    ) -> Option<Vec<Caller<'m>>> {
        let mut callers = Vec::new();
        for member in &self.all[on].members {
            let own = &left[*member as usize];
            let is_of = |wanted: &PlannedConstructor<'_>| {
                tag(wanted).is_some()
                    && self.parent(*member, wanted).is_ok_and(|its| its == on)
                    && self.meeting(on, *member, wanted).as_ref() == Some(meeting)
            };
            if let Some(next) = own.last().filter(|wanted| is_of(wanted)) {
                callers.push((*member, *next));
            } else if own.iter().any(is_of) {
                return None;
            }
        }
        Some(callers)
    }

    fn parent(&self, rank: u32, wanted: &PlannedConstructor<'_>) -> Result<usize, GenerateError> {
        let parent = wanted.new.parent;
        let known = parent.and_then(|parent| self.own.get(&(rank, parent)));
        known
            .copied()
            .ok_or_else(|| unknown(wanted, "the one that it is made from is not known"))
    }

    /// Creates a communicator by its members' constructors.
    fn construct(&mut self, callers: &[Caller<'_>], per_node: u32) -> Result<(), GenerateError> {
        let Some((first, wanted)) = callers.first() else {
            return Ok(());
        };
        let parent = self.all[self.parent(*first, wanted)?].clone();
        let ranks = parent.members.len() as u32;
        // If only a group's members call it, there are fewer callers than members of the communicator.
        let places: BTreeMap<u32, u32> = (0..)
            .zip(&parent.members)
            .map(|(at, it)| (*it, at))
            .collect();
        // The members of the new communicators by their keys and ranks, for each value that separates the communicators.
        let mut new: BTreeMap<i64, Vec<(i64, u32, Caller<'_>)>> = BTreeMap::new();
        let mut grid = Vec::new();
        for caller in callers {
            let (rank, wanted) = caller;
            let at = places.get(rank).copied().unwrap_or(0);
            let place = RelationArguments {
                rank: at,
                ranks,
                turn: wanted.turn,
            };
            let (color, key) = match (&wanted.new.how, wanted.shape) {
                (Making::Split { color: None, .. }, _) => continue,
                (Making::Split { .. }, Shape::Split { color, key }) => {
                    let color = color
                        .at(place)
                        .ok_or_else(|| unknown(wanted, "its colour is none"))?;
                    (i64::from(color), key.at(place).map_or(0, i64::from))
                }
                (Making::SplitByNode { member, .. }, _) => match member {
                    true => (i64::from(rank / per_node), 0),
                    false => continue,
                },
                (Making::Create { .. }, _) if wanted.new.number.is_none() => continue,
                (
                    Making::Create { .. } | Making::CreateGroup { .. },
                    Shape::Members { first, key },
                ) => {
                    let first = first
                        .at(place)
                        .ok_or_else(|| unknown(wanted, "its first member is none"))?;
                    (i64::from(first), key.at(place).map_or(0, i64::from))
                }
                (Making::DistGraph { .. } | Making::DistGraphAdjacent { .. }, _) => (0, 0),
                (Making::Cart { dimensions, .. }, shape) => {
                    grid = lengths(dimensions, shape, ranks);
                    (0, 0)
                }
                (Making::CartSub { remain }, _) => (others(&parent.grid, remain, at), 0),
                (Making::Duplicate, _) => {
                    grid.clone_from(&parent.grid);
                    (0, 0)
                }
                _ => return Err(unknown(wanted, "it depends on what a model does not know")),
            };
            new.entry(color).or_default().push((key, at, *caller));
        }
        for mut members in new.into_values() {
            members.sort_by_key(|(key, at, _)| (*key, *at));
            let ranks = members.iter().map(|(.., (rank, _))| *rank).collect();
            let group = self.add(ranks, grid.clone());
            for (.., (rank, wanted)) in members {
                if let Some(number) = wanted.new.number {
                    self.own.insert((rank, number), group);
                }
            }
        }
        Ok(())
    }

    /// Returns the members of a rank's communicator, in their order.
    pub(super) fn members(&self, rank: u32, communicator: u32) -> Option<&[u32]> {
        let group = self.own.get(&(rank, communicator))?;
        Some(&self.all[*group].members)
    }

    /// Returns the index among all communicators of a rank's own one.
    pub(super) fn number(&self, rank: u32, communicator: u32) -> Option<usize> {
        self.own.get(&(rank, communicator)).copied()
    }

    /// Returns the rank in the world of a member of the communicator with that index.
    pub(super) fn world_rank(&self, group: usize, member: u32) -> Option<u32> {
        self.all.get(group)?.members.get(member as usize).copied()
    }

    /// Returns a rank's position in one of its communicators, or in the world if it has no communicator of that number.
    pub(super) fn place(&self, rank: u32, communicator: Option<u32>) -> (u32, u32) {
        let number = communicator.unwrap_or(WORLD);
        let group = self.own.get(&(rank, number));
        let group = &self.all[group.copied().unwrap_or(0)];
        let at = match group.members.len() == self.all[0].members.len() && number == WORLD {
            true => Some(rank as usize),
            false => group.members.iter().position(|member| *member == rank),
        };
        (at.unwrap_or(0) as u32, group.members.len() as u32)
    }
}

/// Returns the tag of a constructor that only a group's members call.
fn tag(wanted: &PlannedConstructor<'_>) -> Option<i32> {
    match wanted.new.how {
        Making::CreateGroup { tag, .. } => Some(tag),
        _ => None,
    }
}

/// Returns the dimensions of a grid with this many ranks.
pub(super) fn lengths(dimensions: &[u32], shape: &Shape, ranks: u32) -> Vec<u32> {
    match shape {
        Shape::Grid { ascending } => Grid {
            dimensions: dimensions.len().min(4) as u8,
            ascending: *ascending,
        }
        .lengths(ranks),
        _ => dimensions.to_vec(),
    }
}

/// Returns the position of a rank in the removed dimensions of a grid.
fn others(grid: &[u32], remain: &[bool], rank: u32) -> i64 {
    let mut left = i64::from(rank);
    let (mut place, mut by) = (0, 1);
    for (at, length) in grid.iter().enumerate().rev() {
        let length = i64::from((*length).max(1));
        if !remain.get(at).copied().unwrap_or(false) {
            place += left % length * by;
            by *= length;
        }
        left /= length;
    }
    place
}

fn unknown(wanted: &PlannedConstructor<'_>, why: &'static str) -> GenerateError {
    GenerateError::Communicator {
        function: wanted.function.to_owned(),
        why,
    }
}
