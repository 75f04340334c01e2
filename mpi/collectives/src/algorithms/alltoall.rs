//! Exchanges of all ranks with all.
//!
//! The block from rank `a` to rank `b` has the number `a * members + b`. A rank's block to itself is copied.

use crate::call::Call;
use crate::schedule::Builder;

/// Number of partners at a time (`MPIR_CVAR_ALLTOALL_THROTTLE`).
const THROTTLE: u32 = 32;

fn block(call: &Call, from: u32, to: u32) -> u64 {
    u64::from(from) * u64::from(call.members) + u64::from(to)
}

/// Builds Bruck's algorithm: a block travels by the bits of its distance, together with all others whose distance has
/// the bit.
pub(crate) fn brucks(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    if bytes == 0 {
        return;
    }
    let members = call.members;
    let whole = bytes.saturating_mul(members.into());
    to.copy(whole);
    let mut mask = 1;
    while mask < members {
        let with_bit = || (1..members).filter(move |distance| distance & mask != 0);
        let sum = bytes.saturating_mul(with_bit().count() as u64);
        let blocks = || {
            // It has come the distance of the bits below this one.
            let own = with_bit().map(|distance| {
                let from = call.before(distance & (mask - 1));
                let towards = (u64::from(from) + u64::from(distance)) % u64::from(members);
                block(call, from, towards as u32)
            });
            own.collect()
        };
        to.exchange(call.after(mask), sum, blocks, call.before(mask), sum);
        mask <<= 1;
    }
    to.copy(whole);
}

/// Builds an exchange all at once, with some partners at a time.
pub(crate) fn scattered(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    if bytes > 0 {
        scatter(call, |_| bytes, |_| bytes, to);
    }
}

/// Builds the same, with pieces; empty ones are not sent.
pub(crate) fn scattered_pieces(call: &Call, to: &mut Builder) {
    let of = |pieces: &[u64], rank: u32| pieces.get(rank as usize).copied().unwrap_or(0);
    scatter(
        call,
        |rank| of(&call.sent, rank),
        |rank| of(&call.received, rank),
        to,
    );
}

fn scatter(
    call: &Call,
    sent: impl Fn(u32) -> u64,
    received: impl Fn(u32) -> u64,
    to: &mut Builder,
) {
    let mut first = 0;
    while first < call.members {
        let turn = first..call.members.min(first + THROTTLE);
        for distance in turn.clone() {
            let from = call.after(distance);
            if from != call.rank && received(from) > 0 {
                to.begin_receive(from, received(from));
            }
        }
        for distance in turn {
            let towards = call.before(distance);
            if towards != call.rank && sent(towards) > 0 {
                to.begin_send(towards, sent(towards), || {
                    vec![block(call, call.rank, towards)]
                });
            }
        }
        to.wait();
        first += THROTTLE;
    }
    to.copy(sent(call.rank));
}

/// Builds an exchange with one partner after the other: for powers of two by pairs, otherwise with the next and the
/// previous rank.
pub(crate) fn pairwise(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    if bytes == 0 {
        return;
    }
    to.copy(bytes);
    for round in 1..call.members {
        let (from, towards) = match call.members.is_power_of_two() {
            true => (call.rank ^ round, call.rank ^ round),
            false => (call.before(round), call.after(round)),
        };
        let blocks = || vec![block(call, call.rank, towards)];
        to.exchange(towards, bytes, blocks, from, bytes);
    }
}

/// Builds an exchange with one partner after the other, in the order of ranks, each block replacing the other.
pub(crate) fn replace(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    if bytes > 0 {
        in_place(call, |_| bytes, to);
    }
}

/// Builds the same, with pieces.
pub(crate) fn replace_pieces(call: &Call, to: &mut Builder) {
    let of = |rank: u32| call.received.get(rank as usize).copied().unwrap_or(0);
    in_place(call, of, to);
}

fn in_place(call: &Call, bytes: impl Fn(u32) -> u64, to: &mut Builder) {
    for partner in (0..call.members).filter(|rank| *rank != call.rank) {
        let own = bytes(partner);
        let blocks = || vec![block(call, call.rank, partner)];
        to.exchange(partner, own, blocks, partner, own);
    }
}
