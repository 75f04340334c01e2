//! Reductions to one.
//!
//! Block 0 is the whole buffer if it is not divided; otherwise, blocks are its parts.

use super::fold::{Aside, Fold};
use super::parts::{PartBounds, numbers};
use crate::call::{Call, relative};
use crate::schedule::Builder;

/// Builds a binomial tree. A noncommutative reduction goes to rank 0, which sends the result to the root.
pub(crate) fn binomial(call: &Call, to: &mut Builder) {
    if call.count == 0 {
        return;
    }
    let top = if call.commutative { call.root } else { 0 };
    let own = relative(call.rank, top, call.members);
    let absolute = |relative: u32| {
        let sum = u64::from(relative) + u64::from(top);
        (sum % u64::from(call.members)) as u32
    };
    up_binomial(call, top, own, absolute, to);
}

/// Builds a binomial tree with root rank `top`, for number `own` in it; `rank` maps numbers to ranks. If `top` is not the operation's root,
/// it sends the result there.
pub(crate) fn up_binomial(
    call: &Call,
    top: u32,
    own: u32,
    rank: impl Fn(u32) -> u32,
    to: &mut Builder,
) {
    let bytes = call.bytes();
    let mut mask = 1;
    while mask < call.members {
        if own & mask != 0 {
            to.send(rank(own & !mask), bytes, || vec![0]);
            break;
        }
        if own | mask < call.members {
            to.receive_combine(rank(own | mask), bytes);
        }
        mask <<= 1;
    }
    if top != call.root {
        if call.rank == top {
            to.send(call.root, bytes, || vec![0]);
        } else if call.rank == call.root {
            to.receive(top, bytes);
        }
    }
}

/// The parts of a rank after a reduce-scatter by halves, with recursive doubling.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half {
    /// The first part.
    pub(super) first: u32,
    /// The number of parts.
    pub(super) count: u32,
}

impl Half {
    /// Splits these parts into the half of a rank with this new number, and the other one, for a partner at distance `mask`.
    pub(super) fn split(self, number: u32, mask: u32) -> (Self, Self) {
        let count = self.count / 2;
        let [low, high] = [self.first, self.first + count].map(|first| Self { first, count });
        match number & mask {
            0 => (low, high),
            _ => (high, low),
        }
    }

    pub(super) fn run(self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// Builds the reduce-scatter at the beginning of both of Rabenseifner's algorithms, for the rank with this new number. Returns its parts
/// before each round, and at the end.
pub(super) fn scatter_by_halves(
    number: u32,
    fold: &Fold,
    parts: &PartBounds,
    to: &mut Builder,
) -> (Vec<Half>, Half) {
    let mut before = Vec::new();
    let mut has = Half {
        first: 0,
        count: fold.power,
    };
    let mut mask = 1;
    while mask < fold.power {
        let (own, other) = has.split(number, mask);
        let partner = fold.rank(number ^ mask);
        to.exchange_combine(
            partner,
            parts.bytes(other.run()),
            || numbers(other.run()),
            partner,
            parts.bytes(own.run()),
        );
        before.push(has);
        has = own;
        mask <<= 1;
    }
    (before, has)
}

/// Builds Rabenseifner's algorithm: a reduce-scatter by halves, then a gather up a binomial tree.
pub(crate) fn scatter_gather(call: &Call, to: &mut Builder) {
    if call.count == 0 {
        return;
    }
    let fold = Fold::of(call.members, Aside::Odd);
    // Both forms divide the elements differently.
    let parts = match call.nonblocking {
        true => PartBounds::last_longest(call.count, call.element, fold.power),
        false => PartBounds::even(call.count, call.element, fold.power),
    };
    let whole = || numbers(0..fold.power);
    let number = fold.enter(call.rank, parts.total(), whole, to);
    scatter_gather_folded(call, &fold, &parts, number, to);
}

/// Builds the same, for the rank with this new number.
pub(super) fn scatter_gather_folded(
    call: &Call,
    fold: &Fold,
    parts: &PartBounds,
    mut number: Option<u32>,
    to: &mut Builder,
) {
    let mut before = Vec::new();
    let mut has = Half { first: 0, count: 1 };
    if let Some(own) = number {
        (before, has) = scatter_by_halves(own, fold, parts, to);
    }
    // A root that stood aside takes the place of number 0.
    let displaced = fold.is_paired(call.root) && fold.number(call.root).is_none();
    if displaced && call.rank == call.root {
        to.receive(fold.rank(0), parts.bytes(0..1));
        number = Some(0);
        before = histories(0, fold.power);
    } else if displaced && number == Some(0) {
        to.send(call.root, parts.bytes(0..1), || vec![0]);
        return;
    }
    let top = match displaced {
        true => 0,
        false => fold.number(call.root).unwrap_or(0),
    };
    let rank_of = |number: u32| match number {
        0 if displaced => call.root,
        _ => fold.rank(number),
    };
    if let Some(number) = number {
        gather_halves(number, top, before, has, parts, rank_of, to);
    }
}

/// Returns the parts of number `number` before each round of a reduce-scatter by halves.
fn histories(number: u32, power: u32) -> Vec<Half> {
    let mut has = Half {
        first: 0,
        count: power,
    };
    let mut before = Vec::new();
    let mut mask = 1;
    while mask < power {
        before.push(has);
        has = has.split(number, mask).0;
        mask <<= 1;
    }
    before
}

/// Gathers the results of the reduce-scatter at number `top`, in the opposite order.
fn gather_halves(
    number: u32,
    top: u32,
    before: Vec<Half>,
    mut has: Half,
    parts: &PartBounds,
    rank_of: impl Fn(u32) -> u32,
    to: &mut Builder,
) {
    for (round, had) in before.into_iter().enumerate().rev() {
        let mask = 1 << round;
        let partner = number ^ mask;
        // Numbers that differ from the root's only in the lower bits are below it in the tree.
        if partner >> round == top >> round {
            let own = has.run();
            to.send(rank_of(partner), parts.bytes(own.clone()), || numbers(own));
            return;
        }
        let (_, other) = had.split(number, mask);
        to.receive(rank_of(partner), parts.bytes(other.run()));
        has = had;
    }
}
