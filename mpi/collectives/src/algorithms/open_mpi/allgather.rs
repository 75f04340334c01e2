//! Gathers with the result at all ranks.
//!
//! Blocks have the numbers of their ranks.

use crate::algorithms::allgather::{equal, pieces};
use crate::algorithms::gather::linear as gather_pieces;
use crate::algorithms::parts::{PartBounds, numbers};
use belljar_mpi::Operation;

use crate::call::Call;
use crate::schedule::Builder;

/// Builds messages of each block to all ranks, all at once.
pub(crate) fn linear(call: &Call, to: &mut Builder) {
    each(call, &equal(call), to);
}

/// Builds the same, with pieces.
pub(crate) fn linear_pieces(call: &Call, to: &mut Builder) {
    if let Some(parts) = pieces(call) {
        each(call, &parts, to);
    }
}

fn each(call: &Call, parts: &PartBounds, to: &mut Builder) {
    let bytes = |rank: u32| parts.bytes(rank..rank + 1);
    for distance in 1..call.members {
        let (from, towards) = (call.before(distance), call.after(distance));
        to.begin_receive(from, bytes(from));
        to.begin_send(towards, bytes(call.rank), || vec![call.rank.into()]);
    }
    to.wait();
}

/// Builds a ring with whole pieces.
pub(crate) fn ring_pieces(call: &Call, to: &mut Builder) {
    if let Some(parts) = pieces(call) {
        ring(call, &parts, to);
    }
}

fn ring(call: &Call, parts: &PartBounds, to: &mut Builder) {
    let bytes = |rank: u32| parts.bytes(rank..rank + 1);
    for round in 0..call.members - 1 {
        let (sent, received) = (call.before(round), call.before(round + 1));
        to.exchange(
            call.after(1),
            bytes(sent),
            || vec![sent.into()],
            call.before(1),
            bytes(received),
        );
    }
}

/// Builds exchanges with both neighbours in turns, two blocks at a time; a ring for an odd number of members.
pub(crate) fn neighbor(call: &Call, to: &mut Builder) {
    exchange(call, &equal(call), to);
}

/// Builds the same, with pieces.
pub(crate) fn neighbor_pieces(call: &Call, to: &mut Builder) {
    if let Some(parts) = pieces(call) {
        exchange(call, &parts, to);
    }
}

fn exchange(call: &Call, parts: &PartBounds, to: &mut Builder) {
    if !call.members.is_multiple_of(2) {
        return ring(call, parts, to);
    }
    let members = call.members;
    let even = call.rank.is_multiple_of(2);
    let neighbors = match even {
        true => [call.after(1), call.before(1)],
        false => [call.before(1), call.after(1)],
    };
    let first = neighbors[0];
    to.exchange(
        first,
        parts.bytes(call.rank..call.rank + 1),
        || vec![call.rank.into()],
        first,
        parts.bytes(first..first + 1),
    );
    // Pairs of blocks, by their even number.
    let own = call.rank & !1;
    let mut pairs = [own, own];
    let mut sent = own;
    for round in 1..members / 2 {
        let side = (round % 2) as usize;
        let upward = even == (side == 0);
        let step = if upward { 2 } else { members - 2 };
        pairs[side] = (pairs[side] + step) % members;
        let received = pairs[side];
        let neighbor = neighbors[side];
        to.exchange(
            neighbor,
            parts.bytes(sent..sent + 2),
            || numbers(sent..sent + 2),
            neighbor,
            parts.bytes(received..received + 2),
        );
        sent = received;
    }
}

/// Builds a gather to rank 0, which broadcasts all pieces as one element.
pub(crate) fn gather_broadcast(call: &Call, to: &mut Builder) {
    let Some(parts) = pieces(call) else {
        return;
    };
    let own = call.received[call.rank as usize];
    let gathered = Call::new(Operation::Gatherv, call.members, call.rank);
    gather_pieces(&gathered.pieces(vec![own], call.received.clone()), to);
    let whole = Call::new(Operation::Broadcast, call.members, call.rank);
    to.part(&whole.elements(1, parts.total()));
}
