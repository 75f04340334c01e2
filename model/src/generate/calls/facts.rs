//! Facts of calls about MPI objects: communicators, and the groups that they are created from.
//!
//! The members of a communicator are known before any call is generated. A group that becomes one is written with its members, so that readers of the trace find the same
//! ones. Used for each call.

use std::collections::BTreeMap;

use belljar_trace::{Event, Fact, GroupMembers, Making};

use super::{At, RankCalls};
use crate::generate::groups::lengths;
use crate::model::{Class, Counter, Shape};

/// Most groups of a process that are followed from one to the next.
const MOST_STEPS: u32 = 64;

/// Groups that calls of a class create.
#[derive(Clone, Debug)]
pub(super) struct MadeGroups<'m> {
    /// The origin of each group, by number.
    groups: BTreeMap<u32, &'m GroupMembers>,
    /// The communicator created from each group, by number.
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

    /// Returns the group of a whole communicator from which a group is derived, and that communicator. `None` for a group that is a whole communicator itself, or without
    /// such an origin.
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
    /// Returns the members of a communicator's group, as ranks of a group created earlier.
    fn group(&self, number: u32) -> Option<GroupMembers> {
        let made = self.made.communicators.get(&number)?;
        let (from, whole) = self.made.whole(number)?;
        let places = (0_u32..).zip(self.groups.members(self.rank, whole)?);
        let places: BTreeMap<u32, u32> = places.map(|(at, member)| (*member, at)).collect();
        let members = self.groups.members(self.rank, *made)?.iter();
        let ranks: Option<Vec<u32>> = members.map(|it| places.get(it).copied()).collect();
        Some(GroupMembers::Include(Some(from), ranks?))
    }

    /// Returns the call's fact about MPI objects.
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
