//! Offloads of the sending side: checksums, and TCP segmentation (TSO).
//!
//! A chain of the guest is a header and a packet. It leaves as one frame, or is cut into frames with the same sequence numbers,
//! flags and checksums as from the guest's own stack. Used by `Net` to transmit.

use virtio_bindings::bindings::virtio_net as spec;

use super::packet::{Headers, complete_checksum};

/// The smallest segment size that a guest may request, Linux's `TCP_MIN_MSS` less its options: with smaller ones, headers would
/// exceed the data.
const LEAST_SEGMENT: usize = 48;

/// `struct virtio_net_hdr_v1` of a packet, without the number of its buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PacketHeader {
    pub(super) flags: u8,
    pub(super) kind: u8,
    pub(super) header_len: u16,
    pub(super) segment: u16,
    pub(super) sum_start: u16,
    pub(super) sum_offset: u16,
}

impl PacketHeader {
    /// Bytes of the whole structure.
    pub(super) const LEN: usize = 12;

    pub(super) fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            kind: bytes[1],
            header_len: half(2),
            segment: half(4),
            sum_start: half(6),
            sum_offset: half(8),
        }
    }

    /// The structure of a packet that lies in `buffers` buffers.
    pub(super) fn to_bytes(self, buffers: u16) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..2].copy_from_slice(&[self.flags, self.kind]);
        let halves = [
            self.header_len,
            self.segment,
            self.sum_start,
            self.sum_offset,
            buffers,
        ];
        for (place, half) in bytes[2..].chunks_exact_mut(2).zip(halves) {
            place.copy_from_slice(&half.to_le_bytes());
        }
        bytes
    }
}

/// The frames of a packet sent by the guest, none longer than `longest` bytes; `None` when header and packet do not fit each
/// other.
pub(super) fn frames(
    header: PacketHeader,
    mut packet: Vec<u8>,
    longest: usize,
) -> Option<Vec<Vec<u8>>> {
    let kind = u32::from(header.kind) & !spec::VIRTIO_NET_HDR_GSO_ECN;
    if kind == spec::VIRTIO_NET_HDR_GSO_TCPV4 {
        return segments(&packet, usize::from(header.segment), longest);
    }
    if kind != spec::VIRTIO_NET_HDR_GSO_NONE || packet.len() > longest {
        return None;
    }
    if u32::from(header.flags) & spec::VIRTIO_NET_HDR_F_NEEDS_CSUM != 0 {
        let (start, offset) = (header.sum_start.into(), header.sum_offset.into());
        complete_checksum(&mut packet, start, offset)?;
    }
    Some(vec![packet])
}

/// A TCP packet cut into frames of `segment` bytes of data.
fn segments(packet: &[u8], segment: usize, longest: usize) -> Option<Vec<Vec<u8>>> {
    let (headers, data) = Headers::split(packet)?;
    if segment < LEAST_SEGMENT || headers.len() + segment.min(data.len()) > longest {
        return None;
    }
    let count = data.chunks(segment).count();
    let mut frames = Vec::with_capacity(count);
    for (index, data) in data.chunks(segment).enumerate() {
        let mut headers = headers.clone();
        let skipped = u32::try_from(index * segment).ok()?;
        headers.ip.identification = headers.ip.identification.wrapping_add(index as u16);
        headers.tcp.sequence_number = headers.tcp.sequence_number.wrapping_add(skipped);
        let is_last = index + 1 == count;
        headers.tcp.fin &= is_last;
        headers.tcp.psh &= is_last;
        // CWR is set in the first segment only (RFC 3168, 6.1.2).
        headers.tcp.cwr &= index == 0;
        headers.seal(data)?;
        frames.push(headers.join(data));
    }
    (!frames.is_empty()).then_some(frames)
}
