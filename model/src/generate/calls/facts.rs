//! What calls say about MPI objects: communicators, and the groups that they are made of.
//!
//! Who is in a communicator is known before any call is made; a group of which one is made is told as its members, so that whoever reads the trace finds the same ones. Called for each call.

use std::collections::BTreeMap;

use belljar_trace::{Event, Fact, GroupMembers, Making};

use super::{At, RankCalls};
use crate::generate::groups::lengths;
use crate::model::{Class, Counter, Shape};

/// Groups of a process, followed from group to group so often at most.
const MOST_STEPS: u32 = 64;

/// Groups that calls of a class make.
#[derive(Clone, Debug)]
pub(super) struct MadeGroups<'m> {
    /// By number, how.
    groups: BTreeMap<u32, &'m GroupMembers>,
    /// By number, the communicator that is made of it.
    communicators: BTreeMap<u32, u32>,
}

impl<'m> MadeGroups<'m> {
    pub(super) fn of(templates: &'m [Event], class: &Class) -> Self {
        let mut own = Self {
            groups: BTreeMap::new(),
            communicators: BTreeMap::new(),
        };
        for call in &class.calls {
            match templates.get(call.template as usize).map(|it| &it.fact) {
                Some(Some(Fact::Group { number, members })) => {
                    own.groups.insert(*number, members);
                }
                Some(Some(Fact::Communicator(new))) => {
                    if let (
                        Making::Create { group: Some(group) }
                        | Making::CreateGroup {
                            group: Some(group), ..
                        },
                        Some(number),
                    ) = (&new.how, new.number)
                    {
                        own.communicators.insert(*group, number);
                    }
                }
                _ => {}
            }
        }
        own
    }

    /// The group of a whole communicator that a group is made from, and that communicator; `None` for one that is a whole communicator itself, or made of none.
    fn whole(&self, group: u32) -> Option<(u32, u32)> {
        let mut number = group;
        for _ in 0..MOST_STEPS {
            number = match self.groups.get(&number)? {
                GroupMembers::Of(communicator) => {
                    return (number != group).then_some((number, *communicator));
                }
                GroupMembers::Include(from, _)
                | GroupMembers::Exclude(from, _)
                | GroupMembers::Union(from, _)
                | GroupMembers::Intersection(from, _)
                | GroupMembers::Difference(from, _) => (*from)?,
                GroupMembers::RemoteOf(_) | GroupMembers::Unknown => return None,
            };
        }
        None
    }
}

impl RankCalls<'_> {
    /// The members of a group of which a communicator is made, as ranks of a group that was made before.
    fn group(&self, number: u32) -> Option<GroupMembers> {
        let made = self.made.communicators.get(&number)?;
        let (from, whole) = self.made.whole(number)?;
        let places = (0_u32..).zip(self.groups.members(self.rank, whole)?);
        let places: BTreeMap<u32, u32> = places.map(|(at, member)| (*member, at)).collect();
        let members = self.groups.members(self.rank, *made)?.iter();
        let ranks: Option<Vec<u32>> = members.map(|it| places.get(it).copied()).collect();
        Some(GroupMembers::Include(Some(from), ranks?))
    }

    /// What the call says about MPI objects.
    pub(super) fn fact(&self, fact: Fact, shape: &Shape, at: At) -> Fact {
        match fact {
            Fact::Launch(mut launch) => {
                launch.size = launch.size.map(|_| self.ranks);
                Fact::Launch(launch)
            }
            Fact::Size { communicator, .. } => Fact::Size {
                communicator,
                size: self.groups.place(self.rank, Some(communicator)).1,
            },
            Fact::Rank { communicator, .. } => Fact::Rank {
                communicator,
                rank: self.groups.place(self.rank, Some(communicator)).0,
            },
            Fact::Communicator(mut new) => {
                let place = self.place(new.parent, at, Counter::Turn);
                match (&mut new.how, shape) {
                    (
                        Making::Split { color, key },
                        Shape::Split {
                            color: by,
                            key: order,
                        },
                    ) => {
                        *color = color.and(by.at(place).map(u32::cast_signed));
                        *key = order.at(place).map_or(*key, u32::cast_signed);
                    }
                    (
                        Making::DistGraphAdjacent {
                            sources,
                            destinations,
                        },
                        Shape::Degrees {
                            sources: from,
                            destinations: to,
                        },
                    ) => {
                        *sources = from.at(place).unwrap_or(*sources);
                        *destinations = to.at(place).unwrap_or(*destinations);
                    }
                    (Making::Cart { dimensions, .. }, shape) => {
                        *dimensions = lengths(dimensions, shape, place.ranks);
                    }
                    _ => {}
                }
                Fact::Communicator(new)
            }
            Fact::Group { number, members } => Fact::Group {
                number,
                members: self.group(number).unwrap_or(members),
            },
            other => other,
        }
    }
}
