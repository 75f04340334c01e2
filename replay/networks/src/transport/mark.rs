//! What frames of replayed messages say of themselves.
//!
//! Three numbers stand in each after its addresses, which nobody else reads. A frame may come from a checkpoint that anybody wrote: any bytes are one. Called by `transport`.

use std::sync::Arc;

use belljar_fabric::{Frame, headers};
use belljar_sim::Time;

use super::Pair;
use crate::network::HEADERS;

/// Where in a frame what it is known by again stands, three numbers of eight bytes.
const MARK: usize = 38;

/// What stands for a message's place in an acknowledgement.
pub(super) const ACKNOWLEDGEMENT: u64 = u64::MAX;

/// A frame of a message: the message's place in the order of sending and the frame's in the message, and when it was sent. Of an acknowledgement the
/// second number is how many frames came.
pub(super) fn marked((from, to): Pair, (own, index): (u64, u64), sent: Time, data: u64) -> Frame {
    let mut frame = headers(from, to).to_vec();
    for (place, number) in frame[MARK..].chunks_mut(8).zip([own, index, sent.as_ps()]) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    frame.resize((HEADERS + data) as usize, 0);
    Arc::from(frame)
}

pub(super) fn mark_of(frame: &[u8]) -> Option<(u64, u64, Time)> {
    let number = |at: usize| {
        let bytes = frame.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_be_bytes(bytes))
    };
    let sent = number(MARK + 16)?;
    Some((number(MARK)?, number(MARK + 8)?, Time::from_ps(sent)))
}
