//! Datagrams, and packets that arrive.
//!
//! A datagram without a receive, with another queue key or to an unknown pair is dropped, as the service permits, and counted. Packets of
//! connections go to requester or responder.

use belljar_sim::{Span, Time};
use belljar_verbs::{
    Extensions, FIRST_MULTICAST, GlobalRoute, Opcode, Operation, Packet, Service, With, wire_bytes,
};

use crate::Step;
use crate::completions::{Completion, Failure, received};
use crate::due::Due;
use crate::management::PARTITION;
use crate::pair::{PairService, PairState, QueuePair};
use crate::shared::Receive;
use crate::work::{Work, op};

/// Bytes before a datagram's data in a receive: room for a global route header.
const ROUTE_AREA: u64 = 40;
/// A queue key whose highest bit is set stands for the pair's own.
const OWN_QUEUE_KEY: u32 = 1 << 31;
/// The number of a multicast group's pairs.
const GROUP: u32 = 0xff_ffff;

impl Step<'_> {
    /// Sends a datagram.
    pub(crate) fn send_datagram(&mut self, pair: &mut QueuePair, work: Work, at: Time) {
        let bytes = work.bytes();
        if bytes > pair.mtu() as u64 {
            return self.fail(pair, &work, Failure::LocalLength);
        }
        let Some(payload) = self.gather(pair.domain(), &work.data, 0, bytes as usize) else {
            return self.fail(pair, &work, Failure::LocalProtection);
        };
        let to = &work.destination;
        let global = to
            .global
            .map(|(destination, class, hops)| self.global_route(destination, class, hops));
        let own_key = to.queue_key & OWN_QUEUE_KEY != 0;
        let with = match work.opcode {
            op::SEND_IMMEDIATE => With::Immediate,
            _ => With::Nothing,
        };
        let packet = Packet {
            level: to.level,
            to: to.lid,
            from: self.config.identity.lid,
            global,
            opcode: datagram(with),
            is_solicited: work.is_solicited,
            partition: PARTITION,
            queue_pair: to.queue_pair,
            psn: belljar_verbs::Psn::new(pair.requester.next),
            extensions: Extensions {
                queue_key: if own_key {
                    pair.queue_key()
                } else {
                    to.queue_key
                },
                source: pair.number,
                immediate: work.immediate,
                ..Extensions::default()
            },
            payload,
            ..Packet::default()
        };
        pair.requester.next = packet.psn.after(1).number();
        pair.requester.oldest = pair.requester.next;
        let at = self.fetched(&work.data, packet.payload.len(), at);
        self.emit(pair, packet, at);
        self.complete_when_sent(pair, &work, at);
    }

    /// The route to a global identifier, with a traffic class above the 20 bits of a flow label.
    pub(crate) fn global_route(&self, destination: [u8; 16], class: u32, hops: u8) -> GlobalRoute {
        GlobalRoute {
            class: (class >> 20) as u8,
            flow: class & 0xf_ffff,
            hops,
            source: self.config.identity.gid(),
            destination,
        }
    }

    /// A packet arrives from the link.
    pub(crate) fn arrive(&mut self, packet: &Packet) {
        self.core.counters.received += 1;
        if packet.queue_pair == GROUP {
            return self.arrive_at_group(packet);
        }
        let number = self.number_of(packet.queue_pair);
        if packet.is_management && packet.queue_pair == 0 {
            return self.manage(packet);
        }
        if self.administers(packet) {
            return self.administer(packet);
        }
        let known = self.with_pair(number, |step, pair| step.take(pair, packet));
        if known.is_none() {
            self.core.counters.dropped += 1;
        }
    }

    /// Pairs 0 and 1 of the port have other numbers in the card.
    fn number_of(&self, number: u32) -> u32 {
        match number {
            0 => self.core.special,
            1 => self.core.special + 2,
            other => other,
        }
    }

    fn take(&mut self, pair: &mut QueuePair, packet: &Packet) {
        let is_answer = matches!(
            packet.opcode.operation,
            Operation::Acknowledge | Operation::AtomicAcknowledge | Operation::ReadResponse { .. }
        );
        let is_connected = packet.from == pair.peer_lid();
        self.note_congestion(pair, packet);
        if packet.opcode.operation == Operation::Notify {
            return;
        }
        match (pair.service(), packet.opcode.service) {
            (PairService::Reliable, Service::Reliable) if is_connected && is_answer => {
                self.take_answer(pair, packet);
            }
            (PairService::Reliable, Service::Reliable)
            | (PairService::Unreliable, Service::Unreliable)
                if is_connected && !is_answer =>
            {
                self.take_request(pair, packet);
            }
            (PairService::Datagram | PairService::Management, Service::Datagram) => {
                self.take_datagram(pair, packet);
            }
            _ => self.core.counters.dropped += 1,
        }
    }

    fn take_datagram(&mut self, pair: &mut QueuePair, packet: &Packet) {
        let is_for_it = pair.queue_key() == packet.extensions.queue_key
            || pair.service() == PairService::Management;
        if !pair.receives() || !is_for_it {
            self.core.counters.dropped += 1;
            return;
        }
        let Some(receive) = self.take_receive(pair) else {
            self.core.counters.dropped += 1;
            return;
        };
        let bytes = ROUTE_AREA + packet.payload.len() as u64;
        let route = packet.global.map(|route| route_area(&route, packet));
        let (domain, segments) = (pair.domain(), &receive.segments);
        let fits = bytes <= receive.room();
        let written = (|| {
            if let Some(route) = route {
                self.scatter(domain, segments, 0, &route)?;
            }
            self.scatter(domain, segments, ROUTE_AREA, &packet.payload)
        })();
        let failure = Failure::of_receive(fits, written);
        self.complete_datagram(pair, packet, &receive, bytes as u32, failure);
    }

    fn complete_datagram(
        &mut self,
        pair: &mut QueuePair,
        packet: &Packet,
        receive: &Receive,
        bytes: u32,
        failure: Option<Failure>,
    ) {
        let opcode = match packet.opcode.operation {
            Operation::Send {
                with: With::Immediate,
                ..
            } => received::SENT_IMMEDIATE,
            _ => received::SENT,
        };
        let has_route = u32::from(packet.global.is_some()) << 31;
        let completion = Completion {
            failure,
            source: packet.extensions.source | has_route,
            ..Completion::of_receive(pair, receive, packet, opcode, bytes)
        };
        self.complete(pair.receive_completions(), completion);
        if failure.is_some() {
            self.enter_error(pair);
        }
    }

    /// Puts a packet on the port's link at `at`. One for this card itself does not leave it.
    pub(crate) fn put_on_link(&mut self, packet: Packet, at: Time) {
        let to = packet.to;
        let bytes = packet.to_bytes();
        if to == self.config.identity.lid {
            let arrives = at + self.delay_of_own(bytes.len());
            return self.core.due.push(arrives, Due::Arrive(bytes));
        }
        self.core.counters.sent += 1;
        self.core.counters.sent_bytes += bytes.len() as u64;
        if to >= FIRST_MULTICAST {
            // The sender's own pairs of the group get it, too.
            let arrives = at + self.delay_of_own(bytes.len());
            self.core.due.push(arrives, Due::Arrive(bytes.clone()));
        }
        let busy = Span::of_transfer(wire_bytes(bytes.len()), self.config.identity.rate);
        self.core.left = self.core.left.max(at) + busy;
        self.core.outgoing.push((at, bytes));
    }

    /// From the link to the effect of a packet of this card itself.
    fn delay_of_own(&self, bytes: usize) -> Span {
        let delays = &self.config.delays;
        delays.receive + Span::of_transfer(bytes as u64, delays.bus)
    }

    /// Works on a pair outside of the table, so that the rest of the card can be used meanwhile. `None` if there is none.
    pub(crate) fn with_pair<T>(
        &mut self,
        number: u32,
        work: impl FnOnce(&mut Self, &mut QueuePair) -> T,
    ) -> Option<T> {
        let mut pair = self.core.pairs.remove(&number)?;
        let done = work(self, &mut pair);
        if pair.state != PairState::Reset {
            self.core.pairs.insert(number, pair);
        }
        Some(done)
    }
}

/// The opcode of a datagram.
pub(crate) fn datagram(with: With) -> Opcode {
    Opcode {
        service: Service::Datagram,
        operation: Operation::Send {
            first: true,
            last: true,
            with,
        },
    }
}

/// The global route header as a receive gets it.
fn route_area(route: &GlobalRoute, packet: &Packet) -> Vec<u8> {
    let first = 6 << 28 | u32::from(route.class) << 20 | route.flow;
    let length = (packet.to_bytes().len() - 48) as u16;
    let mut bytes = first.to_be_bytes().to_vec();
    bytes.extend(length.to_be_bytes());
    bytes.extend([0x1b, route.hops]);
    bytes.extend(route.source);
    bytes.extend(route.destination);
    bytes
}
