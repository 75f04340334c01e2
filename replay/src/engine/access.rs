//! Accesses to other processes' memory, flushes and locks: a message to the target, and its answer.
//!
//! The target's library answers each of them, as soon as its process is in MPI. The origin counts unanswered accesses, by target. A flush ends
//! when the count is zero. It sends a separate message if the transport serves accesses without the library, as UCX does: then only its answer
//! proves that the target's memory has the data. Used by threads, and by `message` when a leg is seen.

use belljar_networks::Network;
use belljar_program::{AccessCompletion, ChannelId, Locking, ProcessId};
use serde::{Deserialize, Serialize};

use super::message::{MpiMessage, Transport};
use super::{Engine, MessageId, Party};

/// The request that a message makes of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// An access that ends in this way.
    Access(AccessCompletion),
    /// A flush.
    Flush,
    /// A change of a window's lock.
    Lock(u32, Locking),
}

/// Unanswered accesses of one process to another.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Unanswered {
    /// Their number, including flushes.
    all: u32,
    /// Number of accesses that a flush has to complete.
    memory: u32,
    /// Threads whose calls continue when all are answered.
    pub(super) threads: Vec<u32>,
}

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// Begins an access to the memory of the process at the channel's end.
    pub(super) fn access(
        &mut self,
        now: u64,
        channel: ChannelId,
        party: Party,
        sent: u64,
        received: u64,
        completion: AccessCompletion,
    ) {
        let of = self.program.channels[channel as usize];
        if of.from == of.to {
            let done = self.work(of.from, now, self.spans.copy(of.from, sent.max(received)));
            return self.end(done, party, 0);
        }
        let unanswered = self.unanswered.entry((of.from, of.to)).or_default();
        unanswered.all = unanswered.all.saturating_add(1);
        if completion == AccessCompletion::Flush {
            unanswered.memory = unanswered.memory.saturating_add(1);
        }
        let request = Request::Access(completion);
        // The origin's buffer is free when the data has been handed over.
        let local = received == 0 && completion != AccessCompletion::Request;
        let answer = if local { Party::Nobody } else { party };
        let done = self.request(now, channel, answer, sent, received, request);
        if local {
            self.end(done, party, 0);
        }
    }

    /// Requests a change of a window's lock.
    pub(super) fn lock(
        &mut self,
        now: u64,
        channel: ChannelId,
        party: Party,
        window: u32,
        how: Locking,
    ) {
        self.request(now, channel, party, 0, 0, Request::Lock(window, how));
    }

    /// Requests completion of a channel's accesses at the target. Returns true if some are incomplete, so that the thread's call continues when
    /// they are complete.
    pub(super) fn flush(&mut self, now: u64, channel: ChannelId, thread: u32) -> bool {
        let of = self.program.channels[channel as usize];
        let Some(unanswered) = self.unanswered.get_mut(&(of.from, of.to)) else {
            return false;
        };
        unanswered.threads.push(thread);
        if unanswered.memory > 0 {
            unanswered.all = unanswered.all.saturating_add(1);
            self.request(now, channel, Party::Nobody, 0, 0, Request::Flush);
        }
        true
    }

    /// Sends a request, and returns the time at which all of its data has been handed over.
    fn request(
        &mut self,
        now: u64,
        channel: ChannelId,
        sender: Party,
        bytes: u64,
        received: u64,
        request: Request,
    ) -> u64 {
        let of = self.program.channels[channel as usize];
        let back = false;
        let transport = Transport::Access {
            back,
            received,
            request,
        };
        let protocol = self.spans.costs.protocol;
        let message = MpiMessage::request(of.from, of.to, bytes, sender, transport, protocol);
        let number = self.messages.insert(message);
        if of.from == of.to {
            self.answer_request(now, number, back, received, request);
            return self.free(of.from, now);
        }
        self.post(now, number);
        self.free(of.from, now)
    }

    /// Handles a request or its answer that has been seen.
    pub(super) fn answer_request(
        &mut self,
        now: u64,
        number: MessageId,
        back: bool,
        received: u64,
        request: Request,
    ) {
        let Some(message) = self.messages.get(number) else {
            return;
        };
        let (from, to, sender) = (message.from, message.to, message.sender);
        if back {
            self.messages.remove(number);
            let medium = self.medium(from, to);
            let done = self.work(from, now, self.spans.receive(from, medium, received));
            self.end(done, sender, 0);
            return self.answered(now, (from, to), request);
        }
        let Request::Lock(window, how) = request else {
            return self.turn_back(now, number);
        };
        for number in self.locks.ask((window, to), number, from, how) {
            self.turn_back(now, number);
        }
    }

    /// Answers a request at its target.
    fn turn_back(&mut self, now: u64, number: MessageId) {
        let Some(message) = self.messages.get(number) else {
            return;
        };
        let Transport::Access {
            received, request, ..
        } = message.transport
        else {
            return;
        };
        let (from, to, bytes, sender) = (message.from, message.to, message.bytes, message.sender);
        if from == to {
            self.messages.remove(number);
            return self.end(now, sender, 0);
        }
        let back = Transport::Access {
            back: true,
            received,
            request,
        };
        let combines = match request {
            Request::Access(AccessCompletion::Flush) => 0,
            _ => self.spans.combine(to, bytes),
        };
        let medium = self.medium(from, to);
        let receives = self.spans.receive(to, medium, bytes);
        let receives = receives.saturating_add(combines);
        let first = self.spans.first(to, medium, 0);
        self.next_leg(now, number, back, to, receives.saturating_add(first));
        if received > 0 {
            let further = self.spans.send(to, medium, received);
            let further = further.saturating_sub(first);
            self.work(to, now, further);
        }
    }

    /// Handles the answer to an access or a flush.
    fn answered(&mut self, now: u64, pair: (ProcessId, ProcessId), request: Request) {
        let Some(unanswered) = self.unanswered.get_mut(&pair) else {
            return;
        };
        match request {
            Request::Lock(..) => return,
            Request::Flush => {}
            Request::Access(AccessCompletion::Flush) => {
                unanswered.memory = unanswered.memory.saturating_sub(1);
            }
            Request::Access(_) => {}
        }
        unanswered.all = unanswered.all.saturating_sub(1);
        if unanswered.all > 0 {
            return;
        }
        let threads = self.unanswered.remove(&pair).map(|it| it.threads);
        for thread in threads.unwrap_or_default() {
            self.flushed(now, thread);
        }
    }
}
