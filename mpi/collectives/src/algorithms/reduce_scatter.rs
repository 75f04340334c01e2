//! Reductions with a part of the result at each rank.
//!
//! Blocks have the numbers of the ranks that receive them. All algorithms also support equal blocks.

use super::fold::{Aside, Fold};
use super::parts::{PartBounds, numbers};
use belljar_mpi::Operation;

use crate::call::Call;
use crate::schedule::Builder;

/// Returns the bytes of each rank's result; `None` if all are empty, or if there are too few pieces.
pub(super) fn pieces(call: &Call) -> Option<Vec<u64>> {
    let pieces = match call.operation {
        Operation::ReduceScatter => call.sent.get(..call.members as usize)?.to_vec(),
        _ => vec![call.bytes(); call.members as usize],
    };
    pieces.iter().any(|bytes| *bytes > 0).then_some(pieces)
}

/// Builds halves, with the distance of partners halved in each round; empty messages are not sent.
pub(crate) fn halving(call: &Call, to: &mut Builder) {
    let Some(pieces) = pieces(call) else {
        return;
    };
    let parts = PartBounds::of(pieces.iter().copied());
    let fold = Fold::of(call.members, Aside::Even);
    // A participating rank also has its partner's block: a run of blocks for each new number.
    let first = |number: u32| match number {
        number if number >= fold.power => call.members,
        number if number < fold.pairs => number * 2,
        number => number + fold.pairs,
    };
    let run = |from: u32, count: u32| first(from)..first(from + count);
    let whole = || numbers(0..call.members);
    if let Some(number) = fold.enter(call.rank, parts.total(), whole, to) {
        let mut has = 0;
        let mut mask = fold.power >> 1;
        while mask > 0 {
            let own = has + (number & mask);
            let other = has + (!number & mask);
            let partner = fold.rank(number ^ mask);
            let (sent, received) = (run(other, mask), run(own, mask));
            let bytes = [sent.clone(), received].map(|run| parts.bytes(run));
            match bytes {
                [0, 0] => {}
                [0, received] => to.receive_combine(partner, received),
                [out, 0] => to.send(partner, out, || numbers(sent)),
                [out, received] => {
                    to.exchange_combine(partner, out, || numbers(sent), partner, received);
                }
            }
            has = own;
            mask >>= 1;
        }
    }
    let aside = call.rank & !1;
    let bytes = pieces.get(aside as usize).copied().unwrap_or(0);
    if bytes > 0 {
        fold.leave(call.rank, bytes, || vec![aside.into()], to);
    }
}

/// Builds exchanges with one partner after the other.
pub(crate) fn pairwise(call: &Call, to: &mut Builder) {
    let Some(pieces) = pieces(call) else {
        return;
    };
    let own = pieces[call.rank as usize];
    for round in 1..call.members {
        let towards = call.after(round);
        to.exchange_combine(
            towards,
            pieces[towards as usize],
            || vec![towards.into()],
            call.before(round),
            own,
        );
    }
}

/// Builds halves in the order of ranks, with blocks sorted by their bit-reversed numbers before.
pub(crate) fn noncommutative(call: &Call, to: &mut Builder) {
    let Some(pieces) = pieces(call) else {
        return;
    };
    let block = pieces[0];
    let bits = call.members.ilog2();
    to.copy(block.saturating_mul(call.members.into()));
    let (mut first, mut count) = (0, call.members);
    for round in 0..bits {
        let partner = call.rank ^ 1 << round;
        count /= 2;
        let (own, other) = match call.rank < partner {
            true => (first, first + count),
            false => (first + count, first),
        };
        let bytes = block.saturating_mul(count.into());
        let mirrored = |place: u32| u64::from(place.reverse_bits() >> (u32::BITS - bits));
        let blocks = || (other..other + count).map(mirrored).collect();
        to.exchange_combine(partner, bytes, blocks, partner, bytes);
        first = own;
    }
}

/// Builds recursive doubling. Each rank sends all blocks except those of the ranks that it has exchanged with so far.
/// For other numbers of ranks than powers of two, ranks without a partner get the data that others received.
pub(crate) fn doubling(call: &Call, to: &mut Builder) {
    let Some(pieces) = pieces(call) else {
        return;
    };
    let parts = PartBounds::of(pieces.iter().copied());
    let members = call.members;
    let mut mask = 1;
    while mask < members {
        let partner = call.rank ^ mask;
        let [own, other] = [call.rank, partner].map(|rank| rank & !(mask - 1));
        let without = |tree: u32| {
            let mut all = numbers(0..tree.min(members));
            all.extend(numbers((tree + mask).min(members)..members));
            all
        };
        let bytes = |tree: u32| parts.total().saturating_sub(parts.bytes(tree..tree + mask));
        let mut pending = None;
        if partner < members {
            pending = Some(to.begin_pending(partner, bytes(other)));
            to.begin_send(partner, bytes(own), || without(own));
            to.wait();
        }
        if other + mask > members {
            let received = bytes(other);
            pass_on(call, mask, own, received, &mut pending, to);
        }
        if let Some(step) = pending {
            to.combine(bytes(other), step);
        }
        mask <<= 1;
    }
}

/// Passes the data of the other tree down a binomial tree to the ranks whose partners do not exist.
fn pass_on(
    call: &Call,
    mask: u32,
    own: u32,
    bytes: u64,
    pending: &mut Option<usize>,
    to: &mut Builder,
) {
    let Some(complete) = call.members.checked_sub(own + mask) else {
        return;
    };
    let mut level = mask.ilog2();
    let mut distance = mask >> 1;
    while distance > 0 {
        let partner = call.rank ^ distance;
        let bound = (call.rank >> level << level) + complete;
        if partner > call.rank && call.rank < bound && partner >= bound {
            if let Some(step) = *pending {
                to.forward(partner, bytes, step);
            }
        } else if partner < call.rank && partner < bound && call.rank >= bound {
            *pending = Some(to.begin_pending(partner, bytes));
            to.wait();
        }
        distance >>= 1;
        level -= 1;
    }
}
