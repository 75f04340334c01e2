//! Messages, from the call that sends one to the call that receives it.
//!
//! A *message* of MPI may need several messages of the network, its legs. A small one has one leg, and its send is complete when it is handed over. A large one
//! follows its library's protocol. The first leg is a request, and no leg is answered before its receiving process is in MPI; the first one not before a
//! receive wants the message. On a channel, the `n`th message goes to the `n`th receive. Used by threads, by steps of collective operations, and on arrivals.

use std::collections::VecDeque;

use belljar_mpi::SendMode;
use belljar_networks::Network;
use belljar_program::{ChannelId, ProcessId};
use serde::{Deserialize, Serialize};

use super::access::Request;
use super::{Engine, Event, MessageId, OperationId, Party};
use crate::costs::{Medium, Protocol};

/// The legs of a message: from its departure, over the network, to the buffer of its receiver.
mod legs;

/// Messages between two processes that do not overtake each other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Channel {
    /// Messages without a begun receive.
    pub(super) sent: VecDeque<MessageId>,
    /// Receives without a sent message, and whether their data is noncontiguous.
    wanted: VecDeque<(Party, bool)>,
    /// Operations that wait for a message to arrive, without receiving it.
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
    /// Its receiver, once known.
    pub(super) receiver: Option<Party>,
    pub(super) transport: Transport,
    /// The protocol, if it is large.
    protocol: Protocol,
    /// True for the first large message between its two processes.
    contact: bool,
    /// True if its current leg has arrived.
    there: bool,
    /// True if the library has seen that arrival: it looks when it is called to wait or to test, not when an operation is only begun.
    seen: bool,
}

/// The transport of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Transport {
    /// Sent at once.
    Eager,
    /// By the library's protocol; this leg of it is in flight.
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
    /// Creates a request to a process that answers it.
    pub(super) fn request(
        from: ProcessId,
        to: ProcessId,
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

    /// True if it is possible between this many processes, with this many channels.
    pub(super) fn is_sound(&self, processes: usize, channels: usize) -> bool {
        let leg = match self.transport {
            Transport::Protocol(leg) => leg < self.protocol.legs(self.contact).len(),
            Transport::Eager | Transport::Access { .. } => true,
        };
        let channel = self.channel.is_none_or(|it| (it as usize) < channels);
        (self.from as usize) < processes && (self.to as usize) < processes && channel && leg
    }

    /// Returns the most bytes of one of its legs, without the library's own.
    pub(super) fn most_bytes(&self) -> u64 {
        match self.transport {
            Transport::Access { received, .. } => self.bytes.max(received),
            Transport::Eager | Transport::Protocol(_) => self.bytes,
        }
    }
}

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// Sends a message on a channel; `party` is notified when the send is complete.
    pub(super) fn send(
        &mut self,
        now: u64,
        channel: ChannelId,
        party: Party,
        bytes: u64,
        mode: SendMode,
        pieces: bool,
    ) {
        let message = self.on_channel(channel, party, bytes, mode, pieces);
        self.post(now, message);
        self.sent(now, channel, message);
    }

    /// Creates a message on a channel, which has not left.
    pub(super) fn on_channel(
        &mut self,
        channel: ChannelId,
        party: Party,
        bytes: u64,
        mode: SendMode,
        pieces: bool,
    ) -> MessageId {
        let of = self.program.channels[channel as usize];
        self.messages.insert(MpiMessage {
            from: of.from,
            to: of.to,
            channel: Some(channel),
            bytes,
            sender: party,
            receiver: None,
            transport: self.transport(of.from, of.to, bytes, mode),
            protocol: self.protocol(of.from, of.to, pieces),
            contact: false,
            there: false,
            seen: false,
        })
    }

    /// Adds a message to its channel.
    pub(super) fn sent(&mut self, now: u64, channel: ChannelId, message: MessageId) {
        let own = &mut self.channels[channel as usize];
        match own.wanted.pop_front() {
            Some(wanted) => self.wanted_by(now, message, wanted.0, wanted.1),
            None => own.sent.push_back(message),
        }
    }

    /// Returns the medium of messages between two processes.
    pub(super) fn medium(&self, from: ProcessId, to: ProcessId) -> Medium {
        match self.hosts[from as usize] == self.hosts[to as usize] {
            true => Medium::Memory,
            false => Medium::Network,
        }
    }

    /// Returns the protocol of a large message. Noncontiguous data cannot be written into or read from the other's memory.
    fn protocol(&self, from: ProcessId, to: ProcessId, pieces: bool) -> Protocol {
        match (pieces, self.medium(from, to)) {
            (true, _) => Protocol::Send,
            (false, Medium::Memory) => Protocol::Get,
            (false, Medium::Network) => self.spans.costs.protocol,
        }
    }

    fn transport(&self, from: ProcessId, to: ProcessId, bytes: u64, mode: SendMode) -> Transport {
        let large = self.spans.is_large(from, self.medium(from, to), bytes);
        match mode {
            SendMode::Synchronous => Transport::Protocol(0),
            SendMode::Standard | SendMode::Ready if large => Transport::Protocol(0),
            _ => Transport::Eager,
        }
    }

    /// Sends a message of a collective operation's step, and returns its number.
    pub(super) fn send_step(
        &mut self,
        now: u64,
        from: ProcessId,
        to: ProcessId,
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
            transport: self.transport(from, to, bytes, SendMode::Standard),
            protocol: self.protocol(from, to, false),
            contact: false,
            there: false,
            seen: false,
        };
        let number = self.messages.insert(message);
        self.post(now, number);
        number
    }

    /// Begins a message's first leg.
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

    /// Records whether a large message is the first between its two processes.
    fn first_contact(&mut self, number: MessageId) {
        let knows = self.spans.costs.contact > 0.0;
        let Some(message) = self.messages.get_mut(number).filter(|_| knows) else {
            return;
        };
        let pair = (message.from.min(message.to), message.from.max(message.to));
        let large = matches!(message.transport, Transport::Protocol(_));
        message.contact = large && self.contacts.insert(pair);
    }

    /// Begins a receive on a channel; `party` is notified when the message has arrived.
    pub(super) fn receive(&mut self, now: u64, channel: ChannelId, wanted: (Party, bool)) {
        let own = &mut self.channels[channel as usize];
        match own.sent.pop_front() {
            Some(message) => self.wanted_by(now, message, wanted.0, wanted.1),
            None => own.wanted.push_back(wanted),
        }
    }

    /// True if a message without a begun receive has arrived.
    pub(super) fn is_there(&self, channel: ChannelId) -> bool {
        let first = self.channels[channel as usize].sent.front();
        let message = first.and_then(|message| self.messages.get(*message));
        message.is_some_and(|message| message.there)
    }

    /// Completes an operation when a message without a begun receive has arrived.
    pub(super) fn look_for(&mut self, channel: ChannelId, operation: OperationId) {
        self.channels[channel as usize].looking.push(operation);
    }

    /// Sets the receiver of a message, and whether its data is noncontiguous.
    pub(super) fn wanted_by(&mut self, now: u64, number: MessageId, party: Party, pieces: bool) {
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
}
