//! Ethernet frames: their addresses and the time that they take on a wire.
//!
//! Hosts' addresses follow from their numbers, and back. Frames are guests' bytes: they may be too short
//! for anything. Used by links for time and by the fabric for destinations.

use std::fmt;
use std::sync::Arc;

/// An Ethernet frame from destination address to payload, without preamble and
/// checksum, as a NIC hands it over.
pub type Frame = Arc<[u8]>;

/// Shortest frame on the wire, checksum included (IEEE 802.3, 4.4.2).
pub const MIN_FRAME: u64 = 64;

/// Bytes of time that a frame takes besides its own: preamble and start delimiter
/// (8) and the gap to the next one (12).
pub const WIRE_OVERHEAD: u64 = 20;

const CHECKSUM: u64 = 4;

/// Bytes of time on the wire for a frame of `length` bytes.
pub fn wire_bytes(length: usize) -> u64 {
    (length as u64 + CHECKSUM).max(MIN_FRAME) + WIRE_OVERHEAD
}

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address of host `index`: locally administered, unicast.
    pub fn of_host(index: u32) -> Self {
        let [a, b, c, d] = index.to_be_bytes();
        Self([0x52, 0x54, a, b, c, d])
    }

    /// The number of the host with this address; `None` when it is none of theirs.
    pub fn host_index(self) -> Option<u32> {
        let [0x52, 0x54, a, b, c, d] = self.0 else {
            return None;
        };
        Some(u32::from_be_bytes([a, b, c, d]))
    }

    /// The destination of a frame; `None` when it is too short to have one.
    pub fn destination(frame: &[u8]) -> Option<Self> {
        Some(Self(frame.get(..6)?.try_into().ok()?))
    }

    /// The source of a frame; `None` when it is too short to have one.
    pub fn source(frame: &[u8]) -> Option<Self> {
        Some(Self(frame.get(6..12)?.try_into().ok()?))
    }

    /// Whether it addresses a group, broadcast included.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
