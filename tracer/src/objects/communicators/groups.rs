//! Creation of groups.
//!
//! Finds the origin of a group, and its size if the arguments determine it; if an array cannot be read whole, it is
//! unknown. Used when a constructor of a group returns.

use belljar_trace::{GroupMembers, SELF, WORLD};

use super::{Communicators, MpiGroup};
use crate::decode::arguments::Arguments;

impl Communicators {
    pub(super) fn group_members(
        &self,
        arguments: &mut Arguments<'_>,
    ) -> (GroupMembers, Option<u32>) {
        let group = |arguments: &Arguments<'_>, name| {
            let handle = arguments.word(name)?;
            self.groups.get(handle).copied()
        };
        let from = group(arguments, "group");
        let origin = from.map(|group| group.number);
        let pair = |arguments: &Arguments<'_>| {
            let number = |name| group(arguments, name).map(|group| group.number);
            (number("group1"), number("group2"))
        };
        match arguments.base() {
            "Comm_group" | "Comm_remote_group" => self.group_of_communicator(arguments),
            "Group_incl" => {
                let ranks = ranks(arguments);
                let size = ranks.as_ref().map(|ranks| ranks.len() as u32);
                let members = ranks.map(|ranks| GroupMembers::Include(origin, ranks));
                (members.unwrap_or(GroupMembers::Unknown), size)
            }
            "Group_range_incl" => {
                let ranks = ranges(arguments);
                let size = ranks.as_ref().map(|ranks| ranks.len() as u32);
                let members = ranks.map(|ranks| GroupMembers::Include(origin, ranks));
                (members.unwrap_or(GroupMembers::Unknown), size)
            }
            "Group_excl" => excluding(from, ranks(arguments)),
            "Group_range_excl" => excluding(from, ranges(arguments)),
            "Group_union" => {
                let (first, second) = pair(arguments);
                (GroupMembers::Union(first, second), None)
            }
            "Group_intersection" => {
                let (first, second) = pair(arguments);
                (GroupMembers::Intersection(first, second), None)
            }
            "Group_difference" => {
                let (first, second) = pair(arguments);
                (GroupMembers::Difference(first, second), None)
            }
            "Group_from_session_pset" => self.group_of_set(arguments),
            _ => (GroupMembers::Unknown, None),
        }
    }

    /// Returns one of the process sets that every implementation has (MPI-4.0, 11.3.2): all of the job, or the process
    /// itself, as in the world model's communicators.
    fn group_of_set(&self, arguments: &mut Arguments<'_>) -> (GroupMembers, Option<u32>) {
        match arguments.text("pset_name").as_deref() {
            Some("mpi://WORLD") => (GroupMembers::Of(WORLD), self.world_size),
            Some("mpi://SELF") => (GroupMembers::Of(SELF), Some(1)),
            _ => (GroupMembers::Unknown, None),
        }
    }

    fn group_of_communicator(&self, arguments: &Arguments<'_>) -> (GroupMembers, Option<u32>) {
        let known = arguments.word("comm").and_then(|handle| self.get(handle));
        let Some(known) = known else {
            return (GroupMembers::Unknown, None);
        };
        if arguments.base() == "Comm_remote_group" {
            let size = known.remote.flatten();
            (GroupMembers::RemoteOf(known.number), size)
        } else {
            (GroupMembers::Of(known.number), known.size)
        }
    }
}

fn excluding(from: Option<MpiGroup>, ranks: Option<Vec<u32>>) -> (GroupMembers, Option<u32>) {
    let Some(ranks) = ranks else {
        return (GroupMembers::Unknown, None);
    };
    let size = from
        .and_then(|from| from.size)
        .and_then(|size| size.checked_sub(ranks.len() as u32));
    let from = from.map(|from| from.number);
    (GroupMembers::Exclude(from, ranks), size)
}

/// Returns the argument `ranks` with `n` entries; `None` if it cannot be read whole.
fn ranks(arguments: &mut Arguments<'_>) -> Option<Vec<u32>> {
    let count = arguments.count("n")?;
    let ranks = arguments.integers("ranks", count)?;
    if (ranks.len() as u64) < count {
        return None;
    }
    ranks
        .into_iter()
        .map(|rank| u32::try_from(rank).ok())
        .collect()
}

/// Returns the argument `ranges`, `n` triplets of first, last and stride, expanded (MPI-4.0, 7.3.2).
fn ranges(arguments: &mut Arguments<'_>) -> Option<Vec<u32>> {
    const MAX_RANKS: usize = 1 << 16;
    let count = arguments.count("n")?.checked_mul(3)?;
    let words = arguments.integers("ranges", count)?;
    if (words.len() as u64) < count {
        return None;
    }
    let mut ranks = Vec::new();
    for range in words.chunks_exact(3) {
        let (mut rank, last, stride) = (range[0], range[1], range[2]);
        if stride == 0 {
            return None;
        }
        while (stride > 0 && rank <= last) || (stride < 0 && rank >= last) {
            if ranks.len() == MAX_RANKS {
                return None;
            }
            ranks.push(u32::try_from(rank).ok()?);
            rank += stride;
        }
    }
    Some(ranks)
}
