//! Messages, from the call that sends one to the call that has it.
//!
//! A message is a *message* here: it may need several messages of the network, its legs. A small one has one leg, and its sender is done when it has handed
//! it over. A large one goes as its library's protocol says: the first leg asks, and no leg is answered before the process that it came to is in MPI; the first
//! not before somebody wants the message. Of a channel the `n`th message goes to the `n`th receive. Called by threads, by steps of collective operations,
//! and when something arrives.

use std::collections::VecDeque;

use belljar_mpi::SendMode;
use belljar_networks::{Message, Network};
use belljar_program::{ChannelId, ProcessId};
use belljar_sim::Time;
use serde::{Deserialize, Serialize};

use super::access::Request;
use super::{Deferred, Engine, Event, MessageId, OperationId, Party};
use crate::costs::{Leg, Medium, Protocol};

/// Messages between two processes that do not overtake each other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Channel {
    /// Letters that no receive has been begun for.
    pub(super) sent: VecDeque<MessageId>,
    /// Receives that no message has been sent for, and whether their data lies in pieces.
    wanted: VecDeque<(Party, bool)>,
    /// Operations that wait for a message to be there, without receiving it.
    looking: Vec<OperationId>,
}

/// A message from one process to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MpiMessage {
    pub(super) from: ProcessId,
    pub(super) to: ProcessId,
    /// Its channel, if it is the program's own message.
    channel: Option<ChannelId>,
    pub(super) bytes: u64,
    pub(super) sender: Party,
    /// Whose it is, once somebody wants it.
    pub(super) receiver: Option<Party>,
    pub(super) transport: Transport,
    /// By which protocol it goes, if it is large.
    protocol: Protocol,
    /// It is the first large message of its two processes.
    contact: bool,
    /// Whether its present leg has arrived.
    there: bool,
    /// Whether the library has seen that it did: it looks when it is called to wait or to test, not when something is only begun.
    seen: bool,
}

/// How a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Transport {
    /// At once.
    Eager,
    /// By the library's protocol; this leg of it is under way.
    Protocol(usize),
    /// A request, or the target's answer of so many bytes.
    Access {
        /// True for the answer.
        back: bool,
        /// Bytes of the answer.
        received: u64,
        /// The request.
        request: Request,
    },
}

impl MpiMessage {
    /// A request to a process that answers it.
    pub(super) fn request(
        (from, to): (ProcessId, ProcessId),
        bytes: u64,
        sender: Party,
        transport: Transport,
        protocol: Protocol,
    ) -> Self {
        Self {
            from,
            to,
            channel: None,
            bytes,
            sender,
            receiver: Some(Party::Nobody),
            transport,
            protocol,
            contact: false,
            there: false,
            seen: false,
        }
    }

    /// Whether it could be between so many processes and on one of so many channels.
    pub(super) fn is_sound(&self, processes: usize, channels: usize) -> bool {
        let leg = match self.transport {
            Transport::Protocol(leg) => leg < self.protocol.legs(self.contact).len(),
            Transport::Eager | Transport::Access { .. } => true,
        };
        let channel = self.channel.is_none_or(|it| (it as usize) < channels);
        (self.from as usize) < processes && (self.to as usize) < processes && channel && leg
    }

    /// Bytes that a leg of it has, at most, without the library's own.
    pub(super) fn most_bytes(&self) -> u64 {
        match self.transport {
            Transport::Access { received, .. } => self.bytes.max(received),
            Transport::Eager | Transport::Protocol(_) => self.bytes,
        }
    }
}

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// A call sends a message on a channel; `party` is told when the sender is done.
    pub(super) fn send(
        &mut self,
        now: u64,
        channel: ChannelId,
        party: Party,
        (bytes, mode, pieces): (u64, SendMode, bool),
    ) {
        let message = self.on_channel(channel, party, (bytes, mode, pieces));
        self.post(now, message);
        self.sent(now, channel, message);
    }

    /// A message on a channel, which has not left.
    pub(super) fn on_channel(
        &mut self,
        channel: ChannelId,
        party: Party,
        (bytes, mode, pieces): (u64, SendMode, bool),
    ) -> MessageId {
        let of = self.program.channels[channel as usize];
        self.messages.insert(MpiMessage {
            from: of.from,
            to: of.to,
            channel: Some(channel),
            bytes,
            sender: party,
            receiver: None,
            transport: self.transport((of.from, of.to), bytes, mode),
            protocol: self.protocol((of.from, of.to), pieces),
            contact: false,
            there: false,
            seen: false,
        })
    }

    /// A message is the next of its channel.
    pub(super) fn sent(&mut self, now: u64, channel: ChannelId, message: MessageId) {
        let own = &mut self.channels[channel as usize];
        match own.wanted.pop_front() {
            Some(wanted) => self.wanted_by(now, message, wanted),
            None => own.sent.push_back(message),
        }
    }

    /// The medium of messages between two processes.
    pub(super) fn medium(&self, from: ProcessId, to: ProcessId) -> Medium {
        match self.hosts[from as usize] == self.hosts[to as usize] {
            true => Medium::Memory,
            false => Medium::Network,
        }
    }

    /// The protocol of a large message. Data in pieces cannot be written into or read out of the other's memory.
    fn protocol(&self, (from, to): (ProcessId, ProcessId), pieces: bool) -> Protocol {
        match (pieces, self.medium(from, to)) {
            (true, _) => Protocol::Send,
            (false, Medium::Memory) => Protocol::Get,
            (false, Medium::Network) => self.spans.costs.protocol,
        }
    }

    fn transport(
        &self,
        (from, to): (ProcessId, ProcessId),
        bytes: u64,
        mode: SendMode,
    ) -> Transport {
        let large = self.spans.is_large(from, self.medium(from, to), bytes);
        match mode {
            SendMode::Synchronous => Transport::Protocol(0),
            SendMode::Standard | SendMode::Ready if large => Transport::Protocol(0),
            _ => Transport::Eager,
        }
    }

    /// A step of a collective operation sends a message; the message's number.
    pub(super) fn send_step(
        &mut self,
        now: u64,
        (from, to): (ProcessId, ProcessId),
        bytes: u64,
        party: Party,
    ) -> MessageId {
        let message = MpiMessage {
            from,
            to,
            channel: None,
            bytes,
            sender: party,
            receiver: None,
            transport: self.transport((from, to), bytes, SendMode::Standard),
            protocol: self.protocol((from, to), false),
            contact: false,
            there: false,
            seen: false,
        };
        let number = self.messages.insert(message);
        self.post(now, number);
        number
    }

    /// A message's first leg begins.
    pub(super) fn post(&mut self, now: u64, number: MessageId) {
        let Some(message) = self.messages.get(number) else {
            return;
        };
        let (from, to, transport) = (message.from, message.to, message.transport);
        let (bytes, sender) = (message.bytes, message.sender);
        let begins = self.free(from, now);
        let medium = self.medium(from, to);
        match transport {
            Transport::Eager | Transport::Access { .. } => {
                let first = self.spans.first(from, medium, bytes);
                self.schedule_event(begins.saturating_add(first), Event::Leaves(number));
                let done = self.work(from, now, self.spans.send(from, medium, bytes));
                if transport == Transport::Eager {
                    self.end(done, sender, 0);
                }
            }
            Transport::Protocol(_) => {
                if medium == Medium::Network {
                    self.first_contact(number);
                }
                let leaves = self.work(from, now, self.spans.first(from, medium, 0));
                self.schedule_event(leaves, Event::Leaves(number));
            }
        }
    }

    /// Notes whether a large message is the first of its two processes.
    fn first_contact(&mut self, number: MessageId) {
        let knows = self.spans.costs.contact > 0.0;
        let Some(message) = self.messages.get_mut(number).filter(|_| knows) else {
            return;
        };
        let pair = (message.from.min(message.to), message.from.max(message.to));
        let large = matches!(message.transport, Transport::Protocol(_));
        message.contact = large && self.contacts.insert(pair);
    }

    /// A call begins to receive from a channel; `party` is told when the message is there.
    pub(super) fn receive(&mut self, now: u64, channel: ChannelId, wanted: (Party, bool)) {
        let own = &mut self.channels[channel as usize];
        match own.sent.pop_front() {
            Some(message) => self.wanted_by(now, message, wanted),
            None => own.wanted.push_back(wanted),
        }
    }

    /// Whether a message has come that nobody has begun to receive.
    pub(super) fn is_there(&self, channel: ChannelId) -> bool {
        let first = self.channels[channel as usize].sent.front();
        let message = first.and_then(|message| self.messages.get(*message));
        message.is_some_and(|message| message.there)
    }

    /// An operation is over when a message has come that nobody has begun to receive.
    pub(super) fn look_for(&mut self, channel: ChannelId, operation: OperationId) {
        self.channels[channel as usize].looking.push(operation);
    }

    /// It is known whose a message is, and whether its data is to lie in pieces.
    pub(super) fn wanted_by(
        &mut self,
        now: u64,
        number: MessageId,
        (party, pieces): (Party, bool),
    ) {
        let Some(message) = self.messages.get_mut(number) else {
            return;
        };
        message.receiver = Some(party);
        if pieces {
            message.protocol = Protocol::Send;
        }
        if message.there && (message.seen || message.transport == Transport::Eager) {
            self.arrived(now, number);
        }
    }

    /// A leg leaves its host.
    pub(super) fn leaves(&mut self, now: u64, number: MessageId) {
        let Some(message) = self.messages.get(number) else {
            return;
        };
        let header = self.spans.costs.header;
        let (onward, bytes) = match message.transport {
            Transport::Eager => (true, message.bytes.saturating_add(header)),
            Transport::Protocol(leg) => {
                let Leg { onward, data } = message.protocol.leg(leg, message.contact);
                (
                    onward,
                    if data {
                        message.bytes.saturating_add(header)
                    } else {
                        header
                    },
                )
            }
            Transport::Access { back, received, .. } => match back {
                false => (true, message.bytes.saturating_add(header)),
                true => (false, received.saturating_add(header)),
            },
        };
        let (from, to) = match onward {
            true => (message.from, message.to),
            false => (message.to, message.from),
        };
        let message = Message {
            id: number,
            from: self.hosts[from as usize],
            to: self.hosts[to as usize],
            bytes,
            stream: u64::from(from) << 32 | u64::from(to),
        };
        if let Some(time) = self.network.send(Time::from_ps(now), message) {
            self.schedule_event(time.as_ps(), Event::Arrives(number));
        }
    }

    /// A leg arrives.
    pub(super) fn arrives(&mut self, now: u64, number: MessageId) {
        let Some(message) = self.messages.get_mut(number) else {
            return;
        };
        message.there = true;
        let to = message.to;
        let first = matches!(message.transport, Transport::Eager | Transport::Protocol(0));
        if let Some(channel) = message.channel.filter(|_| first) {
            for operation in std::mem::take(&mut self.channels[channel as usize].looking) {
                self.operation_over(now, operation, self.spans.begin(to));
            }
        }
        let eager = matches!(self.messages.get(number), Some(message) if message.transport == Transport::Eager);
        let process = self.present(number);
        if eager || self.is_in_mpi(process, now) {
            return self.see(now, number);
        }
        let deferred = &mut self.processes[process as usize].deferred;
        deferred.push_back(Deferred::See(number));
    }

    /// The library sees that a leg has arrived.
    pub(super) fn see(&mut self, now: u64, number: MessageId) {
        if let Some(message) = self.messages.get_mut(number) {
            message.seen = true;
            self.arrived(now, number);
        }
    }

    /// A leg has arrived and has been seen, and perhaps it is known who wants the message.
    fn arrived(&mut self, now: u64, number: MessageId) {
        let Some(message) = self.messages.get(number) else {
            return;
        };
        let Some(receiver) = message.receiver else {
            return;
        };
        if message.transport != Transport::Eager {
            return self.answer(now, number);
        }
        let (from, to, bytes) = (message.from, message.to, message.bytes);
        self.messages.remove(number);
        let work = self.spans.receive(to, self.medium(from, to), bytes);
        self.end(now, receiver, work);
    }

    /// The process at which a message's present leg arrives.
    fn present(&self, number: MessageId) -> ProcessId {
        let Some(message) = self.messages.get(number) else {
            return 0;
        };
        let onward = match message.transport {
            Transport::Eager => true,
            Transport::Protocol(leg) => message.protocol.leg(leg, message.contact).onward,
            Transport::Access { back, .. } => !back,
        };
        if onward { message.to } else { message.from }
    }

    /// The process that a leg came to answers it, being in MPI.
    fn answer(&mut self, now: u64, number: MessageId) {
        let process = self.present(number);
        let Some(message) = self.messages.get(number) else {
            return;
        };
        let (transport, sender, receiver) = (message.transport, message.sender, message.receiver);
        let (bytes, protocol) = (message.bytes, message.protocol);
        let contact = message.contact;
        let (from, to) = (message.from, message.to);
        match transport {
            Transport::Eager => {}
            Transport::Access {
                back,
                received,
                request,
            } => self.answer_request(now, number, (back, received, request)),
            Transport::Protocol(leg) => {
                let medium = self.medium(from, to);
                if protocol.sender_done(contact) == Some(leg) {
                    self.end(now, sender, self.spans.control(from, medium));
                }
                if leg + 1 < protocol.legs(contact).len() {
                    return self.next(now, number, Transport::Protocol(leg + 1), process);
                }
                self.messages.remove(number);
                if let Some(receiver) = receiver {
                    self.end(now, receiver, self.spans.receive(to, medium, bytes));
                }
            }
        }
    }

    /// The next leg of a protocol begins, from this process.
    fn next(&mut self, now: u64, number: MessageId, transport: Transport, process: ProcessId) {
        let Some(message) = self.messages.get(number) else {
            return;
        };
        let (bytes, sender, protocol) = (message.bytes, message.sender, message.protocol);
        let contact = message.contact;
        let medium = self.medium(message.from, message.to);
        if protocol == Protocol::Get {
            return self.copied(now, number, process);
        }
        let data = matches!(transport, Transport::Protocol(leg) if protocol.leg(leg, contact).data);
        let more = match transport {
            Transport::Protocol(1) if contact => self.spans.contact(process),
            _ => 0,
        };
        let work = self.spans.control(process, medium).saturating_add(more);
        self.next_leg(now, number, transport, (process, work));
        if data {
            let all = self.spans.send(process, medium, bytes);
            let further = all.saturating_sub(self.spans.first(process, medium, 0));
            let done = self.work(process, now, further);
            if protocol.sender_done(contact).is_none() {
                self.end(done, sender, 0);
            }
        }
    }

    /// The receiver copies a message's data out of the sender's memory, is done, and acknowledges it.
    fn copied(&mut self, now: u64, number: MessageId, process: ProcessId) {
        let Some(message) = self.messages.get_mut(number) else {
            return;
        };
        let bytes = message.bytes;
        let receiver = message.receiver.replace(Party::Nobody);
        let work = self.spans.get(process, bytes);
        self.next_leg(now, number, Transport::Protocol(1), (process, work));
        // The process copies until later, so its next work begins after the copy.
        if let Some(receiver) = receiver {
            self.end(now, receiver, 0);
        }
    }

    /// A message's next leg leaves after so much work of its process.
    pub(super) fn next_leg(
        &mut self,
        now: u64,
        number: MessageId,
        transport: Transport,
        (process, work): (ProcessId, u64),
    ) {
        if let Some(message) = self.messages.get_mut(number) {
            message.transport = transport;
            (message.there, message.seen) = (false, false);
            let leaves = self.work(process, now, work);
            self.schedule_event(leaves, Event::Leaves(number));
        }
    }
}
