//! Parsing and building TCP over IPv4 in an Ethernet frame.
//!
//! `segmentation` cuts large packets of the guest into frames, `aggregation` joins frames for the guest; both use these
//! functions. Frames are untrusted input from guests.

use etherparse::{IpNumber, Ipv4Header, TcpHeader};

/// Destination, source and type of a frame.
pub(super) const ETHERNET_HEADER: usize = 14;
/// The type of IPv4.
const IPV4: [u8; 2] = [0x08, 0x00];

/// The headers of a frame that holds a whole TCP segment over IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) ethernet: [u8; ETHERNET_HEADER],
    pub(super) ip: Ipv4Header,
    pub(super) tcp: TcpHeader,
}

impl Headers {
    /// Headers and data of `frame`; `None` if it is not TCP over IPv4, is a fragment, or is shorter than its length
    /// fields.
    pub(super) fn split(frame: &[u8]) -> Option<(Self, &[u8])> {
        let (ethernet, rest) = frame.split_first_chunk::<ETHERNET_HEADER>()?;
        if ethernet[12..] != IPV4 {
            return None;
        }
        let (ip, _) = Ipv4Header::from_slice(rest).ok()?;
        if ip.protocol != IpNumber::TCP || ip.is_fragmenting_payload() {
            return None;
        }
        // Short frames are padded after the packet.
        let packet = rest.get(ip.header_len()..usize::from(ip.total_len))?;
        let (tcp, data) = TcpHeader::from_slice(packet).ok()?;
        let ethernet = *ethernet;
        Some((Self { ethernet, ip, tcp }, data))
    }

    /// Bytes of the headers.
    pub(super) fn len(&self) -> usize {
        self.tcp_at() + self.tcp.header_len()
    }

    /// Offset of the TCP header in the frame.
    pub(super) fn tcp_at(&self) -> usize {
        ETHERNET_HEADER + self.ip.header_len()
    }

    /// True if both checksums match the headers and `data`.
    pub(super) fn are_sound(&self, data: &[u8]) -> bool {
        self.ip.header_checksum == self.ip.calc_header_checksum()
            && Some(self.tcp.checksum) == self.tcp.calc_checksum_ipv4(&self.ip, data).ok()
    }

    /// Sets the lengths and checksums for `data`; `None` if the packet would be too long for IPv4.
    pub(super) fn seal(&mut self, data: &[u8]) -> Option<()> {
        self.measure(data.len())?;
        self.tcp.checksum = self.tcp.calc_checksum_ipv4(&self.ip, data).ok()?;
        Some(())
    }

    /// Sets the lengths and the checksum of the IPv4 header for `len` bytes of data; `None` if that is too long.
    pub(super) fn measure(&mut self, len: usize) -> Option<()> {
        let len = self.tcp.header_len().checked_add(len)?;
        self.ip.set_payload_len(len).ok()?;
        self.ip.header_checksum = self.ip.calc_header_checksum();
        Some(())
    }

    /// Sum over TCP's pseudo header (RFC 9293, 3.1) that checksum offload starts from.
    pub(super) fn pseudo_sum(&self) -> u16 {
        let words = self
            .ip
            .source
            .chunks(2)
            .chain(self.ip.destination.chunks(2));
        let addresses: u32 = words.map(word).sum();
        let len = u32::from(self.ip.total_len) - self.ip.header_len() as u32;
        fold(addresses + u32::from(IpNumber::TCP.0) + len)
    }

    /// The frame of these headers and `data`.
    pub(super) fn join(&self, data: &[u8]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(self.len() + data.len());
        frame.extend_from_slice(&self.ethernet);
        frame.extend_from_slice(&self.ip.to_bytes());
        frame.extend_from_slice(&self.tcp.to_bytes());
        frame.extend_from_slice(data);
        frame
    }
}

/// Completes a checksum that the guest offloads to the card: the field at `start + offset` holds the sum over the pseudo
/// header, to which the bytes from `start` to the end are added (virtio 1.2, 5.1.6.2). `None` if the field is not in the
/// frame.
pub(super) fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let summed = frame.get(start..)?;
    summed.get(offset..offset.checked_add(2)?)?;
    let sum: u32 = summed.chunks(2).map(word).sum();
    // UDP sends ones for zero, which are equal in one's complement arithmetic (RFC 768).
    let value = match !fold(sum) {
        0 => u16::MAX,
        value => value,
    };
    let at = start + offset;
    frame
        .get_mut(at..at + 2)?
        .copy_from_slice(&value.to_be_bytes());
    Some(())
}

/// Big-endian word of one or two bytes.
fn word(bytes: &[u8]) -> u32 {
    let high = bytes.first().copied().unwrap_or(0);
    let low = bytes.get(1).copied().unwrap_or(0);
    u32::from(u16::from_be_bytes([high, low]))
}

/// One's complement sum of the halves of `sum` (RFC 1071).
fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}
