//! The sending side of queue pairs.
//!
//! Work begins in the order of its ring. Of a reliable connection, up to a window of packets is under way; acknowledgements, answers and timeouts
//! move it on, and lost packets are sent again from the first that is missing (go-back-N), with data read from memory again. Work completes in
//! order. InfiniBand Architecture Specification volume 1, sections 9.7 (reliable) and 9.8 (unreliable).

use std::collections::VecDeque;

use belljar_sim::{Span, Time};
use belljar_verbs::{Extensions, Opcode, Operation, Packet, Psn, Service, With};
use serde::{Deserialize, Serialize};

use crate::Step;
use crate::completions::{Completion, Failure};
use crate::due::Due;
use crate::fields::u8_at;
use crate::pair::{PairService, PairState, QueuePair};
use crate::work::{Work, op};

/// Acknowledgements arrive here.
mod answers;
/// Data of work, from memory to packets and back.
mod data;
/// Parts of requests as packets.
mod packets;

/// The most packets of a pair under way without an acknowledgement: 256 KiB of full packets.
const WINDOW: u32 = 64;
/// Packets after which an acknowledgement is requested within a message.
const ACK_EVERY: u32 = 16;
/// The most work that is begun and not complete.
const MOST_BEGUN: usize = 256;
/// Bytes of a unit of a request's size.
const UNIT: usize = 16;

/// Work that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) work: Work,
    /// Number of its first packet, or of the first packet of the answer.
    pub(crate) first: u32,
    /// Its numbers: packets of a message, or of the answer to a read.
    pub(crate) packets: u32,
    /// Packets sent of it, counted anew after a loss; a read's request counts as all of its packets.
    pub(crate) sent: u32,
    /// Packets of the answer that are here.
    pub(crate) answered: u32,
}

impl Begun {
    fn end(&self) -> Psn {
        Psn::new(self.first).after(self.packets)
    }

    fn expects_answer(&self) -> bool {
        self.work.is_read() || self.work.is_atomic()
    }
}

/// The state of a pair's sending side.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Requester {
    /// The counter of the next work in the ring.
    pub(crate) head: u16,
    pub(crate) begun: VecDeque<Begun>,
    /// Number of the next new packet, and of the first one without an acknowledgement.
    pub(crate) next: u32,
    pub(crate) oldest: u32,
    /// Tries since the last progress.
    tries: u32,
    ready_tries: u32,
    /// The pair is silent until then, as the peer had no receive.
    silent_until: Option<Time>,
    /// When the peer counts as silent.
    pub(crate) timeout: Option<Time>,
    /// A timeout is in the list of due events.
    is_timed: bool,
    /// The time of the last packet, which no later one precedes.
    last: Time,
}

impl Requester {
    /// Starts at a packet number.
    pub(crate) fn start(&mut self, psn: Psn) {
        (self.next, self.oldest) = (psn.number(), psn.number());
    }

    fn next(&self) -> Psn {
        Psn::new(self.next)
    }

    fn oldest(&self) -> Psn {
        Psn::new(self.oldest)
    }

    fn under_way(&self) -> u32 {
        self.next().since(self.oldest()).max(0) as u32
    }
}

impl Step<'_> {
    /// A program rings: the ring of `number` has new work.
    pub(crate) fn ring(&mut self, number: u32) {
        self.core.counters.doorbells += 1;
        let delay = self.config.delays.send;
        self.with_pair(number, |step, pair| {
            step.proceed(pair, step.now + delay);
        });
    }

    /// Begins and sends as much work as may be. Packets are on the link from `at` on.
    pub(crate) fn proceed(&mut self, pair: &mut QueuePair, at: Time) {
        match pair.state {
            PairState::Send => {}
            PairState::Error => return self.flush_sends(pair),
            _ => return,
        }
        if pair.requester.silent_until.is_some() {
            return;
        }
        loop {
            self.send_begun(pair, at);
            if pair.state != PairState::Send {
                return self.flush_sends(pair);
            }
            if !self.begin_next(pair, at) {
                break;
            }
        }
        self.set_timeout(pair);
    }

    /// Reads the next request of the ring and begins it. False if there is none, or if it must wait.
    fn begin_next(&mut self, pair: &mut QueuePair, at: Time) -> bool {
        let is_waiting = pair
            .requester
            .begun
            .iter()
            .any(|begun| begun.sent < begun.packets);
        if is_waiting || pair.requester.begun.len() >= MOST_BEGUN || pair.state != PairState::Send {
            return false;
        }
        let Some(bytes) = self.read_request(pair) else {
            return false;
        };
        let counter = pair.requester.head;
        let service = pair.service();
        let has_answers = service == PairService::Reliable;
        if !has_answers && !self.may_send(pair, at) {
            return false;
        }
        if service == PairService::Management {
            pair.requester.head = counter.wrapping_add(1);
            self.send_management(pair, &bytes, counter, at);
            return true;
        }
        let work = Work::of_bytes(&bytes, counter, service == PairService::Datagram);
        let Some(work) = work.filter(|work| is_offered(service, work.opcode)) else {
            pair.requester.head = counter.wrapping_add(1);
            let work = Work {
                counter,
                ..Work::default()
            };
            self.fail(pair, &work, Failure::LocalOperation);
            return true;
        };
        if !self.may_begin(pair, &work) {
            return false;
        }
        pair.requester.head = counter.wrapping_add(1);
        match (service, work.opcode) {
            (_, op::NOTHING | op::LOCAL_INVALIDATE) => self.complete_locally(pair, work, at),
            (PairService::Datagram, _) => self.send_datagram(pair, work, at),
            (PairService::Unreliable, _) => self.send_unreliably(pair, work, at),
            _ => self.begin(pair, work),
        }
        true
    }

    /// The bytes of the next request, if the program has given it to the card.
    fn read_request(&mut self, pair: &QueuePair) -> Option<Vec<u8>> {
        let (ring, _) = pair.rings();
        let counter = pair.requester.head;
        let mut control = [0; UNIT];
        let (buffer, at) = (pair.buffer(), ring.place(counter));
        let (lent, ram) = (&self.core.lent, self.ram);
        buffer.read(lent, ram, at, &mut control)?;
        let owner = control[0] >> 7 == 1;
        if owner != (counter & ring.count() != 0) {
            return None;
        }
        let units = usize::from(u8_at(&control, 7) & 0x3f);
        let mut bytes = vec![0; (units.max(1) * UNIT).min(ring.stride())];
        buffer.read(lent, ram, at, &mut bytes)?;
        Some(bytes)
    }

    /// True if work need not wait for answers to reads before it.
    fn may_begin(&self, pair: &QueuePair, work: &Work) -> bool {
        let begun = &pair.requester.begun;
        let open = begun.iter().filter(|begun| begun.expects_answer()).count();
        let must_wait = work.is_read() || work.is_atomic();
        (!work.fences || open == 0) && (!must_wait || open < pair.most_reads())
    }

    /// Begins work of a reliable connection.
    fn begin(&mut self, pair: &mut QueuePair, work: Work) {
        let mtu = pair.mtu() as u64;
        let packets = work.bytes().div_ceil(mtu).max(1) as u32;
        let first = pair
            .requester
            .begun
            .back()
            .map_or(pair.requester.next, |last| last.end().number());
        pair.requester.begun.push_back(Begun {
            work,
            first,
            packets,
            sent: 0,
            answered: 0,
        });
    }

    /// Sends packets of begun work, in order, as far as the window allows.
    fn send_begun(&mut self, pair: &mut QueuePair, at: Time) {
        for index in 0..pair.requester.begun.len() {
            let is_open = |begun: &Begun| begun.sent < begun.packets;
            while pair.requester.begun.get(index).is_some_and(is_open) {
                if pair.requester.under_way() >= WINDOW || !self.may_send(pair, at) {
                    return;
                }
                let Some(begun) = pair.requester.begun.get(index) else {
                    return;
                };
                let Some(packet) = self.packet_of(pair, begun) else {
                    return self.fail_begun(pair, index, Failure::LocalProtection);
                };
                let at = self.fetched(&begun.work.data, packet.payload.len(), at);
                let sent = if begun.expects_answer() {
                    begun.packets
                } else {
                    begun.sent + 1
                };
                let next = Psn::new(begun.first).after(sent);
                if next.since(pair.requester.next()) > 0 {
                    pair.requester.next = next.number();
                }
                pair.requester.begun[index].sent = sent;
                self.emit(pair, packet, at);
            }
        }
    }

    /// Puts a packet of a pair on the link at `at`, or after its last one.
    pub(crate) fn emit(&mut self, pair: &mut QueuePair, packet: Packet, at: Time) {
        let at = self.paced(pair, &packet, at.max(pair.requester.last));
        pair.requester.last = at;
        self.put_on_link(packet, at);
    }

    /// Completes work that needs no packet.
    fn complete_locally(&mut self, pair: &mut QueuePair, work: Work, at: Time) {
        if work.opcode == op::LOCAL_INVALIDATE {
            self.invalidate_key(work.immediate);
        }
        self.complete_when_sent(pair, &work, at);
    }

    /// Completes work of an unacknowledged service when its data have left.
    pub(crate) fn complete_when_sent(&mut self, pair: &mut QueuePair, work: &Work, at: Time) {
        let at = at.max(pair.requester.last);
        pair.requester.last = at;
        if work.wants_completion {
            let completion = sent_completion(pair.number, work, None);
            let queue = pair.send_completions();
            let left = at.max(self.core.left);
            self.core.due.push(left, Due::Complete(queue, completion));
        }
    }

    /// The pair fails by work that is not begun.
    pub(crate) fn fail(&mut self, pair: &mut QueuePair, work: &Work, failure: Failure) {
        let completion = sent_completion(pair.number, work, Some(failure));
        self.complete(pair.send_completions(), completion);
        self.enter_error(pair);
    }

    /// The pair fails by begun work. Earlier work is flushed, too, as its answers can no longer arrive.
    pub(crate) fn fail_begun(&mut self, pair: &mut QueuePair, index: usize, failure: Failure) {
        let queue = pair.send_completions();
        let begun = std::mem::take(&mut pair.requester.begun);
        for (place, begun) in begun.iter().enumerate() {
            let failure = if place == index {
                failure
            } else {
                Failure::Flushed
            };
            let completion = sent_completion(pair.number, &begun.work, Some(failure));
            self.complete(queue, completion);
        }
        self.enter_error(pair);
    }

    /// Completes all work of a failed pair as flushed.
    pub(crate) fn flush_sends(&mut self, pair: &mut QueuePair) {
        let queue = pair.send_completions();
        for begun in std::mem::take(&mut pair.requester.begun) {
            let flushed = sent_completion(pair.number, &begun.work, Some(Failure::Flushed));
            self.complete(queue, flushed);
        }
        // Each request is read once, so that a ring of valid requests cannot hold the card.
        for _ in 0..pair.rings().0.count() {
            let Some(_) = self.read_request(pair) else {
                break;
            };
            let work = Work {
                counter: pair.requester.head,
                ..Work::default()
            };
            pair.requester.head = pair.requester.head.wrapping_add(1);
            let flushed = sent_completion(pair.number, &work, Some(Failure::Flushed));
            self.complete(queue, flushed);
        }
    }

    /// Sets the time at which the peer counts as silent, or none.
    pub(crate) fn set_timeout(&mut self, pair: &mut QueuePair) {
        let code = pair.timeout_code();
        let waits = pair.service() == PairService::Reliable && pair.requester.under_way() > 0;
        let requester = &mut pair.requester;
        if !waits || code == 0 {
            requester.timeout = None;
            return;
        }
        let at = self.now + Span::from_ps(4_096_000 << code.min(31));
        requester.timeout = Some(at);
        if !requester.is_timed {
            requester.is_timed = true;
            self.core.due.push(at, Due::Timeout(pair.number));
        }
    }

    /// A time is over that was set when a packet was sent; later packets may have moved it.
    pub(crate) fn time_out(&mut self, pair: &mut QueuePair) {
        pair.requester.is_timed = false;
        let Some(at) = pair.requester.timeout else {
            return;
        };
        if at > self.now {
            pair.requester.is_timed = true;
            return self.core.due.push(at, Due::Timeout(pair.number));
        }
        self.core.counters.timeouts += 1;
        let oldest = pair.requester.oldest();
        self.try_again(pair, oldest);
    }

    /// Sends again from packet `psn` on, or fails the pair if it has no tries left.
    fn try_again(&mut self, pair: &mut QueuePair, psn: Psn) {
        if pair.requester.tries >= pair.retries() {
            return self.fail_begun(pair, 0, Failure::Retries);
        }
        pair.requester.tries += 1;
        self.go_back(pair, psn);
    }

    /// Sends again from packet `psn` on.
    fn go_back(&mut self, pair: &mut QueuePair, psn: Psn) {
        for begun in &mut pair.requester.begun {
            let done = psn
                .since(Psn::new(begun.first))
                .clamp(0, begun.packets as i32) as u32;
            let is_answered = begun.expects_answer() && done >= begun.packets;
            begun.sent = match begun.expects_answer() {
                true if is_answered => begun.packets,
                // The whole request again; parts that have arrived are not written twice.
                true => 0,
                false => done,
            };
        }
        pair.requester.next = psn.number();
        self.core.counters.retries += 1;
        self.proceed(pair, self.now + self.config.delays.answer);
    }
}

/// True if a service has an operation.
fn is_offered(service: PairService, opcode: u8) -> bool {
    match service {
        PairService::Reliable => opcode != op::FAST_REGISTER,
        PairService::Unreliable => matches!(
            opcode,
            op::NOTHING
                | op::SEND
                | op::SEND_IMMEDIATE
                | op::WRITE
                | op::WRITE_IMMEDIATE
                | op::LOCAL_INVALIDATE
        ),
        _ => matches!(opcode, op::NOTHING | op::SEND | op::SEND_IMMEDIATE),
    }
}

/// The completion of a request of a ring of sends.
pub(crate) fn sent_completion(pair: u32, work: &Work, failure: Option<Failure>) -> Completion {
    Completion {
        queue_pair: pair,
        is_send: true,
        opcode: work.opcode,
        failure,
        bytes: work.bytes() as u32,
        work: work.counter,
        ..Completion::default()
    }
}
