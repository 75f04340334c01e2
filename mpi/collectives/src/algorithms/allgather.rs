//! Gathers with the result at all ranks.
//!
//! Blocks have the numbers of their ranks. With pieces, the algorithms differ only in their bytes, except that the ring splits large
//! pieces.

use super::parts::{PartBounds, numbers};
use crate::call::Call;
use crate::schedule::Builder;

/// Most bytes of a part of a piece in the ring (`MPIR_CVAR_ALLGATHERV_PIPELINE_MSG_SIZE`).
const PIPELINE: u64 = 32768;

/// Most bytes of all pieces for which they are split: no node holds more than this, and the number of parts is bounded.
const MOST_IN_PARTS: u64 = 1 << 36;

/// Returns the pieces of all ranks; `None` if there are too few.
pub(super) fn pieces(call: &Call) -> Option<PartBounds> {
    let pieces = call.received.get(..call.members as usize)?;
    Some(PartBounds::of(pieces.iter().copied()))
}

/// Returns a block of each rank.
pub(super) fn equal(call: &Call) -> PartBounds {
    let block = call.bytes();
    PartBounds::of((0..call.members).map(|_| block))
}

/// Builds recursive doubling.
pub(crate) fn doubling(call: &Call, to: &mut Builder) {
    if call.bytes() > 0 {
        doubled(call, &equal(call), to);
    }
}

/// Builds the same, with pieces.
pub(crate) fn doubling_pieces(call: &Call, to: &mut Builder) {
    if let Some(parts) = pieces(call).filter(|parts| parts.total() > 0) {
        doubled(call, &parts, to);
    }
}

fn doubled(call: &Call, parts: &PartBounds, to: &mut Builder) {
    let mut mask = 1;
    while mask < call.members {
        let partner = call.rank ^ mask;
        let [own, other] = [call.rank, partner].map(|rank| {
            let first = rank & !(mask - 1);
            first..first + mask
        });
        to.exchange(
            partner,
            parts.bytes(own.clone()),
            || numbers(own),
            partner,
            parts.bytes(other),
        );
        mask <<= 1;
    }
}

/// Builds Bruck's algorithm.
pub(crate) fn brucks(call: &Call, to: &mut Builder) {
    if call.bytes() > 0 {
        bruck(call, &equal(call), to);
    }
}

/// Builds the same, with pieces.
pub(crate) fn brucks_pieces(call: &Call, to: &mut Builder) {
    if let Some(parts) = pieces(call).filter(|parts| parts.total() > 0) {
        bruck(call, &parts, to);
    }
}

/// Each rank has the consecutive blocks from its own on, modulo the number of ranks, and receives as many again from the rank with the
/// following ones.
fn bruck(call: &Call, parts: &PartBounds, to: &mut Builder) {
    let members = call.members;
    let run = |first: u32, count: u32| {
        let end = (first + count).min(members);
        let rest = (first + count) - end;
        parts.bytes(first..end).saturating_add(parts.bytes(0..rest))
    };
    let mut has = 1;
    while has < members {
        let count = has.min(members - has);
        let (from, towards) = (call.after(has), call.before(has));
        to.exchange(
            towards,
            run(call.rank, count),
            || (0..count).map(|index| call.after(index).into()).collect(),
            from,
            run(from, count),
        );
        has += count;
    }
    to.copy(parts.total());
}

/// Builds a ring.
pub(crate) fn ring(call: &Call, to: &mut Builder) {
    let block = call.bytes();
    if block == 0 {
        return;
    }
    for round in 0..call.members - 1 {
        to.exchange(
            call.after(1),
            block,
            || vec![call.before(round).into()],
            call.before(1),
            block,
        );
    }
}

/// Builds a ring, with pieces of more than [`PIPELINE`] bytes in parts. Parts of one piece have its number: only the last counts.
pub(crate) fn ring_pieces(call: &Call, to: &mut Builder) {
    let Some(pieces) = call.received.get(..call.members as usize) else {
        return;
    };
    let sum = |but: u32| {
        let others = pieces.iter().zip(0..).filter(|(_, rank)| *rank != but);
        others.fold(0u64, |sum, (bytes, _)| sum.saturating_add(*bytes))
    };
    let (right, left) = (call.after(1), call.before(1));
    let largest = pieces.iter().copied().max().unwrap_or(0);
    let in_parts = largest > PIPELINE && sum(right).max(sum(call.rank)) <= MOST_IN_PARTS;
    let chunk = if in_parts { PIPELINE } else { largest };
    let mut out = RingProgress::new(call.rank, sum(right));
    let mut into = RingProgress::new(left, sum(call.rank));
    while out.open > 0 || into.open > 0 {
        let (sent, received) = (out.next(pieces, chunk), into.next(pieces, chunk));
        let blocks = || vec![out.piece.into()];
        match (sent, received) {
            (0, 0) => {}
            (0, _) => to.receive(left, received),
            (_, 0) => to.send(right, sent, blocks),
            _ => to.exchange(right, sent, blocks, left, received),
        }
        out.advance(pieces, sent);
        into.advance(pieces, received);
    }
}

/// The progress of a rank in the ring, in sending or in receiving: pieces downward from one on, modulo the number of ranks.
struct RingProgress {
    piece: u32,
    /// Bytes of the piece that are complete.
    done: u64,
    /// Remaining bytes of all pieces.
    open: u64,
}

impl RingProgress {
    fn new(piece: u32, open: u64) -> Self {
        Self {
            piece,
            done: 0,
            open,
        }
    }

    fn next(&self, pieces: &[u64], chunk: u64) -> u64 {
        if self.open == 0 {
            return 0;
        }
        (pieces[self.piece as usize] - self.done).min(chunk)
    }

    fn advance(&mut self, pieces: &[u64], bytes: u64) {
        self.done += bytes;
        self.open -= bytes.min(self.open);
        if self.done == pieces[self.piece as usize] {
            self.done = 0;
            self.piece = self.piece.checked_sub(1).unwrap_or(pieces.len() as u32 - 1);
        }
    }
}
