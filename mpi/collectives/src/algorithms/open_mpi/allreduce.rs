//! Reductions whose result all get.
//!
//! Block 0 is the whole buffer, where it is not cut; else blocks are its parts.

use super::{broadcast, reduce};
use crate::algorithms::allreduce::{doubling, scatter_allgather_folded};
use crate::algorithms::fold::{Aside, Fold};
use crate::algorithms::parts::{Parts, numbers};
use belljar_mpi::Operation;

use crate::call::Call;
use crate::open_mpi;
use crate::schedule::Builder;

/// All straight to rank 0, and straight back.
pub(crate) fn linear(call: &Call, to: &mut Builder) {
    let call = call.clone().root(0);
    reduce::linear(&call, to);
    broadcast::linear(&call, to);
}

/// Up a binomial tree to rank 0, and down one.
pub(crate) fn binomial(call: &Call, to: &mut Builder) {
    let call = call.clone().root(0);
    reduce::swapped_binomial(&call, to);
    broadcast::swapped_binomial(&call, to);
}

/// A reduction to rank 0 and a broadcast from there, as the library has them.
pub(crate) fn reduce_broadcast(call: &Call, to: &mut Builder) {
    let call = call.clone().root(0);
    for operation in [Operation::Reduce, Operation::Broadcast] {
        let part = Call {
            operation,
            in_place: false,
            ..call.clone()
        };
        open_mpi::build(&part, to);
    }
}

/// A reduce-scatter and an allgather in a ring; partners twice as far away each time where there are fewer elements than members.
pub(crate) fn ring(call: &Call, to: &mut Builder) {
    if call.count < call.members.into() {
        return doubling(call, to);
    }
    rings(call, 0, to);
}

/// The same rings, which begin with the next rank's part, for any number of elements.
pub(crate) fn shifted_ring(call: &Call, to: &mut Builder) {
    rings(call, 1, to);
}

/// Parts go round to be combined, and go round again as results. Each rank begins with the part that is `shift` after its own.
fn rings(call: &Call, shift: u32, to: &mut Builder) {
    let members = call.members;
    let parts = Parts::even(call.count, call.element, members);
    let (right, left) = (call.after(1), call.before(1));
    let part = |round: u32| (call.rank + shift + 2 * members - round) % members;
    let bytes = |part: u32| parts.bytes(part..part + 1);
    for round in 0..2 * (members - 1) {
        let (sent, received) = (part(round), part(round + 1));
        let out = (right, bytes(sent));
        let blocks = || vec![sent.into()];
        match round < members - 1 {
            true => to.exchange_combine(out, blocks, (left, bytes(received))),
            false => to.exchange(out, blocks, (left, bytes(received))),
        }
    }
}

/// A reduce-scatter by halves and an allgather back; straight to rank 0 and back where there are too few elements, or their order counts.
pub(crate) fn halving_doubling(call: &Call, to: &mut Builder) {
    let fold = Fold::of(call.members, Aside::Odd);
    if call.count < fold.power.into() || !call.commutative {
        return linear(call, to);
    }
    let parts = Parts::halved(call.count, call.element, fold.power);
    let number = fold.enter_by_halves(call.rank, &parts, to);
    scatter_allgather_folded(&fold, &parts, number, to);
    fold.leave(call.rank, parts.total(), || numbers(0..fold.power), to);
}
