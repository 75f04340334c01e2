//! Reductions whose result all get.
//!
//! Block 0 is the whole buffer, where it is not cut; else blocks are its parts.

use super::fold::{Aside, Fold};
use super::parts::{Parts, numbers};
use super::reduce::scatter_by_halves;
use crate::call::Call;
use crate::schedule::Builder;

/// Partners twice as far away each time.
pub(crate) fn doubling(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    let fold = Fold::of(call.members, Aside::Even);
    if let Some(number) = fold.enter(call.rank, bytes, || vec![0], to) {
        let mut mask = 1;
        while mask < fold.power {
            let partner = fold.rank(number ^ mask);
            to.exchange_combine((partner, bytes), || vec![0], (partner, bytes));
            mask <<= 1;
        }
    }
    fold.leave(call.rank, bytes, || vec![0], to);
}

/// Rabenseifner's: a reduce-scatter by halves, then an allgather in the opposite order.
pub(crate) fn scatter_allgather(call: &Call, to: &mut Builder) {
    let fold = Fold::of(call.members, Aside::Even);
    let parts = Parts::even(call.count, call.element, fold.power);
    let whole = || numbers(0..fold.power);
    let number = fold.enter(call.rank, parts.total(), whole, to);
    scatter_allgather_folded(&fold, &parts, number, to);
    fold.leave(call.rank, parts.total(), whole, to);
}

/// The same, by whoever has this new number.
pub(super) fn scatter_allgather_folded(
    fold: &Fold,
    parts: &Parts,
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
                (partner, parts.bytes(own.clone())),
                || numbers(own),
                (partner, parts.bytes(other.run())),
            );
            has = had;
        }
    }
}
