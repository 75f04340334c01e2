//! The receiving side of queue pairs of connections.
//!
//! Of a reliable connection, requests are carried out in order and answered: an early one is refused once, a late one is answered as before. No
//! request touches memory before its key, rights and bounds are checked. InfiniBand Architecture Specification volume 1, section 9.7.4.

use std::collections::VecDeque;

use belljar_sim::Time;
use belljar_verbs::{Operation, Packet, Psn, With};
use serde::{Deserialize, Serialize};

use crate::Step;
use crate::completions::{Completion, Failure, received};
use crate::events::kind;
use crate::pair::{PairService, PairState, QueuePair};
use crate::region::Right;
use crate::shared::Receive;

/// Acknowledgements and answers, in order.
mod answer;
/// Reads and atomic operations.
mod remote;

pub(crate) use answer::Answer;

/// Kinds of negative acknowledgements.
const NOT_READY: u32 = 0x20;
const OUT_OF_ORDER: u32 = 0x60;
const INVALID: u32 = 0x61;
const NO_ACCESS: u32 = 0x62;
const FAILED: u32 = 0x63;

/// A message that is not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Open {
    /// Bytes that are here, in a receive.
    Send { receive: Receive, here: u64 },
    /// Of a write: the next address, the key, bytes that are still to come, and those of the message.
    Write {
        addr: u64,
        key: u32,
        left: u64,
        bytes: u32,
    },
}

/// The state of a pair's receiving side.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Responder {
    /// Receives taken of the pair's own ring.
    pub(crate) taken: u16,
    /// The next request's number.
    expected: u32,
    /// Messages carried out.
    messages: u32,
    open: Option<Open>,
    /// An early request was refused since the last one in order.
    refused: bool,
    answers: VecDeque<Answer>,
    /// A long answer is under way.
    answering: bool,
    /// Atomic operations that were carried out last: their numbers, and the former values.
    atomics: VecDeque<(u32, u64)>,
    /// The time of the last answer, which no later one precedes.
    last: Time,
    /// When the link is through with the pieces of a long answer so far.
    paced: Time,
}

impl Responder {
    /// Starts at a packet number.
    pub(crate) fn start(&mut self, psn: Psn) {
        self.expected = psn.number();
    }

    fn expected(&self) -> Psn {
        Psn::new(self.expected)
    }

    /// The next request's number.
    pub(crate) fn next_number(&self) -> u32 {
        self.expected
    }

    /// Messages carried out, 24 bits.
    pub(crate) fn messages(&self) -> u32 {
        self.messages & 0xff_ffff
    }
}

/// The reason why a request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// There is no receive; the peer may try again.
    NotReady,
    /// It breaks the protocol.
    Invalid,
    /// Its key, rights or bounds forbid it.
    NoAccess,
    /// The receive of this program fails.
    Failed(Failure),
}

impl Step<'_> {
    /// A request of a connection.
    pub(crate) fn take_request(&mut self, pair: &mut QueuePair, packet: &Packet) {
        if !pair.receives() {
            return;
        }
        match pair.service() {
            PairService::Reliable => self.take_reliable(pair, packet),
            PairService::Unreliable => self.take_unreliable(pair, packet),
            _ => {}
        }
    }

    fn take_reliable(&mut self, pair: &mut QueuePair, packet: &Packet) {
        let ahead = packet.psn.since(pair.responder.expected());
        if ahead > 0 {
            if !std::mem::replace(&mut pair.responder.refused, true) {
                let expected = pair.responder.expected();
                self.send_syndrome(pair, expected, OUT_OF_ORDER);
            }
            return;
        }
        if ahead < 0 {
            return self.repeat(pair, packet);
        }
        pair.responder.refused = false;
        match self.carry_out(pair, packet) {
            Ok(numbers) => {
                pair.responder.expected = packet.psn.after(numbers).number();
                if packet.wants_ack {
                    self.acknowledge_to_peer(pair, packet.psn);
                }
            }
            Err(Refusal::NotReady) => {
                let timer = pair.ready_timer();
                pair.responder.refused = true;
                self.core.counters.not_ready += 1;
                self.send_syndrome(pair, packet.psn, NOT_READY | timer);
            }
            Err(refusal) => self.break_off(pair, packet.psn, refusal),
        }
    }

    /// A refused request of a reliable connection ends it.
    fn break_off(&mut self, pair: &mut QueuePair, psn: Psn, refusal: Refusal) {
        let (syndrome, event) = match refusal {
            Refusal::NoAccess => (NO_ACCESS, Some(kind::ACCESS)),
            // A message that is longer than its receive breaks the protocol.
            Refusal::Failed(Failure::LocalLength) => (INVALID, None),
            Refusal::Failed(_) => (FAILED, None),
            _ => (INVALID, Some(kind::INVALID_REQUEST)),
        };
        self.send_syndrome(pair, psn, syndrome);
        if let Refusal::Failed(failure) = refusal {
            self.fail_open(pair, failure);
        }
        if let Some(event) = event {
            self.post_event(event, 0, &[(4, &pair.number.to_be_bytes())]);
        }
        self.enter_error(pair);
    }

    fn take_unreliable(&mut self, pair: &mut QueuePair, packet: &Packet) {
        let first = match packet.opcode.operation {
            Operation::Send { first, .. } | Operation::Write { first, .. } => first,
            _ => return,
        };
        let is_next = packet.psn == pair.responder.expected();
        pair.responder.expected = packet.psn.after(1).number();
        if first || !is_next {
            // After a loss the rest of a message is dropped; the next message gets its receive.
            pair.responder.open = None;
        }
        if !first && !is_next {
            return;
        }
        if let Err(Refusal::Failed(failure)) = self.carry_out(pair, packet) {
            self.fail_open(pair, failure);
            self.enter_error(pair);
        }
    }

    /// Carries a request out. Returns how many packet numbers it takes.
    fn carry_out(&mut self, pair: &mut QueuePair, packet: &Packet) -> Result<u32, Refusal> {
        match packet.opcode.operation {
            Operation::Send { first, last, with } => {
                self.take_part(pair, packet, (first, last), with)?;
                Ok(1)
            }
            Operation::Write {
                first,
                last,
                immediate,
            } => {
                self.write_part(pair, packet, (first, last), immediate)?;
                Ok(1)
            }
            Operation::ReadRequest => self.begin_read(pair, packet),
            Operation::CompareSwap | Operation::FetchAdd => self.swap(pair, packet).map(|()| 1),
            _ => Err(Refusal::Invalid),
        }
    }

    /// A part of a sent message, which is the first or the last one.
    fn take_part(
        &mut self,
        pair: &mut QueuePair,
        packet: &Packet,
        (first, last): (bool, bool),
        with: With,
    ) -> Result<(), Refusal> {
        let length = packet.payload.len();
        if length > pair.mtu() || (!last && length != pair.mtu()) {
            return Err(Refusal::Invalid);
        }
        let (receive, here) = match (first, pair.responder.open.take()) {
            (true, None) => (self.take_receive(pair).ok_or(Refusal::NotReady)?, 0),
            (false, Some(Open::Send { receive, here })) => (receive, here),
            _ => return Err(Refusal::Invalid),
        };
        let end = here + length as u64;
        let fits = end <= receive.room();
        let written = self.scatter(pair.domain(), &receive.segments, here, &packet.payload);
        if let Some(failure) = Failure::of_receive(fits, written) {
            pair.responder.open = Some(Open::Send { receive, here });
            return Err(Refusal::Failed(failure));
        }
        if !last {
            pair.responder.open = Some(Open::Send { receive, here: end });
            return Ok(());
        }
        let opcode = match with {
            With::Nothing => received::SENT,
            With::Immediate => received::SENT_IMMEDIATE,
            With::Invalidate => received::SENT_INVALIDATE,
        };
        if with == With::Invalidate {
            self.invalidate_key(packet.extensions.immediate);
        }
        self.complete_receive(pair, packet, &receive, opcode, end as u32);
        Ok(())
    }

    /// A part of a write, which is the first or the last one.
    fn write_part(
        &mut self,
        pair: &mut QueuePair,
        packet: &Packet,
        (first, last): (bool, bool),
        immediate: bool,
    ) -> Result<(), Refusal> {
        let length = packet.payload.len() as u64;
        let of = &packet.extensions;
        let open = match (first, pair.responder.open.clone()) {
            (true, None) => (of.address, of.key, u64::from(of.length), of.length),
            (
                false,
                Some(Open::Write {
                    addr,
                    key,
                    left,
                    bytes,
                }),
            ) => (addr, key, left, bytes),
            _ => return Err(Refusal::Invalid),
        };
        let (addr, key, left, bytes) = open;
        let is_whole = if last {
            length == left
        } else {
            length == pair.mtu() as u64 && length < left
        };
        if !is_whole || length > pair.mtu() as u64 {
            return Err(Refusal::Invalid);
        }
        let may_write = pair.permits().1;
        // A write of no bytes needs no key.
        let to = (left > 0).then(|| {
            let right = Right::RemoteWrite;
            let to = self.keys().check(pair.domain(), key, addr, left, right);
            to.filter(|_| may_write).ok_or(Refusal::NoAccess)
        });
        let to = to.transpose()?;
        // A receive is needed before the last byte is written, so that a repeated request finds nothing done.
        let receive = (last && immediate).then(|| self.take_receive(pair).ok_or(Refusal::NotReady));
        let receive = receive.transpose()?;
        if let Some(to) = to {
            let written = self.keys().write(to, 0, &packet.payload);
            written.ok_or(Refusal::NoAccess)?;
        }
        pair.responder.open = (!last).then_some(Open::Write {
            addr: addr + length,
            key,
            left: left - length,
            bytes,
        });
        match receive {
            Some(receive) => {
                self.complete_receive(pair, packet, &receive, received::WRITTEN_IMMEDIATE, bytes)
            }
            None if last => {
                pair.responder.messages = pair.responder.messages.wrapping_add(1);
            }
            None => {}
        }
        Ok(())
    }

    fn complete_receive(
        &mut self,
        pair: &mut QueuePair,
        packet: &Packet,
        receive: &Receive,
        opcode: u8,
        bytes: u32,
    ) {
        pair.responder.messages = pair.responder.messages.wrapping_add(1);
        let completion = Completion::of_receive(pair, receive, packet, opcode, bytes);
        self.complete(pair.receive_completions(), completion);
    }

    /// The receive of the open message fails.
    fn fail_open(&mut self, pair: &mut QueuePair, failure: Failure) {
        if let Some(Open::Send { receive, .. }) = pair.responder.open.take() {
            self.fail_receive(pair, &receive, failure);
        }
    }

    fn fail_receive(&mut self, pair: &QueuePair, receive: &Receive, failure: Failure) {
        let completion = Completion {
            queue_pair: pair.number,
            failure: Some(failure),
            work: receive.index,
            ..Completion::default()
        };
        self.complete(pair.receive_completions(), completion);
    }

    /// Ends a pair: its receives and its sends complete as flushed.
    pub(crate) fn enter_error(&mut self, pair: &mut QueuePair) {
        if pair.state == PairState::Error {
            return;
        }
        pair.state = PairState::Error;
        pair.requester.timeout = None;
        self.fail_open(pair, Failure::Flushed);
        self.flush_sends(pair);
        if pair.shared().is_some() {
            return self.post_event(kind::LAST_RECEIVE, 0, &[(4, &pair.number.to_be_bytes())]);
        }
        let most = pair.rings().1.map_or(0, |ring| ring.count());
        for _ in 0..most {
            let Some(receive) = self.take_receive(pair) else {
                break;
            };
            self.fail_receive(pair, &receive, Failure::Flushed);
        }
    }
}
