//! From one to all.
//!
//! Block 0 is the whole buffer if it is not divided; otherwise, blocks are its parts.

use super::trees::{self, TreePosition};
use crate::algorithms::broadcast::scatter;
use crate::algorithms::parts::{PartBounds, numbers};
use crate::call::Call;
use crate::schedule::Builder;

/// Radix of a k-nomial tree (`coll_tuned_bcast_algorithm_knomial_radix`).
const BASE: u32 = 4;

/// Builds messages from the root directly to each rank, all at once.
pub(crate) fn linear(call: &Call, to: &mut Builder) {
    let bytes = call.bytes();
    if call.rank != call.root {
        return to.receive(call.root, bytes);
    }
    for rank in (0..call.members).filter(|rank| *rank != call.root) {
        to.begin_send(rank, bytes, || vec![0]);
    }
    to.wait();
}

/// Receives from the parent, and sends to all children at once.
fn down(place: &TreePosition, bytes: u64, to: &mut Builder) {
    if let Some(parent) = place.parent {
        to.receive(parent, bytes);
    }
    for child in &place.children {
        to.begin_send(*child, bytes, || vec![0]);
    }
    to.wait();
}

/// Builds a chain from each rank to the next.
pub(crate) fn chain(call: &Call, to: &mut Builder) {
    down(&trees::chain(call), call.bytes(), to);
}

/// Builds a binary tree.
pub(crate) fn binary(call: &Call, to: &mut Builder) {
    down(&trees::binary(call), call.bytes(), to);
}

/// Builds a binomial tree, the nearest rank first.
pub(crate) fn binomial(call: &Call, to: &mut Builder) {
    down(&trees::rotated_binomial(call), call.bytes(), to);
}

/// Builds the same, with the root and rank 0 swapped.
pub(crate) fn swapped_binomial(call: &Call, to: &mut Builder) {
    down(&trees::swapped_binomial(call), call.bytes(), to);
}

/// Builds a tree of radix 4.
pub(crate) fn knomial(call: &Call, to: &mut Builder) {
    down(&trees::knomial(call, BASE), call.bytes(), to);
}

/// Builds a binary tree with one half of the data down each side; then each rank exchanges its half with one of the other side.
pub(crate) fn split_binary(call: &Call, to: &mut Builder) {
    let low = call.count.div_ceil(2);
    if call.count < 2 {
        return chain(call, to);
    }
    let halves = [low, call.count - low].map(|count| count.saturating_mul(call.element));
    let place = trees::binary(call);
    let (relative, last) = (call.relative(), call.members - 1);
    let side = ((relative + 1) % 2) as usize;
    let half = |side: usize| move || vec![side as u64];
    match place.parent {
        None => {
            for (side, child) in place.children.iter().enumerate() {
                to.send(*child, halves[side], half(side));
            }
        }
        Some(parent) => {
            to.receive(parent, halves[side]);
            for child in &place.children {
                to.send(*child, halves[side], half(side));
            }
        }
    }
    let even = call.members.is_multiple_of(2);
    if relative == 0 {
        if even {
            to.send(call.absolute(last), halves[1], half(1));
        }
    } else if even && relative == last {
        to.receive(call.root, halves[1]);
    } else {
        let partner = if side == 0 {
            call.after(1)
        } else {
            call.before(1)
        };
        to.exchange(partner, halves[side], half(side), partner, halves[1 - side]);
    }
}

/// Builds a scatter of pieces down a binomial tree, then a gather with recursive doubling. For other numbers of members than powers of
/// two, ranks without a partner get the data that the others received.
pub(crate) fn scatter_allgather(call: &Call, to: &mut Builder) {
    let members = call.members;
    if call.count < members.into() {
        return linear(call, to);
    }
    let piece = call.count.div_ceil(members.into());
    let parts = PartBounds::of((0..u64::from(members)).map(|number| {
        let rest = call.count.saturating_sub(number.saturating_mul(piece));
        rest.min(piece).saturating_mul(call.element)
    }));
    scatter(call, &parts, to);
    let own = call.relative();
    let mut mask = 1;
    while mask < members {
        let partner = own ^ mask;
        let [have, get] = [own, partner].map(|number| {
            let first = number & !(mask - 1);
            first.min(members)..(first + mask).min(members)
        });
        if partner < members {
            let rank = call.absolute(partner);
            to.exchange(
                rank,
                parts.bytes(have.clone()),
                || numbers(have),
                rank,
                parts.bytes(get.clone()),
            );
        }
        if (partner & !(mask - 1)) + mask > members {
            pass_on(call, own, mask, parts.bytes(get.clone()), &numbers(get), to);
        }
        mask <<= 1;
    }
}

/// Passes data down a binomial tree to the ranks whose partners do not exist.
fn pass_on(call: &Call, own: u32, mask: u32, bytes: u64, blocks: &[u64], to: &mut Builder) {
    let first = own & !(mask - 1);
    let Some(complete) = call.members.checked_sub(first + mask) else {
        return;
    };
    let mut distance = mask >> 1;
    while distance > 0 {
        let partner = own ^ distance;
        let bound = (own & !(2 * distance - 1)) + complete;
        if partner > own && own < bound && partner >= bound {
            to.send(call.absolute(partner), bytes, || blocks.to_vec());
        } else if partner < own && partner < bound && own >= bound {
            to.receive(call.absolute(partner), bytes);
        }
        distance >>= 1;
    }
}
