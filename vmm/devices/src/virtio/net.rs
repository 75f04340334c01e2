//! virtio-net: Ethernet frames in and out, with checksum and segmentation offloads.
//!
//! A packet reaches the guest whole, or is dropped and counted: without a free buffer, up to `BACKLOG` packets wait. Sent frames carry the
//! cycle of the guest's notification, by which the network orders them. With offloads, the card cuts large packets of the guest into frames
//! (`segmentation`) and joins frames for it (`aggregation`). The node delivers and takes frames.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use belljar_cpu::{Cycles, GuestRam};
use virtio_bindings::bindings::virtio_net as spec;

use super::{Chain, Device, DeviceError, Virtqueue};

/// Receive aggregation: frames of one TCP stream that follow each other reach the guest as one packet.
mod aggregation;
/// Parsing and building TCP over IPv4 in an Ethernet frame.
mod packet;
/// Offloads of the sending side: checksums, and TCP segmentation.
mod segmentation;

use aggregation::{Aggregation, OpenState, Packet};
use packet::ETHERNET_HEADER;
use segmentation::PacketHeader;

const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

/// Bytes of `struct virtio_net_hdr_v1`.
const HEADER: u64 = PacketHeader::LEN as u64;
const VLAN_TAG: u64 = 4;
/// The longest packet that a guest sends: the longest of IPv4, after an Ethernet header.
const LONGEST_PACKET: u64 = ETHERNET_HEADER as u64 + VLAN_TAG + u16::MAX as u64;
/// Features of cards with offloads.
const OFFLOADS: u64 = 1 << spec::VIRTIO_NET_F_CSUM
    | 1 << spec::VIRTIO_NET_F_GUEST_CSUM
    | 1 << spec::VIRTIO_NET_F_GUEST_TSO4
    | 1 << spec::VIRTIO_NET_F_GUEST_ECN
    | 1 << spec::VIRTIO_NET_F_HOST_TSO4
    | 1 << spec::VIRTIO_NET_F_HOST_ECN
    | 1 << spec::VIRTIO_NET_F_MRG_RXBUF;
/// `duplex` of a full-duplex link.
const FULL_DUPLEX: u8 = 1;
/// The largest number of buffers for a packet: drivers with buffers below 256 bytes are not supported.
const MOST_BUFFERS: usize = 256;
/// Packets that wait for the driver's buffers; the next one is dropped, as a
/// network card's own ring would.
const BACKLOG: usize = 256;

/// Frames counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetCounters {
    /// Frames that the guest sent.
    pub sent: u64,
    /// Frames delivered to the guest.
    pub received: u64,
    /// Frames for the guest that were dropped, for lack of a buffer, of room in it, or of a driver.
    pub dropped: u64,
    /// Chains of the guest that do not hold a frame of a legal length.
    pub malformed: u64,
}

/// The link of a network card, as it appears to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetLink {
    /// Bytes that a frame carries after the Ethernet header.
    pub mtu: u16,
    /// Speed in Mb/s.
    pub speed: u32,
    /// The card's TCP offloads; `None` without.
    pub offloads: Option<Offloads>,
}

/// Offloads of a network card: checksums both ways, segmentation of sent packets, aggregation of received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloads {
    /// Cycles for which the card waits for the next frame of a packet; with 0 it joins no frames.
    pub hold: Cycles,
}

/// A network card.
#[derive(Debug)]
pub struct Net {
    mac: [u8; 6],
    link: NetLink,
    /// Feature bits that the driver accepted.
    accepted: u64,
    aggregation: Aggregation,
    backlog: VecDeque<Packet>,
    outgoing: Vec<(Cycles, Vec<u8>)>,
    counters: NetCounters,
}

/// The saved state of a network card: all but its address.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NetState {
    link: NetLink,
    open: Vec<OpenState>,
    backlog: Vec<Packet>,
    outgoing: Vec<(Cycles, Vec<u8>)>,
    counters: NetCounters,
}

impl Net {
    /// A card with address `mac` on a link.
    pub fn new(mac: [u8; 6], link: NetLink) -> Self {
        Self {
            mac,
            link,
            accepted: 0,
            aggregation: Aggregation::default(),
            backlog: VecDeque::new(),
            outgoing: Vec::new(),
            counters: NetCounters::default(),
        }
    }

    /// The time of the first sent frame that [`take_frames`](Self::take_frames) has not taken yet.
    pub fn first_frame(&self) -> Option<Cycles> {
        self.outgoing.first().map(|(at, _)| *at)
    }

    /// Takes the frames sent since the last call, each with the cycle of the
    /// notification that sent it.
    pub fn take_frames(&mut self) -> Vec<(Cycles, Vec<u8>)> {
        std::mem::take(&mut self.outgoing)
    }

    /// The card's counters.
    pub fn counters(&self) -> NetCounters {
        self.counters
    }

    /// Counts a frame that was dropped for lack of a driver.
    pub fn refuse(&mut self) {
        self.counters.dropped += 1;
    }

    /// Handles a frame that arrives from the wire at `now`.
    ///
    /// # Errors
    /// If the driver broke its queue.
    pub fn receive(
        &mut self,
        frame: Vec<u8>,
        now: Cycles,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
    ) -> Result<(), DeviceError> {
        if self.backlog.len() >= BACKLOG || frame.len() as u64 > self.longest_frame() {
            self.counters.dropped += 1;
            return Ok(());
        }
        let mut ready = Vec::new();
        match self.hold() {
            Some(hold) => self.aggregation.take(frame, now, hold, &mut ready),
            None => ready.push(Packet::single(frame)),
        }
        self.backlog.extend(ready);
        self.hand_over(queues, ram)
    }

    fn longest_frame(&self) -> u64 {
        u64::from(self.link.mtu) + ETHERNET_HEADER as u64 + VLAN_TAG
    }

    /// True if the driver accepted the feature.
    fn has(&self, feature: u32) -> bool {
        self.accepted >> feature & 1 == 1
    }

    /// Cycles for which the card waits for the next frame of a packet; `None` for a card that joins no frames.
    fn hold(&self) -> Option<Cycles> {
        let hold = self.link.offloads?.hold;
        let joins = [spec::VIRTIO_NET_F_GUEST_TSO4, spec::VIRTIO_NET_F_MRG_RXBUF];
        (hold > 0 && joins.into_iter().all(|feature| self.has(feature))).then_some(hold)
    }

    fn hand_over(&mut self, queues: &mut [Virtqueue], ram: &GuestRam) -> Result<(), DeviceError> {
        let Some(queue) = queues.get_mut(RECEIVE) else {
            return Ok(());
        };
        let merges = self.has(spec::VIRTIO_NET_F_MRG_RXBUF);
        while let Some(packet) = self.backlog.front() {
            let len = HEADER + packet.bytes.len() as u64;
            let Some(chains) = room(queue, ram, len, merges)? else {
                return Ok(());
            };
            if chains.is_empty() {
                self.counters.dropped += packet.frames;
            } else {
                fill(queue, ram, &chains, packet)?;
                self.counters.received += packet.frames;
            }
            self.backlog.pop_front();
        }
        Ok(())
    }

    fn transmit(
        &mut self,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
        now: Cycles,
    ) -> Result<(), DeviceError> {
        let Some(queue) = queues.get_mut(TRANSMIT) else {
            return Ok(());
        };
        while let Some(chain) = queue.pop(ram)? {
            match self.packet_of(&chain, ram) {
                Some(frames) => {
                    self.counters.sent += frames.len() as u64;
                    self.outgoing
                        .extend(frames.into_iter().map(|frame| (now, frame)));
                }
                None => self.counters.malformed += 1,
            }
            queue.finish(ram, &chain, 0)?;
        }
        Ok(())
    }

    /// The frames of a chain that the guest sends; `None` if the chain has no frame of a legal length.
    fn packet_of(&self, chain: &Chain, ram: &GuestRam) -> Option<Vec<Vec<u8>>> {
        let offloads = self.has(spec::VIRTIO_NET_F_CSUM);
        let longest = match self.has(spec::VIRTIO_NET_F_HOST_TSO4) {
            true => LONGEST_PACKET,
            false => self.longest_frame(),
        };
        let len = chain.readable_len();
        if !(HEADER + ETHERNET_HEADER as u64..=HEADER + longest).contains(&len) {
            return None;
        }
        let packet = chain.read(ram, HEADER..len)?;
        if !offloads {
            return Some(vec![packet]);
        }
        let header = chain.read(ram, 0..HEADER)?.try_into().ok()?;
        let header = PacketHeader::from_bytes(&header);
        segmentation::frames(header, packet, self.longest_frame() as usize)
    }
}

/// Buffers of the driver for `len` bytes: one, or several if the driver `merges` them. `None` if there are not enough; an empty list if a
/// single buffer is too small, which is returned to the driver.
fn room(
    queue: &mut Virtqueue,
    ram: &GuestRam,
    len: u64,
    merges: bool,
) -> Result<Option<Vec<Chain>>, DeviceError> {
    let mut chains: Vec<Chain> = Vec::new();
    let mut found = 0;
    while found < len {
        let Some(chain) = queue.pop(ram)? else {
            chains.iter().for_each(|_| queue.undo_pop());
            return Ok(None);
        };
        found += chain.writable_len();
        // The header lies in the first buffer (virtio 1.2, 5.1.6.4).
        let fits = found >= if merges { HEADER } else { len };
        chains.push(chain);
        if !fits || chains.len() > MOST_BUFFERS {
            chains.iter().for_each(|_| queue.undo_pop());
            return Ok(Some(Vec::new()));
        }
    }
    Ok(Some(chains))
}

/// Writes a packet and its header into buffers with room for both.
fn fill(
    queue: &mut Virtqueue,
    ram: &GuestRam,
    chains: &[Chain],
    packet: &Packet,
) -> Result<(), DeviceError> {
    let header = packet.header().to_bytes(chains.len() as u16);
    let whole = [&header[..], &packet.bytes].concat();
    let mut rest = &whole[..];
    for chain in chains {
        let len = rest.len().min(chain.writable_len() as usize);
        let (piece, after) = rest.split_at(len);
        // The room was checked when the chain was taken.
        let _ = chain.write(ram, 0, piece);
        queue.finish(ram, chain, len as u32)?;
        rest = after;
    }
    Ok(())
}

impl Device for Net {
    const KIND: u32 = 1;
    const QUEUES: &'static [u16] = &[256, 256];

    type State = NetState;

    fn save(&self) -> NetState {
        NetState {
            link: self.link,
            open: self.aggregation.save(),
            backlog: self.backlog.clone().into(),
            outgoing: self.outgoing.clone(),
            counters: self.counters,
        }
    }

    fn load(&mut self, saved: NetState, live: bool, _ram: &GuestRam) -> Option<()> {
        if live && saved.link != self.link {
            return None;
        }
        self.aggregation = Aggregation::load(&saved.open)?;
        self.backlog = saved.backlog.into();
        self.outgoing = saved.outgoing;
        self.counters = saved.counters;
        Some(())
    }

    fn features(&self) -> u64 {
        let plain = 1 << spec::VIRTIO_NET_F_MAC
            | 1 << spec::VIRTIO_NET_F_STATUS
            | 1 << spec::VIRTIO_NET_F_MTU
            | 1 << spec::VIRTIO_NET_F_SPEED_DUPLEX;
        plain | self.link.offloads.map_or(0, |_| OFFLOADS)
    }

    fn accept(&mut self, features: u64) {
        self.accepted = features;
    }

    /// `struct virtio_net_config`.
    fn config(&self) -> Vec<u8> {
        let mut config = self.mac.to_vec();
        config.extend_from_slice(&(spec::VIRTIO_NET_S_LINK_UP as u16).to_le_bytes());
        // One pair of queues.
        config.extend_from_slice(&1u16.to_le_bytes());
        config.extend_from_slice(&self.link.mtu.to_le_bytes());
        config.extend_from_slice(&self.link.speed.to_le_bytes());
        config.push(FULL_DUPLEX);
        config
    }

    fn notify(
        &mut self,
        queue: usize,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
        now: Cycles,
    ) -> Result<(), DeviceError> {
        match queue {
            RECEIVE => self.hand_over(queues, ram),
            _ => self.transmit(queues, ram, now),
        }
    }

    fn deadline(&self) -> Option<Cycles> {
        self.aggregation.deadline()
    }

    fn advance(
        &mut self,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
        now: Cycles,
    ) -> Result<(), DeviceError> {
        let mut ready = Vec::new();
        self.aggregation.expire(now, &mut ready);
        self.backlog.extend(ready);
        self.hand_over(queues, ram)
    }

    fn reset(&mut self) {
        let waiting: u64 = self.backlog.drain(..).map(|packet| packet.frames).sum();
        self.counters.dropped += waiting + self.aggregation.clear();
        self.accepted = 0;
    }
}

#[cfg(test)]
pub(super) mod tests;
