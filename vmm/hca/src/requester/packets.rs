//! Parts of requests as packets.
//!
//! A packet is made when it is sent, also when it is sent again: its data are read from memory then, under the key's rights at that time.
//! Requester and responder make the packets of connections here.

use super::*;

use crate::fields::{u8_at, u32_at};
use crate::management::PARTITION;
use crate::pair::at;

impl Step<'_> {
    /// A packet from a pair of a connection to its peer, without operation and data.
    pub(crate) fn packet_to_peer(&self, pair: &QueuePair, psn: Psn) -> Packet {
        let service = match pair.service() {
            PairService::Unreliable => Service::Unreliable,
            _ => Service::Reliable,
        };
        let global = pair.has_global_route().then(|| {
            let mut destination = [0; 16];
            destination.copy_from_slice(&pair.context[at::PEER_GID..at::PEER_GID + 16]);
            let class = u32_at(&pair.context, at::CLASS);
            self.global_route(destination, class, u8_at(&pair.context, at::HOPS))
        });
        Packet {
            level: pair.level(),
            to: pair.peer_lid(),
            from: self.config.identity.lid,
            global,
            opcode: Opcode {
                service,
                operation: Operation::Acknowledge,
            },
            partition: PARTITION,
            queue_pair: pair.peer(),
            psn,
            ..Packet::default()
        }
    }

    /// The next packet of begun work; `None` if a key does not permit to read its data.
    pub(super) fn packet_of(&self, pair: &QueuePair, begun: &Begun) -> Option<Packet> {
        let psn = Psn::new(begun.first).after(begun.sent);
        let mut packet = self.packet_to_peer(pair, psn);
        let work = &begun.work;
        if begun.expects_answer() {
            packet.opcode.operation = match work.opcode {
                op::COMPARE_SWAP => Operation::CompareSwap,
                op::FETCH_ADD => Operation::FetchAdd,
                _ => Operation::ReadRequest,
            };
            packet.psn = Psn::new(begun.first);
            packet.extensions = Extensions {
                address: work.remote.0,
                key: work.remote.1,
                length: work.bytes() as u32,
                value: work.operands.0,
                compare: work.operands.1,
                ..Extensions::default()
            };
            return Some(packet);
        }
        let (offset, length) = part(work.bytes(), begun.sent, pair.mtu());
        packet.payload = self.gather(pair.domain(), &work.data, offset, length)?;
        let (first, last) = (begun.sent == 0, begun.sent + 1 == begun.packets);
        self.describe(&mut packet, work, first, last);
        let is_due = (begun.sent + 1).is_multiple_of(ACK_EVERY);
        packet.wants_ack = last || is_due;
        Some(packet)
    }

    /// Sets operation and headers of a part of a sent or written message.
    fn describe(&self, packet: &mut Packet, work: &Work, first: bool, last: bool) {
        packet.opcode.operation = match work.opcode {
            op::WRITE | op::WRITE_IMMEDIATE => Operation::Write {
                first,
                last,
                immediate: work.opcode == op::WRITE_IMMEDIATE,
            },
            opcode => Operation::Send {
                first,
                last,
                with: match opcode {
                    op::SEND_IMMEDIATE => With::Immediate,
                    op::SEND_INVALIDATE => With::Invalidate,
                    _ => With::Nothing,
                },
            },
        };
        packet.is_solicited = last && work.is_solicited;
        packet.extensions = Extensions {
            address: work.remote.0,
            key: work.remote.1,
            length: work.bytes() as u32,
            immediate: work.immediate,
            ..Extensions::default()
        };
    }

    /// Sends all of a message of an unreliable connection.
    pub(super) fn send_unreliably(&mut self, pair: &mut QueuePair, work: Work, at: Time) {
        let mtu = pair.mtu();
        let packets = work.bytes().div_ceil(mtu as u64).max(1) as u32;
        for sent in 0..packets {
            let (offset, length) = part(work.bytes(), sent, mtu);
            let Some(payload) = self.gather(pair.domain(), &work.data, offset, length) else {
                return self.fail(pair, &work, Failure::LocalProtection);
            };
            let mut packet = self.packet_to_peer(pair, pair.requester.next());
            packet.payload = payload;
            self.describe(&mut packet, &work, sent == 0, sent + 1 == packets);
            pair.requester.next = pair.requester.next().after(1).number();
            let at = self.fetched(&work.data, packet.payload.len(), at);
            self.emit(pair, packet, at);
        }
        pair.requester.oldest = pair.requester.next;
        self.complete_when_sent(pair, &work, at);
    }
}

/// Offset and length of part `number` of a message.
fn part(bytes: u64, number: u32, mtu: usize) -> (u64, usize) {
    let offset = u64::from(number) * mtu as u64;
    (
        offset,
        bytes.saturating_sub(offset).min(mtu as u64) as usize,
    )
}
