//! From all to one, and parts from one to all, without a tree.
//!
//! Blocks have the numbers of their ranks.

use crate::call::Call;
use crate::schedule::Builder;

fn others(call: &Call) -> impl Iterator<Item = u32> + use<> {
    let root = call.root;
    (0..call.members).filter(move |rank| *rank != root)
}

/// Builds messages from each rank directly to the root, which receives them in the order of ranks.
pub(crate) fn linear(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    if call.rank != call.root {
        return to.send(call.root, bytes, || vec![call.rank.into()]);
    }
    for rank in others(call) {
        to.receive(rank, bytes);
    }
}

/// Builds a synchronised gather: the root requests one block after the other with an empty message, and each rank sends
/// its block, followed by an empty message.
pub(crate) fn synchronised(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    if call.rank != call.root {
        to.receive(call.root, 0);
        to.send(call.root, bytes, || vec![call.rank.into()]);
        return to.send(call.root, 0, Vec::new);
    }
    for rank in others(call) {
        to.send(rank, 0, Vec::new);
        to.receive(rank, bytes);
    }
    for rank in others(call) {
        to.begin_receive(rank, 0);
    }
    to.wait();
}

/// Builds messages of pieces from each rank directly to the root, including empty ones.
pub(crate) fn pieces(call: &Call, to: &mut Builder) {
    if call.rank != call.root {
        let bytes = call.sent.first().copied().unwrap_or(0);
        return to.send(call.root, bytes, || vec![call.rank.into()]);
    }
    for rank in others(call) {
        let bytes = call.received.get(rank as usize).copied().unwrap_or(0);
        to.begin_receive(rank, bytes);
    }
    to.wait();
}

/// Builds messages from the root directly to each rank, all at once.
pub(crate) fn scatter(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    if call.rank != call.root {
        return to.receive(call.root, bytes);
    }
    for rank in others(call) {
        to.begin_send(rank, bytes, || vec![rank.into()]);
    }
    to.wait();
}

/// Builds messages of pieces from the root directly to each rank, including empty ones.
pub(crate) fn scatter_pieces(call: &Call, to: &mut Builder) {
    if call.rank != call.root {
        let bytes = call.received.first().copied().unwrap_or(0);
        return to.receive(call.root, bytes);
    }
    for rank in others(call) {
        let bytes = call.sent.get(rank as usize).copied().unwrap_or(0);
        to.begin_send(rank, bytes, || vec![rank.into()]);
    }
    to.wait();
}
