//! Reductions with the result at all ranks.
//!
//! Block 0 is the whole buffer if it is not divided; otherwise, blocks are its parts.

use super::fold::{Aside, Fold};
use super::parts::{PartBounds, numbers};
use super::reduce::scatter_by_halves;
use crate::call::Call;
use crate::schedule::Builder;

/// Builds recursive doubling.
pub(crate) fn doubling(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    let fold = Fold::of(call.members, Aside::Even);
    if let Some(number) = fold.enter(call.rank, bytes, || vec![0], to) {
        let mut mask = 1;
        while mask < fold.power {
            let partner = fold.rank(number ^ mask);
            to.exchange_combine(partner, bytes, || vec![0], partner, bytes);
            mask <<= 1;
        }
    }
    fold.leave(call.rank, bytes, || vec![0], to);
}

/// Builds Rabenseifner's algorithm: a reduce-scatter by halves, then an allgather in the opposite order.
pub(crate) fn scatter_allgather(call: &Call, to: &mut Builder) {
    let fold = Fold::of(call.members, Aside::Even);
    let parts = PartBounds::even(call.count, call.element, fold.power);
    let whole = || numbers(0..fold.power);
    let number = fold.enter(call.rank, parts.total(), whole, to);
    scatter_allgather_folded(&fold, &parts, number, to);
    fold.leave(call.rank, parts.total(), whole, to);
}

/// Builds the same, for the rank with this new number.
pub(super) fn scatter_allgather_folded(
    fold: &Fold,
    parts: &PartBounds,
    number: Option<u32>,
    to: &mut Builder,
) {
    if let Some(number) = number {
        let (before, mut has) = scatter_by_halves(number, fold, parts, to);
        for (round, had) in before.into_iter().enumerate().rev() {
            let partner = fold.rank(number ^ 1 << round);
            let (_, other) = had.split(number, 1 << round);
            let own = has.run();
            to.exchange(
                partner,
                parts.bytes(own.clone()),
                || numbers(own),
                partner,
                parts.bytes(other.run()),
            );
            has = had;
        }
    }
}
