//! Reductions with a part of the result at each rank.
//!
//! Blocks have the numbers of the ranks that receive them.

use super::{gather, reduce};
use crate::algorithms::fold::{Aside, Fold};
use crate::algorithms::parts::{PartBounds, numbers};
use crate::algorithms::reduce_scatter::pieces;
use crate::algorithms::scatter;
use belljar_mpi::Operation;

use crate::call::Call;
use crate::schedule::Builder;

/// Returns the reduction of all data to rank 0, as its first step.
fn whole(call: &Call, total: u64) -> Call {
    let (count, element) = match call.operation {
        Operation::ReduceScatterBlock => {
            let count = call.count.saturating_mul(call.members.into());
            (count, call.element)
        }
        _ => (total, 1),
    };
    Call {
        operation: Operation::Reduce,
        in_place: false,
        sent: Vec::new(),
        ..call.clone().root(0).elements(count, element)
    }
}

/// Builds a reduction to rank 0, and a scatter from it, as the library would choose them.
pub(crate) fn by_root(call: &Call, to: &mut Builder) {
    let Some(pieces) = pieces(call) else {
        return;
    };
    let total = PartBounds::of(pieces.iter().copied()).total();
    to.part(&whole(call, total));
    let part = Call::new(Operation::Scatter, call.members, call.rank);
    match call.operation {
        Operation::ReduceScatterBlock => {
            to.part(&part.elements(call.count, call.element));
        }
        _ => {
            let own = vec![pieces[call.rank as usize]];
            scatter::linear(&part.pieces(pieces, own), to);
        }
    }
}

/// Builds a binomial tree up to rank 0, and messages directly to each rank.
pub(crate) fn binomial(call: &Call, to: &mut Builder) {
    let Some(pieces) = pieces(call) else {
        return;
    };
    let total = PartBounds::of(pieces.iter().copied()).total();
    let reduction = Call {
        commutative: true,
        ..whole(call, total)
    };
    reduce::swapped_binomial(&reduction, to);
    let own = vec![pieces[call.rank as usize]];
    let part = Call::new(Operation::Scatterv, call.members, call.rank);
    gather::scatter_pieces(&part.pieces(pieces, own), to);
}

/// Builds a ring in which parts are combined on the way, each ending at its rank.
pub(crate) fn ring(call: &Call, to: &mut Builder) {
    let Some(pieces) = pieces(call) else {
        return;
    };
    for round in 1..call.members {
        let (sent, received) = (call.before(round), call.before(round + 1));
        to.exchange_combine(
            call.after(1),
            pieces[sent as usize],
            || vec![sent.into()],
            call.before(1),
            pieces[received as usize],
        );
    }
}

/// Builds halves with recursive doubling (Träff's butterfly). The resulting part of each rank then goes to its owner, whose number
/// has the same bits in reverse order.
pub(crate) fn butterfly(call: &Call, to: &mut Builder) {
    let Some(pieces) = pieces(call) else {
        return;
    };
    let parts = PartBounds::of(pieces.iter().copied());
    let fold = Fold::of(call.members, Aside::Even);
    let bits = fold.power.ilog2();
    let mirrored = |number: u32| match bits {
        0 => 0,
        _ => number.reverse_bits() >> (u32::BITS - bits),
    };
    // Each new number stands for one block, or for two if its rank has a partner.
    let first = |number: u32| match number {
        number if number < fold.pairs => number * 2,
        number => number + fold.pairs,
    };
    let all = || numbers(0..call.members);
    let Some(number) = fold.enter(call.rank, parts.total(), all, to) else {
        let holder = fold.rank(mirrored(call.rank / 2));
        return to.receive(holder, pieces[call.rank as usize]);
    };
    let (mut has, mut count) = (0, fold.power);
    for round in 0..bits {
        count /= 2;
        let (own, other) = match number >> round & 1 {
            0 => (has, has + count),
            _ => (has + count, has),
        };
        let [received, sent] = [own, other].map(|from| first(from)..first(from + count));
        let partner = fold.rank(number ^ 1 << round);
        to.exchange_combine(
            partner,
            parts.bytes(sent.clone()),
            || numbers(sent),
            partner,
            parts.bytes(received),
        );
        has = own;
    }
    deliver(call, number, has, &fold, &pieces, to);
}

/// Sends the blocks of number `has` to their owners, and receives the rank's own.
fn deliver(call: &Call, number: u32, has: u32, fold: &Fold, pieces: &[u64], to: &mut Builder) {
    let owner = fold.rank(has);
    let piece = |rank: u32| pieces[rank as usize];
    if has < fold.pairs {
        to.send(owner - 1, piece(owner - 1), || vec![u64::from(owner) - 1]);
    }
    if has != number {
        to.exchange(
            owner,
            piece(owner),
            || vec![owner.into()],
            owner,
            piece(call.rank),
        );
    }
}
