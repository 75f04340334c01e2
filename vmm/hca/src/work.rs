//! Work requests, which programs write into rings.
//!
//! Parsing reads only the bytes that the control segment counts, and refuses segments that do not fit them. A request that was parsed
//! is a value of its own: it is kept until it is complete, and read again for a retransmission.

use serde::{Deserialize, Serialize};

use crate::fields::{u8_at, u16_at, u32_at, u64_at};

/// Bytes of a segment.
const SEGMENT: usize = 16;
/// The key that ends a receive's list.
const NO_KEY: u32 = 0x100;
/// The largest message.
pub(crate) const LONGEST_MESSAGE: u64 = 1 << 30;

/// Opcodes of send work.
pub(crate) mod op {
    pub(crate) const NOTHING: u8 = 0x00;
    pub(crate) const SEND_INVALIDATE: u8 = 0x01;
    pub(crate) const WRITE: u8 = 0x08;
    pub(crate) const WRITE_IMMEDIATE: u8 = 0x09;
    pub(crate) const SEND: u8 = 0x0a;
    pub(crate) const SEND_IMMEDIATE: u8 = 0x0b;
    pub(crate) const READ: u8 = 0x10;
    pub(crate) const COMPARE_SWAP: u8 = 0x11;
    pub(crate) const FETCH_ADD: u8 = 0x12;
    pub(crate) const FAST_REGISTER: u8 = 0x19;
    pub(crate) const LOCAL_INVALIDATE: u8 = 0x1b;
}

/// Memory of the program, by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub(crate) key: u32,
    pub(crate) addr: u64,
    pub(crate) bytes: u32,
}

/// Data of a request: in its own bytes, or in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Data {
    Inline(#[serde(with = "serde_bytes")] Vec<u8>),
    Memory(Segment),
}

impl Data {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Memory(segment) => u64::from(segment.bytes),
        }
    }
}

/// The destination of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Destination {
    pub(crate) lid: u16,
    pub(crate) level: u8,
    /// Global identifier, class, flow label and hop limit.
    pub(crate) global: Option<([u8; 16], u32, u8)>,
    pub(crate) queue_pair: u32,
    pub(crate) queue_key: u32,
}

/// A request of a ring of sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Work {
    /// Its counter in the ring.
    pub(crate) counter: u16,
    pub(crate) opcode: u8,
    pub(crate) wants_completion: bool,
    pub(crate) is_solicited: bool,
    /// True if it waits for all reads before it.
    pub(crate) fences: bool,
    /// Immediate data, or the key to invalidate.
    pub(crate) immediate: u32,
    /// Address and key of the peer's memory.
    pub(crate) remote: (u64, u32),
    /// Of atomic operations: the value to swap in or to add, and the one to compare with.
    pub(crate) operands: (u64, u64),
    pub(crate) destination: Destination,
    pub(crate) data: Vec<Data>,
}

impl Work {
    /// Bytes of its data.
    pub(crate) fn bytes(&self) -> u64 {
        self.data.iter().map(Data::bytes).sum()
    }

    pub(crate) fn is_read(&self) -> bool {
        self.opcode == op::READ
    }

    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.opcode, op::COMPARE_SWAP | op::FETCH_ADD)
    }

    /// The request with these bytes, which begin with its control segment and are as many as that counts. `None` if it is malformed.
    pub(crate) fn of_bytes(bytes: &[u8], counter: u16, is_datagram: bool) -> Option<Self> {
        let flags = u32_at(bytes, 0x08);
        let mut work = Self {
            counter,
            opcode: u8_at(bytes, 3) & 0x1f,
            wants_completion: flags >> 2 & 3 == 3,
            is_solicited: flags >> 1 & 1 == 1,
            fences: u8_at(bytes, 7) & 0x40 != 0,
            immediate: u32_at(bytes, 0x0c),
            ..Self::default()
        };
        let mut rest = bytes.get(SEGMENT..)?;
        if is_datagram {
            work.destination = destination(rest.get(..48)?);
            rest = &rest[48..];
        }
        match work.opcode {
            op::NOTHING => return Some(work),
            op::LOCAL_INVALIDATE => {
                work.immediate = u32_at(rest, 8);
                return Some(work);
            }
            op::SEND | op::SEND_IMMEDIATE | op::SEND_INVALIDATE => {}
            op::WRITE | op::WRITE_IMMEDIATE | op::READ => {
                work.remote = (u64_at(rest.get(..SEGMENT)?, 0), u32_at(rest, 8));
                rest = &rest[SEGMENT..];
            }
            op::COMPARE_SWAP | op::FETCH_ADD => {
                let operands = rest.get(SEGMENT..2 * SEGMENT)?;
                work.remote = (u64_at(rest, 0), u32_at(rest, 8));
                work.operands = (u64_at(operands, 0), u64_at(operands, 8));
                rest = &rest[2 * SEGMENT..];
            }
            _ => return None,
        }
        work.data = data(rest)?;
        (work.bytes() <= LONGEST_MESSAGE).then_some(work)
    }
}

fn destination(segment: &[u8]) -> Destination {
    let key = u32_at(segment, 0x24);
    let route = u32_at(segment, 0x0c);
    let mut group = [0; 16];
    group.copy_from_slice(&segment[0x10..0x20]);
    let has_route = u8_at(segment, 5) & 0x80 != 0;
    Destination {
        lid: u16_at(segment, 6),
        level: (route >> 28) as u8,
        global: has_route.then(|| (group, route & 0x0fff_ffff, u8_at(segment, 0x0b))),
        queue_pair: u32_at(segment, 0x20) & 0xff_ffff,
        queue_key: key,
    }
}

/// The data segments that fill `rest`.
pub(crate) fn data(mut rest: &[u8]) -> Option<Vec<Data>> {
    let mut all = Vec::new();
    while rest.len() >= 4 {
        let count = u32_at(rest, 0);
        if count >> 31 == 1 && count & 0x7fff_ffff > 0 {
            let bytes = (count & 0x3ff) as usize;
            all.push(Data::Inline(rest.get(4..4 + bytes)?.to_vec()));
            let taken = (4 + bytes).next_multiple_of(SEGMENT);
            rest = rest.get(taken..).unwrap_or_default();
            continue;
        }
        let segment = rest.get(..SEGMENT)?;
        let bytes = count & 0x7fff_ffff;
        let (key, addr) = (u32_at(segment, 4), u64_at(segment, 8));
        if bytes > 0 {
            all.push(Data::Memory(Segment { key, addr, bytes }));
        }
        rest = &rest[SEGMENT..];
    }
    Some(all)
}

/// Bytes that segments have room for.
pub(crate) fn room(segments: &[Segment]) -> u64 {
    segments
        .iter()
        .map(|segment| u64::from(segment.bytes))
        .sum()
}

/// The segments of a receive.
pub(crate) fn receive_segments(bytes: &[u8]) -> Vec<Segment> {
    let mut all = Vec::new();
    for segment in bytes.chunks_exact(SEGMENT) {
        let (bytes, key) = (u32_at(segment, 0) & 0x7fff_ffff, u32_at(segment, 4));
        if key == NO_KEY {
            break;
        }
        let addr = u64_at(segment, 8);
        if bytes > 0 {
            all.push(Segment { key, addr, bytes });
        }
    }
    all
}
