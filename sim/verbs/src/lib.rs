//! Packets of InfiniBand as typed values, from and to the bytes of the wire.
//!
//! The opcode determines which headers a packet has, so that a [`Packet`] cannot be written with headers that its receiver would not
//! expect. Decoding refuses bytes that are no packet, and never panics: peers are hostile. Checksums are not computed, since links
//! lose packets and do not change them; their bytes are zero. Cards make and take packets, and fabrics read the addresses.
//!
//! InfiniBand Architecture Specification volume 1, release 1.3, chapters 7 to 9.

/// Opcodes: service, operation, and the headers that follow.
mod opcode;
/// Packet sequence numbers, 24 bits wide.
mod sequence;

pub use opcode::{Extensions, Opcode, Operation, Service, With};
pub use sequence::Psn;

/// Bytes of the local route header.
const LRH: usize = 8;
/// Bytes of the global route header.
const GRH: usize = 40;
/// Bytes of the base transport header.
const BTH: usize = 12;
/// In the base transport header: the byte with marks of congestion, forward (FECN) and backward (BECN).
const MARKS: usize = 4;
/// See [`MARKS`].
const FORWARD: u8 = 0x80;
/// See [`MARKS`].
const BACKWARD: u8 = 0x40;
/// Bytes of the invariant checksum.
const ICRC: usize = 4;
/// Bytes of the variant checksum, which only links have.
const VCRC: u64 = 2;
/// The largest packet: 4096 bytes of payload with all headers.
pub const LONGEST_PACKET: usize = LRH + GRH + BTH + 28 + 4096 + ICRC;
/// The shortest packet: an acknowledgement.
pub const SHORTEST_PACKET: usize = LRH + BTH + 4 + ICRC;
/// The first of the local identifiers of multicast groups.
pub const FIRST_MULTICAST: u16 = 0xc000;

/// Bytes on a link of a packet of `length` bytes.
pub const fn wire_bytes(length: usize) -> u64 {
    length as u64 + VCRC
}

/// The destination and source of a packet's bytes; `None` if they are too short.
pub fn addresses(bytes: &[u8]) -> Option<(u16, u16)> {
    let word = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    Some((word(2)?, word(6)?))
}

/// Bytes of a packet's payload; `None` if its bytes are no packet.
pub fn payload_bytes(bytes: &[u8]) -> Option<usize> {
    let global = if bytes.get(1)? & 3 == 3 { GRH } else { 0 };
    let transport = bytes.get(LRH + global..)?;
    let (code, flags) = (*transport.first()?, *transport.get(1)?);
    let headers = BTH + Opcode::of_code(code)?.extension_bytes();
    transport
        .len()
        .checked_sub(headers + ICRC + usize::from(flags >> 4 & 3))
}

/// Sets the forward mark of congestion in a packet's bytes, which a switch does on the way. Returns false for packets that are never marked:
/// management, packets without data, and bytes that are no packet.
pub fn mark_congestion(bytes: &mut [u8]) -> bool {
    let (Some(lane), Some(kind)) = (bytes.first(), bytes.get(1)) else {
        return false;
    };
    let global = if kind & 3 == 3 { GRH } else { 0 };
    let is_management = lane >> 4 == 15;
    let opcode = bytes.get(LRH + global).copied().and_then(Opcode::of_code);
    let is_marked = opcode.is_some_and(|opcode| opcode.operation.has_data());
    match bytes.get_mut(LRH + global + MARKS) {
        Some(marks) if is_marked && !is_management => *marks |= FORWARD,
        _ => return false,
    }
    true
}

/// The global route header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalRoute {
    /// Traffic class.
    pub class: u8,
    /// Flow label, 20 bits.
    pub flow: u32,
    /// Hop limit.
    pub hops: u8,
    /// The sender's global identifier.
    pub source: [u8; 16],
    /// The destination's.
    pub destination: [u8; 16],
}

/// A packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// True for subnet management, on a lane of its own.
    pub is_management: bool,
    /// Service level.
    pub level: u8,
    /// Destination's local identifier.
    pub to: u16,
    /// Sender's local identifier.
    pub from: u16,
    /// The global route header, if there is one.
    pub global: Option<GlobalRoute>,
    /// Service and operation.
    pub opcode: Opcode,
    /// True if the receiver's application asked for an event by this packet.
    pub is_solicited: bool,
    /// Partition key.
    pub partition: u16,
    /// True if a switch marked it: an output on the way is congested (FECN).
    pub is_marked: bool,
    /// True if it notifies its receiver that the other direction is congested (BECN).
    pub notifies: bool,
    /// Number of the destination's queue pair.
    pub queue_pair: u32,
    /// True if the sender asks for an acknowledgement.
    pub wants_ack: bool,
    /// Sequence number.
    pub psn: Psn,
    /// The further headers.
    pub extensions: Extensions,
    /// Payload.
    pub payload: Vec<u8>,
}

impl Packet {
    /// The bytes from the local route header to the invariant checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        let pad = self.payload.len().wrapping_neg() & 3;
        let global = self.global.map_or(0, |_| GRH);
        let rest = BTH + self.opcode.extension_bytes() + self.payload.len() + pad + ICRC;
        let mut bytes = Vec::with_capacity(LRH + global + rest);
        let next = if self.global.is_some() { 3 } else { 2 };
        let lane = if self.is_management { 0xf0 } else { 0 };
        bytes.extend([lane, self.level << 4 | next]);
        bytes.extend(self.to.to_be_bytes());
        bytes.extend((((LRH + global + rest) / 4) as u16).to_be_bytes());
        bytes.extend(self.from.to_be_bytes());
        if let Some(route) = &self.global {
            let first = 6 << 28 | u32::from(route.class) << 20 | route.flow & 0xf_ffff;
            bytes.extend(first.to_be_bytes());
            bytes.extend((rest as u16).to_be_bytes());
            bytes.extend([0x1b, route.hops]);
            bytes.extend(route.source);
            bytes.extend(route.destination);
        }
        let solicited = if self.is_solicited { 0x80 } else { 0 };
        bytes.extend([self.opcode.code(), solicited | (pad as u8) << 4]);
        bytes.extend(self.partition.to_be_bytes());
        let forward = if self.is_marked { FORWARD } else { 0 };
        let backward = if self.notifies { BACKWARD } else { 0 };
        let marks = u32::from(forward | backward) << 24;
        bytes.extend((marks | self.queue_pair & 0xff_ffff).to_be_bytes());
        let ack = if self.wants_ack { 1 << 31 } else { 0 };
        bytes.extend((ack | self.psn.number()).to_be_bytes());
        self.opcode.write(&self.extensions, &mut bytes);
        bytes.extend(&self.payload);
        bytes.resize(bytes.len() + pad + ICRC, 0);
        bytes
    }

    /// The packet with these bytes; `None` if they are none.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = Reader(bytes);
        let [lane, kind] = rest.array()?;
        let to = rest.u16()?;
        let words = rest.u16()? & 0x7ff;
        let from = rest.u16()?;
        if usize::from(words) * 4 != bytes.len() || bytes.len() > LONGEST_PACKET {
            return None;
        }
        let global = match kind & 3 {
            2 => None,
            3 => Some(rest.global()?),
            _ => return None,
        };
        let [code, flags] = rest.array()?;
        let opcode = Opcode::of_code(code)?;
        let partition = rest.u16()?;
        let pair = rest.u32()?;
        let marks = (pair >> 24) as u8;
        let last = rest.u32()?;
        let extensions = opcode.read(&mut rest)?;
        let length = rest
            .0
            .len()
            .checked_sub(ICRC + usize::from(flags >> 4 & 3))?;
        Some(Self {
            is_management: lane >> 4 == 15,
            level: kind >> 4,
            to,
            from,
            global,
            opcode,
            is_solicited: flags & 0x80 != 0,
            partition,
            is_marked: marks & FORWARD != 0,
            notifies: marks & BACKWARD != 0,
            queue_pair: pair & 0xff_ffff,
            wants_ack: last >> 31 == 1,
            psn: Psn::new(last),
            extensions,
            payload: rest.0[..length].to_vec(),
        })
    }
}

/// Bytes that are read from the front.
pub(crate) struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn global(&mut self) -> Option<GlobalRoute> {
        let first = self.u32()?;
        let _length = self.u16()?;
        let [_next, hops] = self.array()?;
        Some(GlobalRoute {
            class: (first >> 20) as u8,
            flow: first & 0xf_ffff,
            hops,
            source: self.array()?,
            destination: self.array()?,
        })
    }
}

#[cfg(test)]
mod tests;
