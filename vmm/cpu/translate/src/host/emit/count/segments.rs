//! The blocks of a trace, which have contexts and ticks of their own under a processor model.
//!
//! Blocks end where decoding ends them, so they are those that the guest runs without the trace. `emit` numbers them for
//! exits, and `block` keeps them for the engine.

use super::super::{Emitter, FoldedHistory};
use crate::guest::decode::{Follow, GuestBlock};
use bincode::{Decode, Encode};

/// A block of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct BlockSegment {
    /// The number of its first instruction.
    pub start: u16,
    /// The conditional jumps of the trace before it.
    pub folded: FoldedHistory,
}

/// The blocks of a trace.
pub(in super::super::super) fn segments_of(trace: &GuestBlock) -> Vec<BlockSegment> {
    let mut segments = vec![BlockSegment::default()];
    let mut folded = FoldedHistory::default();
    for (guest, end) in trace.instructions.iter().zip(1..) {
        match guest.follow {
            Follow::Taken => folded.push(true),
            Follow::NotTaken => folded.push(false),
            _ => {}
        }
        if guest.follow.ends_block() && usize::from(end) < trace.instructions.len() {
            segments.push(BlockSegment { start: end, folded });
        }
    }
    segments
}

impl Emitter {
    /// The number of the trace's block that contains the present instruction.
    pub(super) fn segment(&self) -> usize {
        let begun = self
            .segments
            .partition_point(|segment| segment.start <= self.index);
        begun.saturating_sub(1)
    }
}
