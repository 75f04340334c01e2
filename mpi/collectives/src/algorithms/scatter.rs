//! Parts from one to all.
//!
//! Blocks have the numbers of their ranks.

use crate::call::Call;
use crate::schedule::Builder;

/// Builds a binomial tree, with each subtree's blocks together.
pub(crate) fn binomial(call: &Call, to: &mut Builder) {
    let block = call.bytes();
    if block == 0 {
        return;
    }
    let relative = call.relative();
    let bytes = |count: u32| block.saturating_mul(count.into());
    let mut mask = 1;
    while mask < call.members && relative & mask == 0 {
        mask <<= 1;
    }
    let mut end = call.members;
    if mask < call.members {
        end = call.members.min(relative + mask);
        to.receive(call.absolute(relative - mask), bytes(end - relative));
    }
    mask >>= 1;
    while mask > 0 {
        let first = relative + mask;
        if first < call.members {
            to.send(call.absolute(first), bytes(end - first), || {
                let own = first..end;
                own.map(|relative| call.absolute(relative).into()).collect()
            });
            end = first;
        }
        mask >>= 1;
    }
}

/// Builds messages from the root directly to each rank, all at once; empty pieces are not sent.
pub(crate) fn linear(call: &Call, to: &mut Builder) {
    if call.rank != call.root {
        let bytes = call.received.first().copied().unwrap_or(0);
        if bytes > 0 {
            to.receive(call.root, bytes);
        }
        return;
    }
    let pieces = call.sent.iter().zip(0..call.members);
    for (&bytes, rank) in pieces.filter(|(_, rank)| *rank != call.root) {
        if bytes > 0 {
            to.begin_send(rank, bytes, || vec![rank.into()]);
        }
    }
    to.wait();
}
