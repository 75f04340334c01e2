//! Acknowledgements and answers of peers.
//!
//! The oldest number without an acknowledgement only grows, and work completes in the order in which it began. An answer that is not expected
//! has no effect. Packets that arrive for a reliable connection's requester come here.

use super::data::segments;
use super::*;
use crate::work::room;

/// Kinds of acknowledgements: the three highest bits of the syndrome.
mod syndrome {
    pub(super) const POSITIVE: u32 = 0;
    pub(super) const NOT_READY: u32 = 1;
    pub(super) const NEGATIVE: u32 = 3;
}

/// The times of the codes of a peer that has no receive, in multiples of 10 us (table 45 of the specification).
const READY_TIMES: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
    1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// The time of a code.
pub(crate) fn ready_time(code: u32) -> Span {
    Span::from_ps(u64::from(READY_TIMES[(code & 31) as usize]) * 10_000_000)
}

impl Step<'_> {
    /// An acknowledgement, or an answer to a read or to an atomic operation.
    pub(crate) fn take_answer(&mut self, pair: &mut QueuePair, packet: &Packet) {
        let requester = &pair.requester;
        let is_expected =
            packet.psn.since(requester.oldest()) >= 0 && packet.psn.since(requester.next()) < 0;
        if pair.state != PairState::Send && pair.state != PairState::Drained || !is_expected {
            return;
        }
        match packet.opcode.operation {
            Operation::ReadResponse { .. } => self.take_read(pair, packet),
            Operation::AtomicAcknowledge => self.take_former(pair, packet),
            _ => self.take_acknowledgement(pair, packet),
        }
        if pair.state == PairState::Send {
            self.proceed(pair, self.now + self.config.delays.answer);
        }
    }

    fn take_acknowledgement(&mut self, pair: &mut QueuePair, packet: &Packet) {
        let code = packet.extensions.acknowledge >> 24;
        match code >> 5 {
            syndrome::POSITIVE => {
                self.acknowledge(pair, packet.psn.after(1));
            }
            syndrome::NOT_READY if self.acknowledge(pair, packet.psn) => {
                self.wait_until_ready(pair, code & 31);
            }
            syndrome::NEGATIVE if self.acknowledge(pair, packet.psn) => {
                self.take_refusal(pair, packet.psn, code & 31);
            }
            _ => {}
        }
    }

    fn take_refusal(&mut self, pair: &mut QueuePair, psn: Psn, code: u32) {
        let failure = match code {
            0 => return self.try_again(pair, psn),
            1 => Failure::RemoteInvalid,
            2 => Failure::RemoteAccess,
            _ => Failure::RemoteOperation,
        };
        let mut begun = pair.requester.begun.iter();
        let index = begun.position(|begun| psn.since(begun.end()) < 0);
        self.fail_begun(pair, index.unwrap_or_default(), failure);
    }

    fn wait_until_ready(&mut self, pair: &mut QueuePair, code: u32) {
        let most = pair.ready_retries();
        if most != 7 && pair.requester.ready_tries >= most {
            return self.fail_begun(pair, 0, Failure::NotReady);
        }
        pair.requester.ready_tries += 1;
        let until = self.now + ready_time(code);
        pair.requester.silent_until = Some(until);
        pair.requester.timeout = None;
        self.core.due.push(until, Due::Ready(pair.number));
    }

    /// The time is over for which a peer had no receive.
    pub(crate) fn end_silence(&mut self, pair: &mut QueuePair) {
        let is_over = pair
            .requester
            .silent_until
            .is_some_and(|until| until <= self.now);
        if is_over {
            pair.requester.silent_until = None;
            let oldest = pair.requester.oldest();
            self.go_back(pair, oldest);
        }
    }

    /// All packets before `psn` are at the peer. Returns false if an answer is lost, and the pair sends its request again.
    fn acknowledge(&mut self, pair: &mut QueuePair, psn: Psn) -> bool {
        let queue = pair.send_completions();
        while let Some(begun) = pair.requester.begun.front() {
            if begun.expects_answer() && begun.answered < begun.packets {
                let first = Psn::new(begun.first);
                let answered = first.after(begun.answered);
                let is_lost = psn.since(answered) > 0;
                self.note_progress(pair, if is_lost { answered } else { psn });
                if is_lost {
                    self.go_back(pair, first);
                }
                return !is_lost;
            }
            let end = begun.end();
            if end.since(psn) > 0 {
                self.note_progress(pair, psn);
                return true;
            }
            let done = pair.requester.begun.pop_front();
            self.note_progress(pair, end);
            if let Some(done) = done.filter(|done| done.work.wants_completion) {
                self.complete(queue, sent_completion(pair.number, &done.work, None));
            }
        }
        true
    }

    fn note_progress(&mut self, pair: &mut QueuePair, oldest: Psn) {
        let requester = &mut pair.requester;
        if oldest.since(requester.oldest()) > 0 {
            requester.oldest = oldest.number();
            (requester.tries, requester.ready_tries) = (0, 0);
        }
        // After a step back, numbers may be acknowledged that are not sent again yet.
        if requester.oldest().since(requester.next()) > 0 {
            requester.next = requester.oldest;
        }
    }

    /// A part of the answer to a read.
    fn take_read(&mut self, pair: &mut QueuePair, packet: &Packet) {
        let Some(index) = self.answered(pair, packet.psn, op::READ) else {
            return;
        };
        let begun = &pair.requester.begun[index];
        let offset = u64::from(begun.answered) * pair.mtu() as u64;
        let expected = begun
            .work
            .bytes()
            .saturating_sub(offset)
            .min(pair.mtu() as u64);
        if packet.payload.len() as u64 != expected {
            return self.fail_begun(pair, index, Failure::BadResponse);
        }
        let to = segments(&begun.work.data);
        let written = self.scatter(pair.domain(), &to, offset, &packet.payload);
        if written.is_none() {
            return self.fail_begun(pair, index, Failure::LocalProtection);
        }
        pair.requester.begun[index].answered += 1;
        self.acknowledge(pair, packet.psn.after(1));
    }

    /// The answer to an atomic operation: the former value, for a program on this machine.
    fn take_former(&mut self, pair: &mut QueuePair, packet: &Packet) {
        let Some(index) = pair
            .requester
            .begun
            .iter()
            .position(|begun| begun.work.is_atomic() && begun.first == packet.psn.number())
        else {
            return;
        };
        let to = segments(&pair.requester.begun[index].work.data);
        let value = packet.extensions.value.to_le_bytes();
        let value = &value[..room(&to).min(8) as usize];
        if self.scatter(pair.domain(), &to, 0, value).is_none() {
            return self.fail_begun(pair, index, Failure::LocalProtection);
        }
        pair.requester.begun[index].answered = 1;
        self.acknowledge(pair, packet.psn.after(1));
    }

    /// The begun read whose next part has this number. A later part shows that one was lost, and an earlier one is a duplicate.
    fn answered(&mut self, pair: &mut QueuePair, psn: Psn, opcode: u8) -> Option<usize> {
        let mut begun = pair.requester.begun.iter();
        let index = begun.position(|begun| {
            begun.work.opcode == opcode
                && psn.since(Psn::new(begun.first)) >= 0
                && psn.since(begun.end()) < 0
        })?;
        let begun = &pair.requester.begun[index];
        let part = psn.since(Psn::new(begun.first)) as u32;
        if part > begun.answered {
            let first = Psn::new(begun.first);
            if self.acknowledge(pair, first) {
                self.go_back(pair, first);
            }
            return None;
        }
        if part < begun.answered {
            // Its first answer arrived before a lost one that has arrived now, so it is complete.
            self.acknowledge(pair, psn.after(1));
            return None;
        }
        Some(index)
    }
}
