//! From all to one.
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
    let blocks = |first: u32, mask: u32| mask.min(call.members - first);
    let mut mask = 1;
    while mask < call.members {
        if relative & mask != 0 {
            let count = blocks(relative, mask);
            let bytes = block.saturating_mul(count.into());
            to.send(call.absolute(relative ^ mask), bytes, || {
                let own = relative..relative + count;
                own.map(|relative| call.absolute(relative).into()).collect()
            });
            return;
        }
        let child = relative | mask;
        if child < call.members {
            let bytes = block.saturating_mul(blocks(child, mask).into());
            to.receive(call.absolute(child), bytes);
        }
        mask <<= 1;
    }
}

/// Builds messages from each rank directly to the root, which receives them all at once; empty pieces are not sent.
pub(crate) fn linear(call: &Call, to: &mut Builder) {
    if call.rank != call.root {
        let bytes = call.sent.first().copied().unwrap_or(0);
        if bytes > 0 {
            to.send(call.root, bytes, || vec![call.rank.into()]);
        }
        return;
    }
    let pieces = call.received.iter().zip(0..call.members);
    for (&bytes, rank) in pieces.filter(|(_, rank)| *rank != call.root) {
        if bytes > 0 {
            to.begin_receive(rank, bytes);
        }
    }
    to.wait();
}
