//! From one to all.
//!
//! Short data is sent down a binomial tree. Long data is scattered down the tree, and then all ranks gather the pieces.
//! The pieces are numbered from the root on.

use super::parts::{PartBounds, numbers};
use crate::call::Call;
use crate::schedule::Builder;

/// Builds a binomial tree. Only `MPI_Bcast` omits messages without data.
pub(crate) fn binomial(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    if bytes == 0 && !call.nonblocking {
        return;
    }
    let relative = call.relative();
    let mut mask = 1;
    while mask < call.members && relative & mask == 0 {
        mask <<= 1;
    }
    if mask < call.members {
        to.receive(call.absolute(relative - mask), bytes);
    }
    mask >>= 1;
    while mask > 0 {
        if relative + mask < call.members {
            to.send(call.absolute(relative + mask), bytes, || vec![0]);
        }
        mask >>= 1;
    }
}

/// Builds a scatter of pieces down a binomial tree, with each subtree's together; empty messages are not sent.
pub(super) fn scatter(call: &Call, parts: &PartBounds, to: &mut Builder) {
    let relative = call.relative();
    let mut mask = 1;
    while mask < call.members && relative & mask == 0 {
        mask <<= 1;
    }
    let mut end = call.members;
    if mask < call.members {
        end = call.members.min(relative + mask);
        let bytes = parts.bytes(relative..end);
        if bytes > 0 {
            to.receive(call.absolute(relative - mask), bytes);
        }
    }
    mask >>= 1;
    while mask > 0 {
        let first = relative + mask;
        if first < call.members {
            let bytes = parts.bytes(first..end);
            if bytes > 0 {
                to.send(call.absolute(first), bytes, || numbers(first..end));
            }
            end = first;
        }
        mask >>= 1;
    }
}

/// Builds a scatter, then a gather by all in a ring.
pub(crate) fn ring(call: &Call, to: &mut Builder) {
    if call.bytes() == 0 {
        return;
    }
    let members = call.members;
    let parts = PartBounds::rounded_up(call.bytes(), members);
    scatter(call, &parts, to);
    let relative = call.relative();
    let bytes = |part| parts.bytes(part..part + 1);
    for round in 0..members - 1 {
        let sent = (relative + members - round) % members;
        let received = (sent + members - 1) % members;
        to.exchange(
            call.after(1),
            bytes(sent),
            || vec![sent.into()],
            call.before(1),
            bytes(received),
        );
    }
}

/// Builds a scatter, then a gather by all with recursive doubling.
pub(crate) fn doubling(call: &Call, to: &mut Builder) {
    if call.bytes() == 0 {
        return;
    }
    let parts = PartBounds::rounded_up(call.bytes(), call.members);
    scatter(call, &parts, to);
    let relative = call.relative();
    let mut mask = 1;
    while mask < call.members {
        let partner = relative ^ mask;
        let [own, other] = [relative, partner].map(|rank| {
            let first = rank & !(mask - 1);
            first..first + mask
        });
        let rank = call.absolute(partner);
        to.exchange(
            rank,
            parts.bytes(own.clone()),
            || numbers(own),
            rank,
            parts.bytes(other),
        );
        mask <<= 1;
    }
}
