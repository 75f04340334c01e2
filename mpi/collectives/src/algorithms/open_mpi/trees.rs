//! Trees of ranks.
//!
//! A tree's members are numbered from its root on; ranks are mapped to numbers by rotation, or (in `libnbc`) by swapping the
//! root and rank 0. Used by broadcasts and reductions.

use crate::call::Call;

/// A member's position in a tree, in ranks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TreePosition {
    /// Its parent; `None` for the root.
    pub(super) parent: Option<u32>,
    /// Its children, in the library's order.
    pub(super) children: Vec<u32>,
}

impl TreePosition {
    /// Returns the same position, with numbers mapped to ranks.
    fn of(self, rank: impl Fn(u32) -> u32) -> Self {
        Self {
            parent: self.parent.map(&rank),
            children: self.children.into_iter().map(rank).collect(),
        }
    }
}

/// Swaps rank 0 and the root; returns any other rank unchanged.
pub(super) fn swapped(rank: u32, root: u32) -> u32 {
    match rank {
        0 => root,
        rank if rank == root => 0,
        rank => rank,
    }
}

/// Returns the position in a chain, with each rank below the previous one.
pub(super) fn chain(call: &Call) -> TreePosition {
    let own = call.relative();
    let next = Some(own + 1).filter(|next| *next < call.members);
    let place = TreePosition {
        parent: own.checked_sub(1),
        children: next.into_iter().collect(),
    };
    place.of(|number| call.absolute(number))
}

/// Returns the position in a binary tree, numbered level by level.
pub(super) fn binary(call: &Call) -> TreePosition {
    let own = call.relative();
    // Level 0 is the root; the next has 1 and 2, the next 3 to 6.
    let width = 1 << (own + 1).ilog2();
    let mut parent = own;
    if own > 0 {
        parent = if own < 2 { 0 } else { own - width / 2 };
        if own >= 2 && parent >= width - 1 {
            parent -= width / 2;
        }
    }
    let children = [own + width, own + 2 * width].into_iter();
    let place = TreePosition {
        parent: (own > 0).then_some(parent),
        children: children.filter(|child| *child < call.members).collect(),
    };
    place.of(|number| call.absolute(number))
}

/// Returns the position in a binomial tree: children have one more bit, above the rank's own.
fn binomial(own: u32, members: u32) -> TreePosition {
    let highest = own.checked_ilog2();
    let first = highest.map_or(0, |bit| bit + 1);
    let children = (first..u32::BITS - 1).map(|bit| own | 1 << bit);
    TreePosition {
        parent: highest.map(|bit| own ^ 1 << bit),
        children: children.take_while(|child| *child < members).collect(),
    }
}

/// Returns the same with rotation from the root on.
pub(super) fn rotated_binomial(call: &Call) -> TreePosition {
    let place = binomial(call.relative(), call.members);
    place.of(|number| call.absolute(number))
}

/// Returns the same, with the root and rank 0 swapped.
pub(super) fn swapped_binomial(call: &Call) -> TreePosition {
    let place = binomial(swapped(call.rank, call.root), call.members);
    place.of(|number| swapped(number, call.root))
}

/// Returns the position in a tree where children differ in one digit to this base.
pub(super) fn knomial(call: &Call, base: u32) -> TreePosition {
    let own = call.relative();
    let (members, base) = (u64::from(call.members), u64::from(base));
    let number = u64::from(own);
    let mut digit = 1;
    let mut parent = None;
    while digit < members {
        let above = digit * base;
        if number % above != 0 {
            parent = Some((number / above * above) as u32);
            break;
        }
        digit = above;
    }
    let mut children = Vec::new();
    digit /= base;
    while digit > 0 {
        let own = (1..base).map(|times| number + digit * times);
        children.extend(own.filter(|child| *child < members).map(|it| it as u32));
        digit /= base;
    }
    TreePosition { parent, children }.of(|number| call.absolute(number))
}

/// Returns the position in a binary tree whose first subtree has the lower ranks, and whose root is the last rank.
pub(super) fn ordered_binary(rank: u32, members: u32) -> TreePosition {
    // Of the `count` ranks from `first` on, the last is above the others.
    let (mut first, mut count) = (0, members);
    let mut parent = None;
    loop {
        let top = first + count - 1;
        let low = count / 2;
        let near = (count > 1).then(|| top - 1);
        let far = (count > 2).then(|| first + low - 1);
        if rank == top {
            let children = near.into_iter().chain(far).collect();
            return TreePosition { parent, children };
        }
        parent = Some(top);
        if far.is_some_and(|far| rank <= far) {
            count = low;
        } else {
            let low = if far.is_some() { low } else { 0 };
            first += low;
            count -= low + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_mpi::Operation;

    /// Every tree contains each member once, as a child of its parent.
    #[test]
    fn parents_and_children_agree() {
        for members in 1..70 {
            for root in [0, members / 2, members - 1] {
                let call = |rank| Call::new(Operation::Broadcast, members, rank).root(root);
                let kinds: [fn(&Call) -> TreePosition; 5] =
                    [chain, binary, rotated_binomial, swapped_binomial, |call| {
                        knomial(call, 4)
                    }];
                for kind in kinds {
                    agree(members, root, |rank| kind(&call(rank)));
                }
            }
            agree(members, members - 1, |rank| ordered_binary(rank, members));
        }
    }

    fn agree(members: u32, root: u32, place: impl Fn(u32) -> TreePosition) {
        let mut seen = 0;
        for rank in 0..members {
            let own = place(rank);
            assert_eq!(own.parent.is_none(), rank == root, "{rank} of {members}");
            for child in own.children {
                assert_eq!(place(child).parent, Some(rank), "{child} of {members}");
                seen += 1;
            }
        }
        assert_eq!(seen, members - 1, "{members} from {root}");
    }
}
