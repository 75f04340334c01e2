//! Traffic between pairs of hosts.
//!
//! Counts frames that hosts' NICs send, by the hosts' numbers: frames, their bytes, and the payload of TCP and UDP.
//! Frames to groups, including broadcast, are counted once; frames to unassigned addresses are not counted. Frames may be
//! short or malformed. Called by the network for each frame that a host sends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::frame::Mac;

const ETHERNET_HEADER: usize = 14;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Source and destination host; `None` for groups of hosts.
pub type WirePair = (u32, Option<u32>);

/// Traffic from one host to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCount {
    /// Frames.
    pub frames: u64,
    /// Their bytes, from destination address to payload, without preamble, checksum and gap.
    pub bytes: u64,
    /// Bytes of data in TCP segments and UDP datagrams, including retransmissions.
    pub payload: u64,
}

/// Counts of all pairs of hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    pairs: BTreeMap<WirePair, WireCount>,
}

/// The same as plain values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireState {
    pairs: Vec<(WirePair, WireCount)>,
}

impl Wire {
    /// Counts a frame of a host; `hosts` is the number of hosts.
    pub(crate) fn note(&mut self, from: u32, hosts: u32, frame: &[u8]) {
        let Some(destination) = Mac::destination(frame) else {
            return;
        };
        let host = destination.host_index().filter(|host| *host < hosts);
        if host.is_none() && !destination.is_group() {
            return;
        }
        let count = self.pairs.entry((from, host)).or_default();
        count.frames += 1;
        count.bytes = count.bytes.saturating_add(frame.len() as u64);
        count.payload = count.payload.saturating_add(payload(frame));
    }

    /// Frames from a host to another one so far.
    pub(crate) fn frames(&self, from: u32, to: u32) -> u64 {
        let count = self.pairs.get(&(from, Some(to)));
        count.map_or(0, |count| count.frames)
    }

    /// All pairs, in order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (WirePair, WireCount)> {
        self.pairs.iter().map(|(pair, count)| (*pair, *count))
    }

    pub(crate) fn save(&self) -> WireState {
        WireState {
            pairs: self.pairs().collect(),
        }
    }

    /// Restores the counts of `hosts` hosts; `None` if they are not valid.
    pub(crate) fn restored(state: WireState, hosts: u32) -> Option<Self> {
        let count = state.pairs.len();
        let known = |(from, to): WirePair| from < hosts && to.is_none_or(|to| to < hosts);
        let pairs: BTreeMap<_, _> = state.pairs.into_iter().collect();
        let sound = pairs.len() == count && pairs.keys().all(|pair| known(*pair));
        sound.then_some(Self { pairs })
    }
}

/// Bytes of data in a frame's TCP segment or UDP datagram; 0 for other frames.
fn payload(frame: &[u8]) -> u64 {
    let packet = frame.get(ETHERNET_HEADER..).unwrap_or_default();
    let segment = match frame.get(12..ETHERNET_HEADER) {
        Some([0x08, 0x00]) => ipv4(packet),
        Some([0x86, 0xdd]) => ipv6(packet),
        _ => None,
    };
    let data = segment.and_then(|(protocol, segment)| match protocol {
        TCP => {
            let header = usize::from(segment.get(12)? >> 4) * 4;
            segment.len().checked_sub(header)
        }
        UDP => segment.len().checked_sub(UDP_HEADER),
        _ => None,
    });
    data.unwrap_or(0) as u64
}

/// The protocol and the payload of a packet, without the frame's padding. Fragments are ignored, although the first has a
/// TCP or UDP header.
fn ipv4(packet: &[u8]) -> Option<(u8, &[u8])> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let length = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    let fragment = packet.get(6)? & 0x3f != 0 || *packet.get(7)? != 0;
    let segment = packet.get(header..length.min(packet.len()))?;
    (!fragment).then_some((*packet.get(9)?, segment))
}

/// The same for IPv6; data after extension headers are ignored.
fn ipv6(packet: &[u8]) -> Option<(u8, &[u8])> {
    let length = usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
    let end = (IPV6_HEADER + length).min(packet.len());
    Some((*packet.get(6)?, packet.get(IPV6_HEADER..end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: Mac, kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
        [&to.0[..], &Mac::of_host(0).0, &kind, packet].concat()
    }

    /// A TCP segment over IPv4 with `data` bytes of data, and `padding` bytes after the packet.
    fn tcp(to: Mac, data: usize, padding: usize) -> Vec<u8> {
        let mut packet = vec![0; 20 + 32 + data + padding];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&((20 + 32 + data) as u16).to_be_bytes());
        packet[9] = TCP;
        packet[20 + 12] = 8 << 4;
        frame(to, [0x08, 0x00], &packet)
    }

    #[test]
    fn data_is_told_from_headers_and_padding() {
        let to = Mac::of_host(1);
        assert_eq!(payload(&tcp(to, 1000, 0)), 1000);
        assert_eq!(payload(&tcp(to, 0, 6)), 0);
        let mut packet = vec![0; 40 + 8 + 5];
        packet[4..6].copy_from_slice(&13u16.to_be_bytes());
        packet[6] = UDP;
        assert_eq!(payload(&frame(to, [0x86, 0xdd], &packet)), 5);
        let whole = tcp(to, 10, 0);
        for length in 0..whole.len() {
            assert!(payload(&whole[..length]) <= 10);
        }
    }

    #[test]
    fn pairs_are_counted_and_kept() {
        let mut wire = Wire::default();
        let other = Mac::of_host(1);
        wire.note(0, 3, &tcp(other, 100, 0));
        wire.note(0, 3, &tcp(other, 50, 0));
        wire.note(2, 3, &tcp(Mac([0xff; 6]), 0, 0));
        wire.note(2, 3, &tcp(Mac::of_host(9), 5, 0));
        wire.note(2, 3, &[1, 2]);
        let pairs: Vec<_> = wire.pairs().collect();
        let both = WireCount {
            frames: 2,
            bytes: 2 * 66 + 150,
            payload: 150,
        };
        assert_eq!(pairs[0], ((0, Some(1)), both));
        assert_eq!(pairs[1].0, (2, None));
        assert_eq!(pairs.len(), 2);
        let again = Wire::restored(wire.save(), 3).unwrap();
        assert_eq!(again.save(), wire.save());
        assert!(Wire::restored(wire.save(), 2).is_none());
        let twice = WireState {
            pairs: [pairs[0], pairs[0]].to_vec(),
        };
        assert!(Wire::restored(twice, 3).is_none());
    }
}
