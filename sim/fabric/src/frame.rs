//! Ethernet frames: their addresses and their time on the wire.
//!
//! Hosts' addresses and numbers map to each other. Frames are guests' data and may be too short for any header. Used by links for times and by the
//! fabric for destinations.

/// Segments of hosts without guests.
mod segment;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use segment::SegmentHeader;
pub use segment::{HEADERS, MARK_BYTES, headers};

/// An Ethernet frame from destination address to payload, without preamble and checksum, as a NIC passes it on. Zeros at its end may be stored as a
/// count.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "FrameState", into = "FrameState")]
pub struct Frame {
    content: Content,
    zeros: u32,
}

/// All bytes of a frame except zeros at its end.
#[derive(Clone, Debug)]
enum Content {
    /// As the host's NIC sent them.
    Given(Arc<[u8]>),
    /// A segment of a host without a guest.
    Made(SegmentHeader),
}

/// A frame's first bytes.
#[derive(Clone, Debug)]
pub enum Head<'a> {
    /// As stored in the frame.
    Given(&'a [u8]),
    /// Computed from the frame's hosts and its mark.
    Made([u8; HEADERS]),
}

impl Deref for Head<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Given(bytes) => bytes,
            Self::Made(bytes) => bytes,
        }
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.zeros == other.zeros && *self.head() == *other.head()
    }
}

impl Eq for Frame {}

/// The same as plain values.
#[derive(Serialize, Deserialize)]
struct FrameState {
    head: Vec<u8>,
    zeros: u32,
}

/// Limit on zeros at a frame's end, above any frame's length.
const MOST_ZEROS: u32 = 1 << 16;

impl Frame {
    /// A frame of these bytes, followed by `zeros` zeros, 65536 at most.
    pub fn padded(head: impl Into<Arc<[u8]>>, zeros: u32) -> Self {
        Self {
            content: Content::Given(head.into()),
            zeros: zeros.min(MOST_ZEROS),
        }
    }

    /// A segment with this number of bytes of data, 65536 at most, between two hosts without guests: [headers] with a mark, and zeros.
    pub fn segment(from: u32, to: u32, mark: [u8; MARK_BYTES], data: u32) -> Self {
        Self {
            content: Content::Made(SegmentHeader { from, to, mark }),
            zeros: data.min(MOST_ZEROS),
        }
    }

    /// The mark of a [segment](Self::segment), read from any frame that is long enough.
    pub fn mark(&self) -> Option<[u8; MARK_BYTES]> {
        match &self.content {
            Content::Given(head) => segment::mark_of(head),
            Content::Made(segment) => Some(segment.mark),
        }
    }

    /// Its first bytes: all except counted zeros. They include addresses and headers, if any.
    pub fn head(&self) -> Head<'_> {
        match &self.content {
            Content::Given(head) => Head::Given(head),
            Content::Made(segment) => Head::Made(segment.bytes()),
        }
    }

    /// The destination's address; `None` if the frame is too short.
    pub fn destination(&self) -> Option<Mac> {
        match &self.content {
            Content::Given(head) => Mac::destination(head),
            Content::Made(segment) => Some(Mac::of_host(segment.to)),
        }
    }

    /// Its length in bytes.
    pub fn length(&self) -> usize {
        let head = match &self.content {
            Content::Given(head) => head.len(),
            Content::Made(_) => HEADERS,
        };
        head + self.zeros as usize
    }

    /// All of its bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length());
        bytes.extend(&self.head()[..]);
        bytes.resize(self.length(), 0);
        bytes
    }
}

impl<T: Into<Arc<[u8]>>> From<T> for Frame {
    fn from(bytes: T) -> Self {
        Self::padded(bytes, 0)
    }
}

impl From<FrameState> for Frame {
    fn from(state: FrameState) -> Self {
        Self::padded(state.head, state.zeros)
    }
}

impl From<Frame> for FrameState {
    fn from(frame: Frame) -> Self {
        Self {
            head: frame.head().to_vec(),
            zeros: frame.zeros,
        }
    }
}

/// Shortest frame on the wire, checksum included (IEEE 802.3, 4.4.2).
pub const MIN_FRAME: u64 = 64;

/// Time on the wire besides a frame's own, in bytes: preamble and start delimiter (8) and the gap to the next frame (12).
pub const WIRE_OVERHEAD: u64 = 20;

const CHECKSUM: u64 = 4;

/// Time on the wire for a frame of `length` bytes, in bytes.
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

    /// The number of the host with this address; `None` if it is not a host's.
    pub fn host_index(self) -> Option<u32> {
        let [0x52, 0x54, a, b, c, d] = self.0 else {
            return None;
        };
        Some(u32::from_be_bytes([a, b, c, d]))
    }

    /// The destination of a frame; `None` if the frame is too short.
    pub fn destination(frame: &[u8]) -> Option<Self> {
        Some(Self(frame.get(..6)?.try_into().ok()?))
    }

    /// The source of a frame; `None` if the frame is too short.
    pub fn source(frame: &[u8]) -> Option<Self> {
        Some(Self(frame.get(6..12)?.try_into().ok()?))
    }

    /// True for a group address, including broadcast.
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
