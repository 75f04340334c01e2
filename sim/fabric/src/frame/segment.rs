//! Segments of hosts without guests: computed headers, and a mark of the protocol.
//!
//! A network of such hosts creates millions of segments, so none is allocated. Bytes are created only for routing that hashes them, and for checkpoints.
//! Used by frames.

use super::Mac;

/// Bytes of the headers of a frame of TCP over IPv4 and Ethernet, with time stamps (RFC 7323).
pub const HEADERS: usize = 66;

/// The headers of a TCP frame from one host to another, for traffic without guests: the fields that routing reads, with hosts' numbers as addresses.
pub fn headers(from: u32, to: u32) -> [u8; HEADERS] {
    let mut frame = [0; HEADERS];
    frame[..6].copy_from_slice(&Mac::of_host(to).0);
    frame[6..12].copy_from_slice(&Mac::of_host(from).0);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[23] = 6;
    frame[26..30].copy_from_slice(&from.to_be_bytes());
    frame[30..34].copy_from_slice(&to.to_be_bytes());
    frame[34..36].copy_from_slice(&(from as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&(to as u16).to_be_bytes());
    frame
}

/// Position of a mark in a frame: after the ports, in bytes that no switch reads.
const MARK: usize = 38;

/// Bytes of the mark that a protocol without guests writes into its segments' headers.
pub const MARK_BYTES: usize = 20;

/// A segment without its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentHeader {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) mark: [u8; MARK_BYTES],
}

impl SegmentHeader {
    /// Its headers.
    pub(super) fn bytes(&self) -> [u8; HEADERS] {
        let mut frame = headers(self.from, self.to);
        frame[MARK..MARK + MARK_BYTES].copy_from_slice(&self.mark);
        frame
    }
}

/// The mark of a frame with these first bytes, if there are enough.
pub(super) fn mark_of(head: &[u8]) -> Option<[u8; MARK_BYTES]> {
    head.get(MARK..MARK + MARK_BYTES)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowKey, Frame};

    #[test]
    fn segments_are_the_frames_of_their_bytes() {
        let mark = std::array::from_fn(|at| at as u8 + 1);
        let made = Frame::segment(7, 9, mark, 100);
        let given = Frame::padded(made.head().to_vec(), 100);
        assert_eq!(made, given);
        assert_eq!(made.to_vec(), given.to_vec());
        assert_eq!((made.length(), given.length()), (166, 166));
        assert_eq!((made.mark(), given.mark()), (Some(mark), Some(mark)));
        assert_eq!(made.destination(), Some(Mac::of_host(9)));
        assert_eq!(given.destination(), Some(Mac::of_host(9)));
        // Switches ignore the mark.
        assert_eq!(FlowKey::of(&made.head()), FlowKey::of(&headers(7, 9)));
        assert_ne!(made, Frame::segment(7, 9, [0; MARK_BYTES], 100));
        assert_eq!(Frame::from(vec![0; 57]).mark(), None);
    }
}
