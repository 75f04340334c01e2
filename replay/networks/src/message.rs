//! Messages and their arrivals, and their size in frames and on the wire.
//!
//! A message is sent as frames of TCP over IPv4 and Ethernet, as the nodes' own systems send it. Used by all models and by replay.

use belljar_sim::Time;
use serde::{Deserialize, Serialize};

/// The number of a message in flight, chosen by the sender.
pub type MessageId = u32;

/// Bytes of data in a full frame: 1500 of IP, minus 20 of its header and 32 of TCP's with time stamps (RFC 7323).
pub(crate) const SEGMENT: u64 = 1448;

/// Bytes of a frame besides its data, from the destination's address on: 14 of Ethernet, 20 of IP, 32 of TCP.
pub(crate) const HEADERS: u64 = belljar_fabric::HEADERS as u64;

/// Most bytes of a message, since a network of frames creates them one by one.
pub const MOST_BYTES: u64 = 1 << 40;

/// A message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its number.
    pub id: MessageId,
    /// The host that sends it.
    pub from: u32,
    /// The host that receives it.
    pub to: u32,
    /// Bytes, including the library's own headers.
    pub bytes: u64,
    /// Number of the stream: messages of one stream from one host to another arrive in order of sending.
    pub stream: u64,
}

/// A message whose last frame has been taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time.
    pub time: Time,
    /// The message.
    pub id: MessageId,
}

/// Returns the frames of a message of this many bytes, at least one.
pub fn frames_of(bytes: u64) -> u64 {
    bytes.div_ceil(SEGMENT).max(1)
}

/// Returns the bytes on a wire of a message of this many bytes, with all headers, preambles and gaps.
pub fn on_wire(bytes: u64) -> u64 {
    let full = bytes / SEGMENT;
    let rest = bytes % SEGMENT;
    let of_frame = |data: u64| belljar_fabric::wire_bytes((HEADERS + data) as usize);
    let last = if rest > 0 || full == 0 {
        of_frame(rest)
    } else {
        0
    };
    full.saturating_mul(of_frame(SEGMENT)).saturating_add(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_many_frames_as_it_fills() {
        assert_eq!(frames_of(0), 1);
        assert_eq!(frames_of(SEGMENT), 1);
        assert_eq!(frames_of(SEGMENT + 1), 2);
        // IEEE 802.3: 1514 bytes, 4 of checksum, 20 of preamble and gap.
        assert_eq!(on_wire(SEGMENT), 1538);
        assert_eq!(on_wire(SEGMENT + 1), 1538 + 66 + 1 + 24);
        assert_eq!(on_wire(0), 66 + 24);
    }
}
