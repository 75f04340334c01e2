//! Communicators of groups: only the group's members call, so calls on the parent do not count them.
//!
//! Matching calls are found by members, tag, and the number of earlier ones. A communicator stays
//! unknown if a member's call is missing. Called in each round of `resolve`.

use std::collections::BTreeMap;

use belljar_trace::Making;

use super::{Global, Member, ProcessKey, Resolver};

/// One side of an `MPI_Intercomm_create_from_groups`: members, tag, and number of earlier ones.
type Side = (Vec<Member>, i32, u32);

/// Members of a side that called, by rank, and the other side's members, which only the leader passes.
type Present = (Vec<(ProcessKey, u32)>, Option<Vec<Member>>);

impl Resolver<'_> {
    /// Resolves `MPI_Comm_create_group`s: only the group's members call, so they are matched by parent,
    /// members, tag, and the number of earlier ones.
    pub(super) fn create_groups(&mut self) {
        type Meeting = (usize, Vec<Member>, i32, u32);
        let mut meetings: BTreeMap<Meeting, Vec<(ProcessKey, u32)>> = BTreeMap::new();
        for (process, history) in self.histories {
            let mut before: BTreeMap<(usize, Vec<Member>, i32), u32> = BTreeMap::new();
            for new in &history.apart {
                let (Some(parent), Some(number), Making::CreateGroup { group, tag }) =
                    (new.parent, new.number, &new.how)
                else {
                    continue;
                };
                let members = group.and_then(|group| self.group(*process, group));
                let parent = self.known.get(&(*process, parent)).copied();
                let (Some(members), Some(parent)) = (members, parent) else {
                    continue;
                };
                // Stored twice below.
                if self.spend(2 * members.len()).is_none() {
                    return;
                }
                let count = before.entry((parent, members.clone(), *tag)).or_default();
                let meeting = (parent, members, *tag, *count);
                *count += 1;
                if !self.known.contains_key(&(*process, number)) {
                    meetings
                        .entry(meeting)
                        .or_default()
                        .push((*process, number));
                }
            }
        }
        for ((_, members, _, _), present) in meetings {
            if let Some(global) = self.gathered(members, &present) {
                self.add(global);
            }
        }
    }

    /// A communicator of these members, if exactly their processes are present.
    pub(super) fn gathered(
        &self,
        members: Vec<Member>,
        present: &[(ProcessKey, u32)],
    ) -> Option<Global> {
        let numbers: BTreeMap<ProcessKey, u32> = present.iter().copied().collect();
        if members.is_empty() || numbers.len() != members.len() {
            return None;
        }
        let local = members
            .iter()
            .map(|member| {
                let process = self.ranks.get(member)?;
                Some((*process, *numbers.get(process)?))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Global {
            members: members.into_iter().collect(),
            remote: None,
            topology: None,
            local,
            other_side: None,
        })
    }

    /// Resolves `MPI_Intercomm_create_from_groups`: two groups that name each other.
    pub(super) fn intercomms_of_groups(&mut self) {
        let mut sides: BTreeMap<Side, Present> = BTreeMap::new();
        for (process, history) in self.histories {
            let mut before: BTreeMap<(Vec<Member>, i32), u32> = BTreeMap::new();
            for new in &history.apart {
                let (
                    Some(number),
                    &Making::IntercommGroups {
                        local,
                        remote,
                        leader,
                        tag,
                    },
                ) = (new.number, &new.how)
                else {
                    continue;
                };
                let Some(members) = local.and_then(|local| self.group(*process, local)) else {
                    continue;
                };
                // Stored twice below.
                if self.spend(2 * members.len()).is_none() {
                    return;
                }
                let leader = members.get(leader as usize);
                let leads = leader.and_then(|leader| self.ranks.get(leader)) == Some(process);
                let count = before.entry((members.clone(), tag)).or_default();
                let side = sides.entry((members, tag, *count)).or_default();
                *count += 1;
                side.0.push((*process, number));
                if leads {
                    side.1 = remote.and_then(|remote| self.group(*process, remote));
                }
            }
        }
        for ((members, tag, count), (present, remote)) in &sides {
            let Some(remote) = remote else { continue };
            let other = (remote.clone(), *tag, *count);
            let named = sides
                .get(&other)
                .map(|(_, back)| back.as_ref() == Some(members));
            // Handle each pair once.
            if named == Some(true) && members < remote {
                let first = self.gathered(members.clone(), present);
                let second = self.gathered(remote.clone(), &sides[&other].0);
                if let (Some(mut first), Some(mut second)) = (first, second) {
                    first.remote = Some(second.members.clone());
                    second.remote = Some(first.members.clone());
                    self.add_sides(first, second);
                }
            }
        }
    }
}
