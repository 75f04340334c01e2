//! Ranks that are more than a power of two.
//!
//! Of the first ranks, as many pairs as there are ranks too many, one of each pair hands its data to the other and stands
//! aside. The others have new numbers, below the power of two. Used by reductions.

use std::ops::Range;

use super::parts::{Parts, numbers};
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

    /// Of each pair each hands one half of the data to the other, and combines what it gets with its own half. Then whoever stands aside
    /// hands over its half, too. `parts` are as many as [`power`](Self::power) says. Returns the new number.
    pub(super) fn enter_by_halves(
        &self,
        rank: u32,
        parts: &Parts,
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
                let sent = (partner, bytes(&low));
                to.exchange_combine(sent, || numbers(low), (partner, bytes(&high)));
                to.send(partner, bytes(&high), || numbers(high));
            }
            Some(_) => {
                let sent = (partner, bytes(&high));
                to.exchange_combine(sent, || numbers(high.clone()), (partner, bytes(&low)));
                to.receive(partner, bytes(&high));
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

/// The greatest power of two that is no more than the members, and of a rank from there on the one as far below it, which has that
/// one in turn.
pub(super) fn pairs_above(rank: u32, members: u32) -> (u32, Option<u32>) {
    let power = 1 << members.max(1).ilog2();
    let partner = match rank {
        rank if rank >= power => Some(rank - power),
        rank if rank < members - power => Some(rank + power),
        _ => None,
    };
    (power, partner)
}
