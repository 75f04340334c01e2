//! Members of communicators that a call creates, as relations of the caller's rank.
//!
//! The callers' arguments are not sufficient: for groups the result matters, which is in the trace's communicators. Used for each
//! call's model.

use std::collections::BTreeMap;

use belljar_job::Member;
use belljar_trace::{Event, Fact, Making, NewCommunicator};

use super::super::LearnError;
use super::{CallInstances, Instance};
use crate::model::call::{Counter, Shape};
use crate::relation::{Grid, Relation};

/// Returns the communicator that the call creates.
fn new<'i>(of: &'i Instance<'_>) -> Option<&'i NewCommunicator> {
    match &of.event().fact {
        Some(Fact::Communicator(new)) => Some(new),
        _ => None,
    }
}

/// A communicator created from a group.
#[derive(Clone, Debug)]
struct CreatedCommunicator {
    /// The parent communicator.
    parent: Option<u32>,
    /// Ranks there of the members of the new one, in their order.
    members: Vec<u32>,
    /// The caller's rank in the new one.
    rank: u32,
}

/// Returns the members of the caller's new communicator; `None` if the trace does not contain them.
fn gathered(of: &Instance<'_>) -> Option<CreatedCommunicator> {
    let made = new(of)?;
    let known = &of.run.communicators;
    let process = (of.event().node, of.event().process);
    let members = known.members(process, made.number?)?;
    let from = known.members(process, made.parent?)?;
    let places: BTreeMap<Member, u32> = from.iter().zip(0..).collect();
    let ranks = members.iter().map(|member| places.get(&member).copied());
    Some(CreatedCommunicator {
        parent: made.parent,
        members: ranks.collect::<Option<_>>()?,
        rank: known.rank(process, made.number?)?,
    })
}

impl CallInstances<'_, '_> {
    pub(super) fn shape(&self, template: &Event) -> Result<Shape, LearnError> {
        let Some(Fact::Communicator(made)) = &template.fact else {
            return Ok(Shape::AsTraced);
        };
        match &made.how {
            Making::Split { .. } => self.split(),
            // Ranks outside of it need no relation.
            Making::Create { .. } | Making::CreateGroup { .. } if made.number.is_some() => {
                self.members()
            }
            Making::DistGraphAdjacent { .. } => self.degrees(),
            Making::Cart { dimensions, .. } => Ok(self.grid(dimensions.len() as u8)),
            _ => Ok(Shape::AsTraced),
        }
    }

    fn split(&self) -> Result<Shape, LearnError> {
        let split = |which: bool| {
            move |it: &Instance<'_>| {
                let new = new(it)?;
                let Making::Split { color, key } = new.how else {
                    return None;
                };
                let number = if which { color? } else { key };
                Some((new.parent, u32::try_from(number).ok()))
            }
        };
        let (color, _) = self.relation("colours", split(true))?;
        let (key, _) = self.relation("keys", split(false))?;
        Ok(Shape::Split { color, key })
    }

    /// Returns the members of a group: the first one, and their order.
    fn members(&self) -> Result<Shape, LearnError> {
        let told: Vec<Option<CreatedCommunicator>> = self.all.iter().map(gathered).collect();
        if told.iter().any(Option::is_none) {
            let example = "whose group or communicator the trace does not tell".to_owned();
            return Err(self.no_rule("members", example));
        }
        let first = |it: &Instance<'_>| {
            let of = gathered(it)?;
            Some((of.parent, of.members.iter().min().copied()))
        };
        let (first, _) = self.relation("members", first)?;
        let mut known = told.iter().flatten();
        let key = match known.all(|of| of.members.is_sorted()) {
            true => Relation::Fixed(0),
            false => {
                let rank = |it: &Instance<'_>| {
                    let of = gathered(it)?;
                    Some((of.parent, Some(of.rank)))
                };
                self.relation("orders of members", rank)?.0
            }
        };
        Ok(Shape::Members { first, key })
    }

    fn degrees(&self) -> Result<Shape, LearnError> {
        let degree = |which: bool| {
            move |it: &Instance<'_>| {
                let new = new(it)?;
                let Making::DistGraphAdjacent {
                    sources,
                    destinations,
                } = new.how
                else {
                    return None;
                };
                let number = if which { sources } else { destinations };
                Some((new.parent, Some(number)))
            }
        };
        let (sources, _) = self.relation("numbers of neighbours", degree(true))?;
        let (destinations, _) = self.relation("numbers of neighbours", degree(false))?;
        Ok(Shape::Degrees {
            sources,
            destinations,
        })
    }

    /// Returns a grid of this many dimensions.
    fn grid(&self, count: u8) -> Shape {
        for ascending in [false, true] {
            let grid = Grid {
                dimensions: count,
                ascending,
            };
            let holds = |it: &Instance<'_>| {
                let of = new(it).map(|new| (new.parent, &new.how));
                let Some((parent, Making::Cart { dimensions, .. })) = of else {
                    return false;
                };
                *dimensions == grid.lengths(it.place(parent, Counter::Turn).ranks)
            };
            if self.all.iter().all(holds) {
                return Shape::Grid { ascending };
            }
        }
        Shape::AsTraced
    }
}
