//! Receive aggregation: consecutive frames of a TCP stream reach the guest as one packet.
//!
//! A frame joins the packet of its stream by the rules of Linux's generic receive offload: equal headers except for length,
//! identification, sequence number and checksum, the next byte of the stream, and no more data than the packet's first frame. A packet is
//! complete when its data is pushed, when a frame is shorter than the first, when it has the maximum length of IPv4, or when no frame
//! followed in time. All other frames pass at once, after the packet of their stream. Used by `Net`.

use belljar_cpu::Cycles;
use serde::{Deserialize, Serialize};
use virtio_bindings::bindings::virtio_net as spec;

use super::packet::Headers;
use super::segmentation::PacketHeader;

/// Number of streams whose packets are collected at once, as in Linux's lists for generic receive offload.
const STREAMS: usize = 8;
/// Offset of the checksum in a TCP header.
const TCP_CHECKSUM: u16 = 16;

/// A packet for the guest, with the fields of its header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Packet {
    /// Number of frames in it.
    pub(super) frames: u64,
    /// Flags and kind of its header.
    flags: u8,
    kind: u8,
    /// Length of the headers, bytes of data in each segment, and offset of the TCP header; zeros for a single frame.
    places: [u16; 3],
    pub(super) bytes: Vec<u8>,
}

impl Packet {
    /// A packet of a single frame.
    pub(super) fn single(frame: Vec<u8>) -> Self {
        Self {
            frames: 1,
            flags: 0,
            kind: 0,
            places: [0; 3],
            bytes: frame,
        }
    }

    /// Its header.
    pub(super) fn header(&self) -> PacketHeader {
        let [header_len, segment, sum_start] = self.places;
        PacketHeader {
            flags: self.flags,
            kind: self.kind,
            header_len,
            segment,
            sum_start,
            sum_offset: if sum_start == 0 { 0 } else { TCP_CHECKSUM },
        }
    }
}

/// An incomplete packet.
#[derive(Debug)]
struct IncompletePacket {
    headers: Headers,
    data: Vec<u8>,
    /// Bytes of data of its first frame.
    segment: usize,
    frames: u64,
    deadline: Cycles,
}

/// The incomplete packets.
#[derive(Debug, Default)]
pub(super) struct Aggregation {
    open: Vec<IncompletePacket>,
}

/// The saved state of an incomplete packet: the frame that it would be, and the rest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OpenState {
    frame: Vec<u8>,
    segment: u64,
    frames: u64,
    deadline: Cycles,
}

impl Aggregation {
    /// The time at which the first packet is complete for lack of another frame.
    pub(super) fn deadline(&self) -> Option<Cycles> {
        self.open.iter().map(|open| open.deadline).min()
    }

    /// Adds a frame that arrived at `now`, waits `hold` cycles for the next one, and adds complete packets to `ready`.
    pub(super) fn take(
        &mut self,
        frame: Vec<u8>,
        now: Cycles,
        hold: Cycles,
        ready: &mut Vec<Packet>,
    ) {
        let Some((headers, data)) = Headers::split(&frame) else {
            ready.push(Packet::single(frame));
            return;
        };
        let same = |open: &IncompletePacket| is_same_stream(&open.headers, &headers);
        let found = self.open.iter().position(same);
        let plain = is_plain(&headers) && !data.is_empty() && headers.are_sound(data);
        if let Some(index) = found {
            let open = &mut self.open[index];
            if plain && open.takes(&headers, data) {
                open.add(&headers, data, now.saturating_add(hold));
                if headers.tcp.psh || data.len() < open.segment {
                    ready.push(self.open.remove(index).close());
                }
                return;
            }
            ready.push(self.open.remove(index).close());
        }
        if !plain || headers.tcp.psh {
            ready.push(match plain {
                true => IncompletePacket::new(headers, data, now).close(),
                false => Packet::single(frame),
            });
            return;
        }
        if self.open.len() == STREAMS {
            ready.push(self.open.remove(0).close());
        }
        self.open.push(IncompletePacket::new(
            headers,
            data,
            now.saturating_add(hold),
        ));
    }

    /// Adds the packets whose next frame did not come in time to `ready`.
    pub(super) fn expire(&mut self, now: Cycles, ready: &mut Vec<Packet>) {
        let due = |open: &mut IncompletePacket| open.deadline <= now;
        ready.extend(self.open.extract_if(.., due).map(IncompletePacket::close));
    }

    /// Discards all packets, and returns the number of their frames.
    pub(super) fn clear(&mut self) -> u64 {
        self.open.drain(..).map(|open| open.frames).sum()
    }

    /// The saved state of the packets.
    pub(super) fn save(&self) -> Vec<OpenState> {
        let open = self.open.iter().map(|open| OpenState {
            frame: open.headers.join(&open.data),
            segment: open.segment as u64,
            frames: open.frames,
            deadline: open.deadline,
        });
        open.collect()
    }

    /// Packets from a saved state; `None` if frames cannot produce them.
    pub(super) fn load(saved: &[OpenState]) -> Option<Self> {
        let open = saved.iter().map(|saved| {
            let (headers, data) = Headers::split(&saved.frame)?;
            let segment = usize::try_from(saved.segment).ok()?;
            let fits = (1..=data.len()).contains(&segment) && saved.frames > 0;
            fits.then(|| IncompletePacket {
                data: data.to_vec(),
                headers,
                segment,
                frames: saved.frames,
                deadline: saved.deadline,
            })
        });
        let open: Option<Vec<_>> = open.collect();
        Some(Self { open: open? })
    }
}

impl IncompletePacket {
    fn new(headers: Headers, data: &[u8], deadline: Cycles) -> Self {
        Self {
            data: data.to_vec(),
            segment: data.len(),
            headers,
            frames: 1,
            deadline,
        }
    }

    /// True if a frame of the same stream continues this packet.
    fn takes(&self, headers: &Headers, data: &[u8]) -> bool {
        let next = self.headers.tcp.sequence_number;
        let next = next.wrapping_add(self.data.len() as u32);
        let len = self.headers.tcp.header_len() + self.data.len() + data.len();
        headers.tcp.sequence_number == next
            && data.len() <= self.segment
            && self.headers.ip.header_len() + len <= usize::from(u16::MAX)
            && is_alike(&self.headers, headers)
    }

    fn add(&mut self, headers: &Headers, data: &[u8], deadline: Cycles) {
        self.data.extend_from_slice(data);
        self.headers.tcp.psh |= headers.tcp.psh;
        // A saved packet has the lengths of all its data.
        let _ = self.headers.measure(self.data.len());
        self.frames += 1;
        self.deadline = deadline;
    }

    /// The packet for the guest, whose checksums were verified.
    fn close(mut self) -> Packet {
        if self.frames == 1 {
            let mut packet = Packet::single(self.headers.join(&self.data));
            packet.flags = spec::VIRTIO_NET_HDR_F_DATA_VALID as u8;
            return packet;
        }
        let _ = self.headers.measure(self.data.len());
        // The same form as from a sending guest with checksum offload; the receiving guest trusts it.
        self.headers.tcp.checksum = self.headers.pseudo_sum();
        let short = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
        Packet {
            frames: self.frames,
            flags: spec::VIRTIO_NET_HDR_F_NEEDS_CSUM as u8,
            kind: spec::VIRTIO_NET_HDR_GSO_TCPV4 as u8,
            places: [
                short(self.headers.len()),
                short(self.segment),
                short(self.headers.tcp_at()),
            ],
            bytes: self.headers.join(&self.data),
        }
    }
}

/// True for a frame whose only content is data.
fn is_plain(headers: &Headers) -> bool {
    let tcp = &headers.tcp;
    let acts = tcp.syn || tcp.fin || tcp.rst || tcp.urg || tcp.ece || tcp.cwr || tcp.ns;
    tcp.ack && !acts && headers.ip.options.is_empty()
}

/// True for frames between the same ports of the same hosts.
fn is_same_stream(one: &Headers, other: &Headers) -> bool {
    let ends = |headers: &Headers| {
        let ports = (headers.tcp.source_port, headers.tcp.destination_port);
        (headers.ip.source, headers.ip.destination, ports)
    };
    ends(one) == ends(other)
}

/// True for headers of one packet that was cut into frames.
fn is_alike(one: &Headers, other: &Headers) -> bool {
    let mut other = other.clone();
    other.ip.total_len = one.ip.total_len;
    other.ip.identification = one.ip.identification;
    other.ip.header_checksum = one.ip.header_checksum;
    other.tcp.sequence_number = one.tcp.sequence_number;
    other.tcp.psh = one.tcp.psh;
    other.tcp.checksum = one.tcp.checksum;
    *one == other
}
