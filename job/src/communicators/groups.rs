//! The members of groups (MPI-4.0, 7.3.2).
//!
//! A group is computed from the groups that it was made from, with limits on depth and work: for a hostile
//! trace, members stay unknown. Called by `resolve` for each process's own groups.

use std::collections::BTreeSet;

use belljar_trace::GroupMembers;

use super::Member;

/// Limit on the nesting of groups made from groups.
const MAX_DEPTH: u32 = 64;

/// Data from which groups are computed.
pub(super) trait GroupSource {
    /// The origin of the group with this number.
    fn group(&self, number: u32) -> Option<&GroupMembers>;
    /// Subtracts `work` from the budget; `None` if it is used up.
    fn spend(&mut self, work: usize) -> Option<()>;
    /// The members of a communicator (or of its remote group); `None` if not yet known, or if computing
    /// them would exceed the budget.
    fn communicator(&mut self, number: u32, remote: bool) -> Option<Vec<Member>>;
}

/// The members of group number `number`, in order.
pub(super) fn members(source: &mut impl GroupSource, number: u32) -> Option<Vec<Member>> {
    evaluate(source, number, MAX_DEPTH)
}

fn evaluate(source: &mut impl GroupSource, number: u32, depth: u32) -> Option<Vec<Member>> {
    let depth = depth.checked_sub(1)?;
    source.spend(1)?;
    let members = source.group(number)?.clone();
    match members {
        GroupMembers::Of(communicator) => source.communicator(communicator, false),
        GroupMembers::RemoteOf(communicator) => source.communicator(communicator, true),
        GroupMembers::Include(from, ranks) => {
            let from = evaluate(source, from?, depth)?;
            source.spend(ranks.len())?;
            ranks
                .iter()
                .map(|rank| from.get(*rank as usize).copied())
                .collect()
        }
        GroupMembers::Exclude(from, ranks) => {
            let from = evaluate(source, from?, depth)?;
            source.spend(ranks.len())?;
            let out: BTreeSet<u32> = ranks.into_iter().collect();
            let kept = from.into_iter().zip(0u32..);
            Some(
                kept.filter(|(_, rank)| !out.contains(rank))
                    .map(|(member, _)| member)
                    .collect(),
            )
        }
        GroupMembers::Union(first, second) => {
            let (mut first, second) = both(source, first, second, depth)?;
            let known: BTreeSet<Member> = first.iter().copied().collect();
            first.extend(second.into_iter().filter(|member| !known.contains(member)));
            Some(first)
        }
        GroupMembers::Intersection(first, second) => {
            let (mut first, second) = both(source, first, second, depth)?;
            let second: BTreeSet<Member> = second.into_iter().collect();
            first.retain(|member| second.contains(member));
            Some(first)
        }
        GroupMembers::Difference(first, second) => {
            let (mut first, second) = both(source, first, second, depth)?;
            let second: BTreeSet<Member> = second.into_iter().collect();
            first.retain(|member| !second.contains(member));
            Some(first)
        }
        GroupMembers::Unknown => None,
    }
}

fn both(
    source: &mut impl GroupSource,
    first: Option<u32>,
    second: Option<u32>,
    depth: u32,
) -> Option<(Vec<Member>, Vec<Member>)> {
    Some((
        evaluate(source, first?, depth)?,
        evaluate(source, second?, depth)?,
    ))
}
