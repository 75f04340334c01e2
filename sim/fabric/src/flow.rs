//! Flow keys for ECMP.
//!
//! Frames of one flow have equal keys, so ECMP sends them over one path and in order. All inputs have
//! a key, even short or malformed ones. Called by ECMP routing at each switch on a frame's path.

/// EtherTypes.
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Protocols whose first four bytes are two ports.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

const ETHERNET_HEADER: usize = 14;
const IPV6_HEADER: usize = 40;

/// The bytes that all frames of a flow share, in this order: destination and source MAC address (12
/// bytes); for IPv4 and IPv6, source and destination address (8 or 32 bytes) and the protocol (1
/// byte); for unfragmented TCP, UDP and SCTP, the ports (4 bytes). Data after IPv6 extension headers
/// are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKey {
    bytes: [u8; Self::LONGEST],
    length: usize,
}

impl FlowKey {
    const LONGEST: usize = 12 + 32 + 1 + 4;

    /// The key of a frame, which may be short or malformed.
    pub fn of(frame: &[u8]) -> Self {
        let mut key = Self {
            bytes: [0; Self::LONGEST],
            length: 0,
        };
        key.push(&frame[..frame.len().min(12)]);
        let packet = frame.get(ETHERNET_HEADER..).unwrap_or_default();
        match frame.get(12..ETHERNET_HEADER) {
            Some(kind) if kind == IPV4 => key.push_ipv4(packet),
            Some(kind) if kind == IPV6 => key.push_ipv6(packet),
            _ => {}
        }
        key
    }

    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn push_ipv4(&mut self, packet: &[u8]) {
        let Some(addresses) = packet.get(12..20) else {
            return;
        };
        let protocol = packet[9];
        self.push(addresses);
        self.push(&[protocol]);
        // More fragments, or not the first one: RFC 791, 3.1.
        let fragment = packet[6] & 0x3f != 0 || packet[7] != 0;
        let header = usize::from(packet[0] & 0xf) * 4;
        if !fragment {
            self.push_ports(protocol, packet.get(header..));
        }
    }

    fn push_ipv6(&mut self, packet: &[u8]) {
        let Some(addresses) = packet.get(8..IPV6_HEADER) else {
            return;
        };
        let protocol = packet[6];
        self.push(addresses);
        self.push(&[protocol]);
        self.push_ports(protocol, packet.get(IPV6_HEADER..));
    }

    fn push_ports(&mut self, protocol: u8, segment: Option<&[u8]>) {
        if WITH_PORTS.contains(&protocol)
            && let Some(ports) = segment.and_then(|segment| segment.get(..4))
        {
            self.push(ports);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, fragment: u16, ports: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![1; 12];
        frame.extend(IPV4);
        frame.extend([0x45, 0, 0, 40, 9, 9]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 7, 7]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(ports);
        frame.extend([5; 16]);
        frame
    }

    #[test]
    fn ports_of_tcp_tell_flows_apart_and_fragments_have_none() {
        let key = |frame: &[u8]| FlowKey::of(frame).as_bytes().to_vec();
        let tcp = key(&ipv4(6, 0x4000, [0, 80, 1, 1]));
        assert_eq!(tcp.len(), 12 + 8 + 1 + 4);
        assert_eq!(tcp[12..], [10, 0, 0, 1, 10, 0, 0, 2, 6, 0, 80, 1, 1]);
        assert_ne!(tcp, key(&ipv4(6, 0x4000, [0, 81, 1, 1])));
        let first = key(&ipv4(17, 0x2000, [0, 80, 1, 1]));
        assert_eq!(first, key(&ipv4(17, 0x0010, [9, 9, 9, 9])));
        assert_eq!(first.len(), 12 + 8 + 1);
        let echo = key(&ipv4(1, 0, [8, 0, 1, 1]));
        assert_eq!(echo, key(&ipv4(1, 0, [0, 0, 2, 2])));
    }

    #[test]
    fn any_bytes_have_a_key() {
        for length in 0..80 {
            for kind in [IPV4, IPV6] {
                let mut frame = vec![0x4f; length];
                if length >= 14 {
                    frame[12..14].copy_from_slice(&kind);
                    if let Some(next) = frame.get_mut(20) {
                        *next = 6;
                    }
                }
                assert!(FlowKey::of(&frame).as_bytes().len() <= FlowKey::LONGEST);
            }
        }
    }
}
