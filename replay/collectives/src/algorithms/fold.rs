//! Ranks that are more than a power of two.
//!
//! Of the first ranks, as many pairs as there are ranks too many, one of each pair hands its data to the other and stands
//! aside. The others have new numbers, below the power of two. Used by reductions.

use crate::schedule::Builder;

/// Which of a pair stands aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// That with the even rank.
    Even,
    /// That with the odd one.
    Odd,
}

/// How ranks fold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    /// The greatest power of two that is no more than the ranks.
    pub(super) power: u32,
    /// How many ranks are too many.
    pub(super) pairs: u32,
    aside: Aside,
}

impl Fold {
    /// For so many ranks, at least one.
    pub(super) fn of(members: u32, aside: Aside) -> Self {
        let power = 1 << members.max(1).ilog2();
        Self {
            power,
            pairs: members - power,
            aside,
        }
    }

    /// Whether the rank is one of a pair.
    pub(super) fn is_paired(&self, rank: u32) -> bool {
        rank < 2 * self.pairs
    }

    /// The new number of a rank; `None` for one that stands aside.
    pub(super) fn number(&self, rank: u32) -> Option<u32> {
        if !self.is_paired(rank) {
            return Some(rank - self.pairs);
        }
        let even = rank.is_multiple_of(2);
        (even != (self.aside == Aside::Even)).then_some(rank / 2)
    }

    /// The rank that has this new number.
    pub(super) fn rank(&self, number: u32) -> u32 {
        if number >= self.pairs {
            return number + self.pairs;
        }
        number * 2 + u32::from(self.aside == Aside::Even)
    }

    /// Whoever stands aside hands `bytes` to its partner, which combines them. Returns the new number.
    pub(super) fn enter(
        &self,
        rank: u32,
        bytes: u64,
        blocks: impl FnOnce() -> Vec<u64>,
        to: &mut Builder,
    ) -> Option<u32> {
        let number = self.number(rank);
        if self.is_paired(rank) {
            match number {
                None => to.send(rank ^ 1, bytes, blocks),
                Some(_) => to.receive_combine(rank ^ 1, bytes),
            }
        }
        number
    }

    /// Whoever stood aside gets `bytes` of the result from its partner.
    pub(super) fn leave(
        &self,
        rank: u32,
        bytes: u64,
        blocks: impl FnOnce() -> Vec<u64>,
        to: &mut Builder,
    ) {
        if self.is_paired(rank) {
            match self.number(rank) {
                None => to.receive(rank ^ 1, bytes),
                Some(_) => to.send(rank ^ 1, bytes, blocks),
            }
        }
    }
}
