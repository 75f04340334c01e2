//! Messages, from the call that sends one to the call that has it.
//!
//! A message is a *letter* here: it may need several messages of the network, its legs. A small one has one leg, and its sender is done when it has handed
//! it over. A large one goes as its library's protocol says: the first leg asks, and no leg is answered before the process that it came to is in MPI; the first
//! not before somebody wants the message. Of a channel the `n`th letter goes to the `n`th receive. Called by threads, by steps of collective operations,
//! and when something arrives.

use std::collections::VecDeque;

use belljar_networks::Message;
use belljar_program::{ChannelId, Mode, ProcessId};
use belljar_sim::Time;

use super::{Deferred, Engine, Happening, LetterId, OperationId, Party};
use crate::costs::{Leg, Protocol};

/// Messages between two processes that do not overtake each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// Letters that no receive has been begun for.
    pub(super) sent: VecDeque<LetterId>,
    /// Receives that no letter has been sent for, and whether their data lies in pieces.
    wanted: VecDeque<(Party, bool)>,
    /// Operations that wait for a letter to be there, without receiving it.
    looking: Vec<OperationId>,
}

/// A message from one process to another.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) from: ProcessId,
    pub(super) to: ProcessId,
    /// Its channel, if it is the program's own message.
    channel: Option<ChannelId>,
    pub(super) bytes: u64,
    sender: Party,
    /// Whose it is, once somebody wants it.
    pub(super) receiver: Option<Party>,
    way: Way,
    /// By which protocol it goes, if it is large.
    protocol: Protocol,
    /// Whether its present leg has arrived.
    pub(super) there: bool,
}

/// How a letter goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// At once.
    Eager,
    /// By the library's protocol; this leg of it is under way.
    Protocol(usize),
    /// To another process's memory, and back with so many bytes: whether it is on the way back.
    Access { back: bool, received: u64 },
}

impl Engine<'_, '_> {
    /// A call sends a message on a channel; `party` is told when the sender is done.
    pub(super) fn send(
        &mut self,
        now: u64,
        channel: ChannelId,
        party: Party,
        (bytes, mode, pieces): (u64, Mode, bool),
    ) {
        let of = self.program.channels[channel as usize];
        let letter = Letter {
            from: of.from,
            to: of.to,
            channel: Some(channel),
            bytes,
            sender: party,
            receiver: None,
            way: self.way(bytes, mode),
            protocol: self.protocol(pieces),
            there: false,
        };
        let letter = self.post(now, letter);
        let own = &mut self.channels[channel as usize];
        match own.wanted.pop_front() {
            Some(wanted) => self.wanted_by(now, letter, wanted),
            None => own.sent.push_back(letter),
        }
    }

    /// The protocol of a large message. What lies in pieces cannot be written into the other's memory.
    fn protocol(&self, pieces: bool) -> Protocol {
        match pieces {
            true => Protocol::Send,
            false => self.spans.costs.protocol,
        }
    }

    fn way(&self, bytes: u64, mode: Mode) -> Way {
        let large = bytes >= self.spans.costs.rendezvous;
        match mode {
            Mode::Synchronous => Way::Protocol(0),
            Mode::Standard | Mode::Ready if large => Way::Protocol(0),
            _ => Way::Eager,
        }
    }

    /// A step of a collective operation sends a message; the letter's number.
    pub(super) fn send_step(
        &mut self,
        now: u64,
        (from, to): (ProcessId, ProcessId),
        bytes: u64,
        party: Party,
    ) -> LetterId {
        let letter = Letter {
            from,
            to,
            channel: None,
            bytes,
            sender: party,
            receiver: None,
            way: self.way(bytes, Mode::Standard),
            protocol: self.protocol(false),
            there: false,
        };
        self.post(now, letter)
    }

    /// A letter's first leg begins.
    fn post(&mut self, now: u64, letter: Letter) -> LetterId {
        let (from, way, bytes, sender) = (letter.from, letter.way, letter.bytes, letter.sender);
        let number = self.letters.insert(letter);
        let begins = self.free(from, now);
        match way {
            Way::Eager => {
                self.happens(begins + self.spans.first(), Happening::Leaves(number));
                let done = self.work(from, now, self.spans.send(bytes));
                self.end(done, sender, 0);
            }
            Way::Protocol(_) | Way::Access { .. } => {
                let leaves = self.work(from, now, self.spans.first());
                self.happens(leaves, Happening::Leaves(number));
            }
        }
        number
    }

    /// An access to the memory of the process at the channel's end begins.
    pub(super) fn access(
        &mut self,
        now: u64,
        channel: ChannelId,
        party: Party,
        (sent, received): (u64, u64),
    ) {
        let of = self.program.channels[channel as usize];
        let back = false;
        let letter = Letter {
            from: of.from,
            to: of.to,
            channel: None,
            bytes: sent,
            sender: party,
            receiver: Some(Party::Nobody),
            way: Way::Access { back, received },
            protocol: self.protocol(false),
            there: false,
        };
        self.post(now, letter);
    }

    /// A call begins to receive from a channel; `party` is told when the message is there.
    pub(super) fn receive(&mut self, now: u64, channel: ChannelId, wanted: (Party, bool)) {
        let own = &mut self.channels[channel as usize];
        match own.sent.pop_front() {
            Some(letter) => self.wanted_by(now, letter, wanted),
            None => own.wanted.push_back(wanted),
        }
    }

    /// Whether a letter has come that nobody has begun to receive.
    pub(super) fn is_there(&self, channel: ChannelId) -> bool {
        let first = self.channels[channel as usize].sent.front();
        let letter = first.and_then(|letter| self.letters.get(*letter));
        letter.is_some_and(|letter| letter.there)
    }

    /// An operation is over when a letter has come that nobody has begun to receive.
    pub(super) fn look_for(&mut self, channel: ChannelId, operation: OperationId) {
        self.channels[channel as usize].looking.push(operation);
    }

    /// It is known whose a letter is, and whether its data is to lie in pieces.
    pub(super) fn wanted_by(&mut self, now: u64, number: LetterId, (party, pieces): (Party, bool)) {
        let Some(letter) = self.letters.get_mut(number) else {
            return;
        };
        letter.receiver = Some(party);
        if pieces {
            letter.protocol = Protocol::Send;
        }
        if letter.there {
            self.arrived(now, number);
        }
    }

    /// A leg leaves its host.
    pub(super) fn leaves(&mut self, now: u64, number: LetterId) {
        let Some(letter) = self.letters.get(number) else {
            return;
        };
        let header = self.spans.costs.header;
        let (onward, bytes) = match letter.way {
            Way::Eager => (true, letter.bytes + header),
            Way::Protocol(leg) => {
                let Leg { onward, data } = letter.protocol.leg(leg);
                (onward, if data { letter.bytes + header } else { header })
            }
            Way::Access { back, received } => match back {
                false => (true, letter.bytes + header),
                true => (false, received + header),
            },
        };
        let (from, to) = match onward {
            true => (letter.from, letter.to),
            false => (letter.to, letter.from),
        };
        let message = Message {
            id: number,
            from: self.hosts[from as usize],
            to: self.hosts[to as usize],
            bytes,
        };
        if let Some(time) = self.network.send(Time::from_ps(now), message) {
            self.happens(time.as_ps(), Happening::Arrives(number));
        }
    }

    /// A leg arrives.
    pub(super) fn arrives(&mut self, now: u64, number: LetterId) {
        let Some(letter) = self.letters.get_mut(number) else {
            return;
        };
        letter.there = true;
        let first = matches!(letter.way, Way::Eager | Way::Protocol(0));
        if let Some(channel) = letter.channel.filter(|_| first) {
            for operation in std::mem::take(&mut self.channels[channel as usize].looking) {
                self.operation_over(now, operation, self.spans.begin());
            }
        }
        self.arrived(now, number);
    }

    /// A leg has arrived, and perhaps it is known who wants the letter.
    fn arrived(&mut self, now: u64, number: LetterId) {
        let Some(letter) = self.letters.get(number) else {
            return;
        };
        let Some(receiver) = letter.receiver else {
            return;
        };
        if letter.way == Way::Eager {
            let bytes = letter.bytes;
            self.letters.remove(number);
            return self.end(now, receiver, self.spans.receive(bytes));
        }
        let process = self.present(number);
        match self.is_in_mpi(process, now) {
            true => self.answer(now, number),
            false => {
                let deferred = &mut self.processes[process as usize].deferred;
                deferred.push_back(Deferred::Answer(number));
            }
        }
    }

    /// The process that a letter's present leg comes to.
    fn present(&self, number: LetterId) -> ProcessId {
        let Some(letter) = self.letters.get(number) else {
            return 0;
        };
        let onward = match letter.way {
            Way::Eager => true,
            Way::Protocol(leg) => letter.protocol.leg(leg).onward,
            Way::Access { back, .. } => !back,
        };
        if onward { letter.to } else { letter.from }
    }

    /// The process that a leg came to answers it, being in MPI.
    pub(super) fn answer(&mut self, now: u64, number: LetterId) {
        let process = self.present(number);
        let Some(letter) = self.letters.get(number) else {
            return;
        };
        let (way, sender, receiver) = (letter.way, letter.sender, letter.receiver);
        let (bytes, protocol) = (letter.bytes, letter.protocol);
        match way {
            Way::Eager => {}
            Way::Access { back: true, .. } => {
                self.letters.remove(number);
                self.end(now, sender, self.spans.control());
            }
            Way::Access { received, .. } => {
                let back = true;
                self.next(now, number, Way::Access { back, received }, process);
            }
            Way::Protocol(leg) => {
                if protocol.sender_done() == Some(leg) {
                    self.end(now, sender, self.spans.control());
                }
                if leg + 1 < protocol.legs().len() {
                    return self.next(now, number, Way::Protocol(leg + 1), process);
                }
                self.letters.remove(number);
                if let Some(receiver) = receiver {
                    self.end(now, receiver, self.spans.receive(bytes));
                }
            }
        }
    }

    /// A letter's next leg begins, from this process.
    fn next(&mut self, now: u64, number: LetterId, way: Way, process: ProcessId) {
        let Some(letter) = self.letters.get_mut(number) else {
            return;
        };
        letter.way = way;
        letter.there = false;
        let (bytes, sender, protocol) = (letter.bytes, letter.sender, letter.protocol);
        let data = matches!(way, Way::Protocol(leg) if protocol.leg(leg).data);
        let leaves = self.work(process, now, self.spans.control());
        self.happens(leaves, Happening::Leaves(number));
        if data {
            let further = self.spans.send(bytes) - self.spans.first().min(self.spans.send(bytes));
            let done = self.work(process, now, further);
            if protocol.sender_done().is_none() {
                self.end(done, sender, 0);
            }
        }
    }
}
