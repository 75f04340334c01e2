//! Reductions to one, and prefixes.
//!
//! Block 0 is the whole buffer if it is not divided; otherwise, blocks are its parts.

use super::trees::{self, TreePosition};
use crate::algorithms::fold::{Aside, Fold};
use crate::algorithms::parts::{PartBounds, fragments};
use crate::algorithms::reduce::{scatter_gather_folded, up_binomial};
use crate::call::Call;
use crate::schedule::Builder;

/// Builds messages from each rank directly to the root, which receives them from the last rank on.
pub(crate) fn linear(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    if call.rank != call.root {
        return to.send(call.root, bytes, || vec![0]);
    }
    for rank in (0..call.members).rev().filter(|rank| *rank != call.root) {
        to.receive_combine(rank, bytes);
    }
}

/// Combines the data of the children, one after the other, and sends the result to the parent.
fn up(place: &TreePosition, bytes: u64, to: &mut Builder) {
    for child in &place.children {
        to.receive_combine(*child, bytes);
    }
    if let Some(parent) = place.parent {
        to.send(parent, bytes, || vec![0]);
    }
}

/// Builds a chain from each rank to the previous one.
pub(crate) fn chain(call: &Call, to: &mut Builder) {
    up(&trees::chain(call), call.bytes(), to);
}

/// Builds a binary tree.
pub(crate) fn binary(call: &Call, to: &mut Builder) {
    up(&trees::binary(call), call.bytes(), to);
}

/// Builds a binary tree in the order of ranks up to the last one, which sends the result to the root.
pub(crate) fn ordered_binary(call: &Call, to: &mut Builder) {
    let (bytes, last) = (call.bytes(), call.members - 1);
    up(&trees::ordered_binary(call.rank, call.members), bytes, to);
    if call.root == last {
        return;
    }
    if call.rank == last {
        to.send(call.root, bytes, || vec![0]);
    } else if call.rank == call.root {
        to.receive(last, bytes);
    }
}

/// Builds a reduce-scatter by halves, and a gather; messages directly to the root if there are too few elements or their
/// order matters.
pub(crate) fn halving_gather(call: &Call, to: &mut Builder) {
    let fold = Fold::of(call.members, Aside::Odd);
    if call.count < fold.power.into() || !call.commutative {
        return linear(call, to);
    }
    let parts = PartBounds::halved(call.count, call.element, fold.power);
    let number = fold.enter_by_halves(call.rank, &parts, to);
    scatter_gather_folded(call, &fold, &parts, number, to);
}

/// Builds a binomial tree, with the root and rank 0 swapped. A noncommutative reduction goes to rank 0, which sends the
/// result to the root.
pub(crate) fn swapped_binomial(call: &Call, to: &mut Builder) {
    let top = if call.commutative { call.root } else { 0 };
    let own = trees::swapped(call.rank, top);
    up_binomial(call, top, own, |number| trees::swapped(number, top), to);
}

/// Builds a chain from each rank to the previous one in fragments of 8 KiB, with the root and rank 0 swapped.
pub(crate) fn swapped_chain(call: &Call, to: &mut Builder) {
    let own = trees::swapped(call.rank, call.root);
    let other = |number| trees::swapped(number, call.root);
    for (bytes, number) in fragments(call.count, call.element, 8192).zip(0..) {
        if own + 1 < call.members {
            to.receive_combine(other(own + 1), bytes);
        }
        if let Some(before) = own.checked_sub(1) {
            to.send(other(before), bytes, || vec![number]);
        }
    }
}

/// Builds a chain from each rank to the next, which combines the data with its own.
pub(crate) fn scan(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    if let Some(before) = call.rank.checked_sub(1) {
        to.receive_combine(before, bytes);
    }
    if call.rank + 1 < call.members {
        to.send(call.rank + 1, bytes, || vec![0]);
    }
}
