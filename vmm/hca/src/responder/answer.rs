//! Acknowledgements and answers, in order.
//!
//! An answer to a read leaves in pieces, so that its data are read when they leave. Later answers wait for it.

use belljar_sim::{Span, Time};
use belljar_verbs::{Extensions, Operation, Packet, Psn, wire_bytes};
use serde::{Deserialize, Serialize};

use super::NO_ACCESS;
use crate::Step;
use crate::due::Due;
use crate::pair::{PairState, QueuePair};
use crate::region::Right;

/// Packets of a piece of a long answer.
const PIECE: u32 = 16;
/// Answers that wait at most; a peer within its limits has fewer.
const MOST_ANSWERS: usize = 256;
/// A positive acknowledgement without a limit on messages.
const POSITIVE: u32 = 0x1f;

/// A message to the peer of a responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// An acknowledgement with this syndrome and number of messages.
    Acknowledge {
        psn: u32,
        syndrome: u32,
        messages: u32,
    },
    /// The former value of an atomic operation.
    Former { psn: u32, value: u64, messages: u32 },
    /// Data of a read; `done` packets of it have left.
    Read {
        psn: u32,
        addr: u64,
        key: u32,
        bytes: u32,
        done: u32,
        messages: u32,
    },
}

impl Step<'_> {
    /// Acknowledges all requests up to `psn`.
    pub(super) fn acknowledge_to_peer(&mut self, pair: &mut QueuePair, psn: Psn) {
        self.send_syndrome(pair, psn, POSITIVE);
    }

    /// Answers the request `psn` with a syndrome.
    pub(super) fn send_syndrome(&mut self, pair: &mut QueuePair, psn: Psn, syndrome: u32) {
        let messages = pair.responder.messages;
        let answer = Answer::Acknowledge {
            psn: psn.number(),
            syndrome,
            messages,
        };
        self.answer(pair, answer);
    }

    /// Adds an answer, and sends all that need not wait.
    pub(super) fn answer(&mut self, pair: &mut QueuePair, answer: Answer) {
        if pair.responder.answers.len() < MOST_ANSWERS {
            pair.responder.answers.push_back(answer);
        }
        if !pair.responder.answering {
            self.go_on_answering(pair);
        }
    }

    /// A piece of a long answer has left.
    pub(crate) fn continue_answer(&mut self, pair: &mut QueuePair) {
        pair.responder.answering = false;
        self.go_on_answering(pair);
    }

    fn go_on_answering(&mut self, pair: &mut QueuePair) {
        while let Some(answer) = pair.responder.answers.front().copied() {
            match answer {
                Answer::Acknowledge {
                    psn,
                    syndrome,
                    messages,
                } => {
                    let of = acknowledgement(syndrome, messages);
                    self.send_answer(pair, psn, Operation::Acknowledge, of, Vec::new());
                }
                Answer::Former {
                    psn,
                    value,
                    messages,
                } => {
                    let of = Extensions {
                        value,
                        ..acknowledgement(POSITIVE, messages)
                    };
                    self.send_answer(pair, psn, Operation::AtomicAcknowledge, of, Vec::new());
                }
                Answer::Read { .. } => {
                    if self.send_piece(pair, answer) {
                        return;
                    }
                }
            }
            pair.responder.answers.pop_front();
        }
    }

    /// Sends the next packets of an answer to a read. Returns true if there are more.
    fn send_piece(&mut self, pair: &mut QueuePair, answer: Answer) -> bool {
        let Answer::Read {
            psn,
            addr,
            key,
            bytes,
            mut done,
            messages,
        } = answer
        else {
            return false;
        };
        if self.waits_to_answer(pair) {
            return true;
        }
        let mtu = pair.mtu() as u64;
        let packets = u64::from(bytes).div_ceil(mtu).max(1) as u32;
        // With congestion control, each packet has a delay of its own.
        let piece = if self.config.congestion.is_some() {
            1
        } else {
            PIECE
        };
        let end = packets.min(done + piece);
        let mut sent = 0;
        while done < end {
            let offset = u64::from(done) * mtu;
            let mut data = vec![0; (u64::from(bytes) - offset).min(mtu) as usize];
            let length = u64::from(bytes);
            let right = Right::RemoteRead;
            let keys = self.keys();
            let from = keys.check(pair.domain(), key, addr, length, right);
            let read = from.and_then(|from| keys.read(from, offset, &mut data));
            if bytes > 0 && read.is_none() {
                // The key became invalid while the answer was under way.
                let refused = acknowledgement(NO_ACCESS, messages);
                let psn = Psn::new(psn).after(done).number();
                self.send_answer(pair, psn, Operation::Acknowledge, refused, Vec::new());
                return false;
            }
            let (first, last) = (done == 0, done + 1 == packets);
            let of = acknowledgement(POSITIVE, messages);
            let psn = Psn::new(psn).after(done).number();
            let operation = Operation::ReadResponse { first, last };
            sent += self.send_answer(pair, psn, operation, of, data);
            done += 1;
        }
        if done == packets {
            return false;
        }
        if let Some(Answer::Read { done: left, .. }) = pair.responder.answers.front_mut() {
            *left = done;
        }
        if self.waits_to_answer(pair) {
            return true;
        }
        pair.responder.answering = true;
        // The next piece is read from memory so early that the link does not wait for it.
        let delays = &self.config.delays;
        let lead = delays.answer + delays.fetch;
        let begins = (self.now + lead).max(pair.responder.paced);
        pair.responder.paced = begins + Span::of_transfer(sent, self.config.identity.rate);
        let early = pair.responder.paced.since(Time::ZERO + lead);
        let next = (Time::ZERO + early).max(self.now);
        self.core.due.push(next, Due::Answer(pair.number));
        true
    }

    /// True if the next packet of an answer waits for the pair's delay by congestion control.
    fn waits_to_answer(&mut self, pair: &mut QueuePair) -> bool {
        let at = self.now + self.config.delays.answer;
        let begin = self.preparation_of(pair, at);
        if let Some(begin) = begin {
            pair.responder.answering = true;
            self.core.due.push(begin, Due::Answer(pair.number));
        }
        begin.is_some()
    }

    /// Sends a packet to the peer. Returns its bytes on the link.
    fn send_answer(
        &mut self,
        pair: &mut QueuePair,
        psn: u32,
        operation: Operation,
        of: Extensions,
        payload: Vec<u8>,
    ) -> u64 {
        let mut packet: Packet = self.packet_to_peer(pair, Psn::new(psn));
        packet.opcode.operation = operation;
        packet.extensions = of;
        packet.payload = payload;
        packet.notifies = self.takes_mark(pair);
        let length = packet.to_bytes().len();
        let answered = self.now + self.config.delays.answer;
        let data = match operation {
            Operation::AtomicAcknowledge => 8,
            _ => packet.payload.len(),
        };
        let fetched = match data {
            0 => answered,
            _ => self.fetched_from_memory(data, answered),
        };
        let at = match operation {
            Operation::ReadResponse { .. } => self.paced(pair, &packet, fetched),
            _ => fetched,
        };
        let at = at.max(pair.responder.last);
        pair.responder.last = at;
        if pair.state != PairState::Reset {
            self.put_on_link(packet, at);
        }
        wire_bytes(length)
    }
}

/// The header of an acknowledgement: its syndrome, and the low bits of the number of messages.
fn acknowledgement(syndrome: u32, messages: u32) -> Extensions {
    Extensions {
        acknowledge: syndrome << 24 | messages & 0xff_ffff,
        ..Extensions::default()
    }
}
