//! Ranks beyond a power of two.
//!
//! Of the first ranks, there are as many pairs as there are ranks beyond the power of two. In each pair, one hands its data to the other
//! and stands aside. The others have new numbers, below the power of two. Used by reductions.

use std::ops::Range;

use super::parts::{PartBounds, numbers};
use crate::schedule::Builder;

/// The rank of a pair that stands aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// The even rank.
    Even,
    /// The odd rank.
    Odd,
}

/// The folding of ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    /// The greatest power of two up to the number of ranks.
    pub(super) power: u32,
    /// The number of ranks beyond the power.
    pub(super) pairs: u32,
    aside: Aside,
}

impl Fold {
    /// Creates the folding for this number of ranks, at least one.
    pub(super) fn of(members: u32, aside: Aside) -> Self {
        let power = 1 << members.max(1).ilog2();
        Self {
            power,
            pairs: members - power,
            aside,
        }
    }

    /// True if the rank is in a pair.
    pub(super) fn is_paired(&self, rank: u32) -> bool {
        rank < 2 * self.pairs
    }

    /// Returns the new number of a rank; `None` for one that stands aside.
    pub(super) fn number(&self, rank: u32) -> Option<u32> {
        if !self.is_paired(rank) {
            return Some(rank - self.pairs);
        }
        let even = rank.is_multiple_of(2);
        (even != (self.aside == Aside::Even)).then_some(rank / 2)
    }

    /// Returns the rank with this new number.
    pub(super) fn rank(&self, number: u32) -> u32 {
        if number >= self.pairs {
            return number + self.pairs;
        }
        number * 2 + u32::from(self.aside == Aside::Even)
    }

    /// Hands `bytes` from each rank that stands aside to its partner, which combines them. Returns the new number.
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

    /// Exchanges halves of the data in each pair; each rank combines the received half with its own. Then the rank that stands aside
    /// also hands over its half. There are as many `parts` as [`power`](Self::power). Returns the new number.
    pub(super) fn enter_by_halves(
        &self,
        rank: u32,
        parts: &PartBounds,
        to: &mut Builder,
    ) -> Option<u32> {
        let number = self.number(rank);
        if !self.is_paired(rank) {
            return number;
        }
        let (low, high) = (0..self.power / 2, self.power / 2..self.power);
        let bytes = |run: &Range<u32>| parts.bytes(run.clone());
        let partner = rank ^ 1;
        match number {
            None => {
                let (sent, received) = (bytes(&low), bytes(&high));
                to.exchange_combine(partner, sent, || numbers(low), partner, received);
                to.send(partner, bytes(&high), || numbers(high));
            }
            Some(_) => {
                let (sent, received) = (bytes(&high), bytes(&low));
                to.exchange_combine(partner, sent, || numbers(high.clone()), partner, received);
                to.receive(partner, bytes(&high));
            }
        }
        number
    }

    /// Hands `bytes` of the result to the ranks that stood aside.
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

/// Returns the greatest power of two up to the number of members, and a rank's partner at that distance, if there is one.
pub(super) fn pairs_above(rank: u32, members: u32) -> (u32, Option<u32>) {
    let power = 1 << members.max(1).ilog2();
    let partner = match rank {
        rank if rank >= power => Some(rank - power),
        rank if rank < members - power => Some(rank + power),
        _ => None,
    };
    (power, partner)
}
