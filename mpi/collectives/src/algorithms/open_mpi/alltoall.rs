//! Exchanges of all ranks with all.
//!
//! The block from rank `a` to rank `b` has the number `a * members + b`. A rank's block to itself is copied.

use crate::call::Call;
use crate::schedule::Builder;

fn blocks(call: &Call, to: u32) -> Vec<u64> {
    vec![u64::from(call.rank) * u64::from(call.members) + u64::from(to)]
}

fn piece(pieces: &[u64], rank: u32) -> u64 {
    pieces.get(rank as usize).copied().unwrap_or(0)
}

/// Builds an exchange all at once.
pub(crate) fn linear(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    at_once(call, |_| Some(bytes), |_| Some(bytes), to);
}

/// Builds the same, with pieces, including empty ones.
pub(crate) fn linear_pieces(call: &Call, to: &mut Builder) {
    let sent = |rank| Some(piece(&call.sent, rank));
    at_once(call, sent, |rank| Some(piece(&call.received, rank)), to);
}

/// Builds the same, without empty pieces.
pub(crate) fn linear_nonempty(call: &Call, to: &mut Builder) {
    let some = |pieces: &[u64], rank| Some(piece(pieces, rank)).filter(|bytes| *bytes > 0);
    let sent = |rank| some(&call.sent, rank);
    at_once(call, sent, |rank| some(&call.received, rank), to);
}

fn at_once(
    call: &Call,
    sent: impl Fn(u32) -> Option<u64>,
    received: impl Fn(u32) -> Option<u64>,
    to: &mut Builder,
) {
    to.copy(sent(call.rank).unwrap_or(0));
    for distance in 1..call.members {
        let from = call.after(distance);
        if let Some(bytes) = received(from) {
            to.begin_receive(from, bytes);
        }
    }
    for distance in 1..call.members {
        let towards = call.before(distance);
        if let Some(bytes) = sent(towards) {
            to.begin_send(towards, bytes, || blocks(call, towards));
        }
    }
    to.wait();
}

/// Builds an exchange with one partner after the other, modulo the number of members.
pub(crate) fn pairwise(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    rounds(call, |_| bytes, |_| bytes, to);
}

/// Builds the same, with pieces, including empty ones.
pub(crate) fn pairwise_pieces(call: &Call, to: &mut Builder) {
    let sent = |rank| piece(&call.sent, rank);
    rounds(call, sent, |rank| piece(&call.received, rank), to);
}

fn rounds(call: &Call, sent: impl Fn(u32) -> u64, received: impl Fn(u32) -> u64, to: &mut Builder) {
    to.copy(sent(call.rank));
    for distance in 1..call.members {
        let (towards, from) = (call.after(distance), call.before(distance));
        to.exchange(
            towards,
            sent(towards),
            || blocks(call, towards),
            from,
            received(from),
        );
    }
}

/// Builds an exchange in place, with the ranks before and after the caller at every distance.
pub(crate) fn in_place(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    by_distance(call, |_| Some(bytes), to);
}

/// Builds the same, with pieces; empty ones are not sent.
pub(crate) fn in_place_pieces(call: &Call, to: &mut Builder) {
    let own = |rank| Some(piece(&call.received, rank)).filter(|bytes| *bytes > 0);
    by_distance(call, own, to);
}

/// Builds the same, nonblocking with a datatype for each piece: if any piece has data, the opposite rank's piece is sent even if it
/// is empty.
pub(crate) fn in_place_opposite(call: &Call, to: &mut Builder) {
    let own = |rank| Some(piece(&call.received, rank)).filter(|bytes| *bytes > 0);
    if (0..call.members).any(|rank| own(rank).is_some()) {
        let opposite = call.after(call.members / 2);
        let even = call.members.is_multiple_of(2);
        by_distance(
            call,
            |rank| own(rank).or((even && rank == opposite).then_some(0)),
            to,
        );
    }
}

fn by_distance(call: &Call, bytes: impl Fn(u32) -> Option<u64>, to: &mut Builder) {
    let mut exchange = |towards: u32, from: u32| {
        if let Some(bytes) = bytes(towards) {
            to.begin_send(towards, bytes, || blocks(call, towards));
        }
        if let Some(bytes) = bytes(from) {
            to.begin_receive(from, bytes);
        }
        to.wait();
    };
    for distance in 1..=call.members / 2 {
        let (right, left) = (call.after(distance), call.before(distance));
        if left != right {
            exchange(left, right);
        }
        exchange(right, left);
    }
}
