//! Reductions with the result at all ranks.
//!
//! Block 0 is the whole buffer if it is not divided; otherwise, blocks are its parts.

use super::{broadcast, reduce};
use crate::algorithms::allreduce::{doubling, scatter_allgather_folded};
use crate::algorithms::fold::{Aside, Fold};
use crate::algorithms::parts::{PartBounds, numbers};
use belljar_mpi::Operation;

use crate::call::Call;
use crate::schedule::Builder;

/// Builds messages from all ranks directly to rank 0, and back.
pub(crate) fn linear(call: &Call, to: &mut Builder) {
    let call = call.clone().root(0);
    reduce::linear(&call, to);
    broadcast::linear(&call, to);
}

/// Builds a binomial tree up to rank 0, and one down.
pub(crate) fn binomial(call: &Call, to: &mut Builder) {
    let call = call.clone().root(0);
    reduce::swapped_binomial(&call, to);
    broadcast::swapped_binomial(&call, to);
}

/// Builds a reduction to rank 0 and a broadcast from it, as the library would choose them.
pub(crate) fn reduce_broadcast(call: &Call, to: &mut Builder) {
    let call = call.clone().root(0);
    for operation in [Operation::Reduce, Operation::Broadcast] {
        let part = Call {
            operation,
            in_place: false,
            ..call.clone()
        };
        to.part(&part);
    }
}

/// Builds a reduce-scatter and an allgather in a ring; recursive doubling if there are fewer elements than members.
pub(crate) fn ring(call: &Call, to: &mut Builder) {
    if call.count < call.members.into() {
        return doubling(call, to);
    }
    rings(call, 0, to);
}

/// Builds the same rings, which begin with the next rank's part, for any number of elements.
pub(crate) fn shifted_ring(call: &Call, to: &mut Builder) {
    rings(call, 1, to);
}

/// Builds two rings: in the first one parts are combined, in the second one they are distributed as results. Each rank begins with the
/// part that is `shift` after its own.
fn rings(call: &Call, shift: u32, to: &mut Builder) {
    let members = call.members;
    let parts = PartBounds::even(call.count, call.element, members);
    let (right, left) = (call.after(1), call.before(1));
    let part = |round: u32| (call.rank + shift + 2 * members - round) % members;
    let bytes = |part: u32| parts.bytes(part..part + 1);
    for round in 0..2 * (members - 1) {
        let (sent, received) = (part(round), part(round + 1));
        let (out, into) = (bytes(sent), bytes(received));
        let blocks = || vec![sent.into()];
        match round < members - 1 {
            true => to.exchange_combine(right, out, blocks, left, into),
            false => to.exchange(right, out, blocks, left, into),
        }
    }
}

/// Builds a reduce-scatter by halves and an allgather in the opposite order; messages directly to rank 0 and back if there are too few
/// elements, or if their order matters.
pub(crate) fn halving_doubling(call: &Call, to: &mut Builder) {
    let fold = Fold::of(call.members, Aside::Odd);
    if call.count < fold.power.into() || !call.commutative {
        return linear(call, to);
    }
    let parts = PartBounds::halved(call.count, call.element, fold.power);
    let number = fold.enter_by_halves(call.rank, &parts, to);
    scatter_allgather_folded(&fold, &parts, number, to);
    fold.leave(call.rank, parts.total(), || numbers(0..fold.power), to);
}
