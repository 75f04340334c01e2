//! The legs of a message: from its departure, over the network, to the buffer of its receiver.
//!
//! The protocol of a message determines its legs; each ends at a time that the network model or a process determines. Called by the engine for its events.

use belljar_networks::{Message, Network};
use belljar_program::ProcessId;
use belljar_sim::Time;

use super::super::{Deferred, Engine, Event, MessageId, Party};
use super::Transport;
use crate::costs::{Leg, Medium, Protocol};

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// Handles the departure of a leg from its host.
    pub(in super::super) fn leaves(&mut self, now: u64, number: MessageId) {
        let Some(message) = self.messages.get(number) else {
            return;
        };
        let header = self.spans.costs.header;
        let mut is_by_card = false;
        let (onward, bytes) = match message.transport {
            Transport::Eager => (true, message.bytes.saturating_add(header)),
            Transport::Protocol(leg) => {
                let leg = message.protocol.leg(leg, message.contact);
                let Leg { onward, data, .. } = leg;
                is_by_card = leg.by_card;
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
        let time = Time::from_ps(now);
        let known = match is_by_card {
            true => self.network.answer(time, message),
            false => self.network.send(time, message),
        };
        if let Some(time) = known {
            self.schedule_event(time.as_ps(), Event::Arrives(number));
        }
    }

    /// Handles the arrival of a leg.
    pub(in super::super) fn arrives(&mut self, now: u64, number: MessageId) {
        let Some(message) = self.messages.get_mut(number) else {
            return;
        };
        if let Transport::Protocol(leg) = message.transport
            && message.protocol.is_by_card(leg + 1)
        {
            message.transport = Transport::Protocol(leg + 1);
            return self.leaves(now, number);
        }
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

    /// Handles the library's discovery of an arrived leg.
    pub(in super::super) fn see(&mut self, now: u64, number: MessageId) {
        if let Some(message) = self.messages.get_mut(number) {
            message.seen = true;
            self.arrived(now, number);
        }
    }

    /// Handles a leg that has arrived and has been seen, possibly before its receiver is known.
    pub(super) fn arrived(&mut self, now: u64, number: MessageId) {
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

    /// Returns the process at which a message's current leg arrives.
    pub(super) fn present(&self, number: MessageId) -> ProcessId {
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

    /// Answers a leg in the receiving process, which is in MPI.
    pub(super) fn answer(&mut self, now: u64, number: MessageId) {
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
            } => self.answer_request(now, number, back, received, request),
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

    /// Begins the next leg of a protocol, from this process.
    pub(super) fn next(
        &mut self,
        now: u64,
        number: MessageId,
        transport: Transport,
        process: ProcessId,
    ) {
        let Some(message) = self.messages.get(number) else {
            return;
        };
        let (bytes, sender, protocol) = (message.bytes, message.sender, message.protocol);
        let contact = message.contact;
        let medium = self.medium(message.from, message.to);
        if protocol == Protocol::Get {
            return self.copied(now, number, process);
        }
        if protocol == Protocol::Read && transport == Transport::Protocol(3) {
            return self.has_read(now, number, process);
        }
        let data = matches!(transport, Transport::Protocol(leg) if protocol.leg(leg, contact).data);
        let more = match transport {
            Transport::Protocol(1) if contact => self.spans.contact(process),
            _ => 0,
        };
        let work = self.spans.control(process, medium).saturating_add(more);
        self.next_leg(now, number, transport, process, work);
        if data {
            let all = self.spans.send(process, medium, bytes);
            let further = all.saturating_sub(self.spans.first(process, medium, 0));
            let done = self.work(process, now, further);
            if protocol.sender_done(contact).is_none() {
                self.end(done, sender, 0);
            }
        }
    }

    /// Lets the receiver copy a message's data from the sender's memory, complete, and acknowledge it.
    pub(super) fn copied(&mut self, now: u64, number: MessageId, process: ProcessId) {
        let Some(message) = self.messages.get_mut(number) else {
            return;
        };
        let bytes = message.bytes;
        let receiver = message.receiver.replace(Party::Nobody);
        let work = self.spans.get(process, bytes);
        self.next_leg(now, number, Transport::Protocol(1), process, work);
        // The process copies until later, so its next work begins after the copy.
        if let Some(receiver) = receiver {
            self.end(now, receiver, 0);
        }
    }

    /// The receiver has read a message's data: it tells the sender, and is complete.
    fn has_read(&mut self, now: u64, number: MessageId, process: ProcessId) {
        let Some(message) = self.messages.get_mut(number) else {
            return;
        };
        let receiver = message.receiver.replace(Party::Nobody);
        let work = self.spans.control(process, Medium::Network);
        self.next_leg(now, number, Transport::Protocol(3), process, work);
        if let Some(receiver) = receiver {
            self.end(now, receiver, 0);
        }
    }

    /// Schedules a message's next leg after this much work of its process.
    pub(in super::super) fn next_leg(
        &mut self,
        now: u64,
        number: MessageId,
        transport: Transport,
        process: ProcessId,
        work: u64,
    ) {
        if let Some(message) = self.messages.get_mut(number) {
            message.transport = transport;
            (message.there, message.seen) = (false, false);
            let leaves = self.work(process, now, work);
            self.schedule_event(leaves, Event::Leaves(number));
        }
    }
}
