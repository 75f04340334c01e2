//! The hosts' TCP: messages become frames, and frames messages.
//!
//! All messages of a stream share a connection and arrive in order of sending. A host makes frames one after the other: first those that an acknowledgement releases, in
//! its kernel, then those of its processes, one message after the other. A receiving host takes frames in one after the other;
//! frames that find its card full are lost. Acknowledgements of messages of several segments are frames of their own. Frames to be carried are left in `outbox`. Losses are found and
//! repaired as Linux does it (`sender`, `rtt`, `congestion`). Called by networks of frames.

/// The congestion window.
mod congestion;
/// Connections between hosts.
mod connection;
/// Contents of frames.
mod mark;
/// The receiving end of a connection.
mod receiver;
/// Round trips and timers.
mod rtt;
/// The sending end of a connection.
mod sender;
/// The state of all hosts, as plain values.
mod state;

use std::collections::VecDeque;

use belljar_fabric::{Frame, Routes, RoutingError, Topology};
use belljar_sim::{Calendar, Span, Time, Timed};
use serde::{Deserialize, Serialize};

use crate::loggops::within;
use crate::network::{Arrival, Message, Paces};
use crate::way::Ways;
use connection::Connection;
use mark::{Mark, mark_of, marked};
use receiver::{Acknowledgement, Reply};
use rtt::expiry;
use sender::Leaving;
pub(crate) use state::{MOST_COUNTED, TransportState};

/// Frames that wait for a host, at most: the driver's ring of 256 buffers and as many in the card.
const MOST_ARRIVING: usize = 512;

/// The longest time until a segment is acknowledged (`TCP_DELACK_MIN` of Linux).
const DELAYED: Span = Span::from_ms(40);

/// A host's sending and receiving.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Host {
    /// When it can make the next frame.
    free: Time,
    /// An event for its next frame is scheduled.
    busy: bool,
    /// Frames that it sent.
    frames: u64,
    /// Connections that an acknowledgement lets send, in turn.
    urgent: VecDeque<u32>,
    /// Connections that a process lets send, in turn.
    usual: VecDeque<u32>,
    /// When the frames that came will have been taken in.
    arriving: VecDeque<Time>,
    /// When the last frame that came is taken in.
    taken: Time,
    /// Frames that found no room in the card.
    dropped: u64,
}

/// An event at a host. At one time, events have the order of these variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Event {
    /// A sender learns of an acknowledgement.
    Acknowledged(u32, Acknowledgement),
    /// A host has taken in a segment.
    Taken(u32, Leaving),
    /// A segment comes to its host.
    Comes(u32, Leaving),
    /// A receiver acknowledges late.
    Delayed(u32),
    /// A sender looks at its timer.
    Expire(u32),
    /// A host's next frame leaves.
    Leave(u32),
}

/// An event with its time and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due((Time, Event, u64));

impl Timed for Due {
    fn time(&self) -> Time {
        self.0.0
    }
}

/// A frame that a host sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Time of sending.
    pub time: Time,
    /// The host.
    pub host: u32,
    /// Number of the frame among the host's.
    pub sequence: u64,
    /// The frame.
    pub frame: Frame,
}

/// The sending and receiving of all hosts of a network.
pub(crate) struct Transport {
    topology: Topology,
    paces: Paces,
    ways: Ways,
    state: TransportState,
    /// Messages that are not whole.
    under_way: usize,
    /// Events to come, numbered so that those of one time are all kept.
    events: Calendar<Due>,
    /// Frames to be carried, in the order of sending.
    pub(crate) outbox: Vec<Sent>,
}

impl Transport {
    /// The hosts of a topology whose frames are routed so.
    ///
    /// # Errors
    /// When the routing does not fit the topology.
    pub(crate) fn new(
        topology: Topology,
        routes: &Routes,
        paces: Paces,
    ) -> Result<Self, RoutingError> {
        Ok(Self {
            ways: Ways::new(&topology, routes)?,
            paces,
            state: TransportState::of_hosts(topology.hosts()),
            under_way: 0,
            events: Calendar::default(),
            topology,
            outbox: Vec::new(),
        })
    }

    /// All that changes.
    pub(crate) fn save(&self) -> TransportState {
        let mut events: Vec<_> = self.events.iter().map(|due| due.0).collect();
        events.sort_unstable();
        TransportState {
            events,
            ..self.state.clone()
        }
    }

    /// Continues from `state`; true if that can be a state of these hosts.
    pub(crate) fn restore(&mut self, state: TransportState) -> bool {
        let sound = state.is_sound(self.topology.hosts());
        if sound {
            self.state = state;
            self.under_way = self.state.connections.under_way();
            let events = std::mem::take(&mut self.state.events);
            self.events = Calendar::default();
            events
                .into_iter()
                .for_each(|due| self.events.push(Due(due)));
        }
        sound
    }

    /// True if no message is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.under_way == 0
    }

    /// Frames that found no room in each host's card.
    pub(crate) fn dropped(&self) -> impl Iterator<Item = u64> + '_ {
        self.state.hosts.iter().map(|host| host.dropped)
    }

    /// A message begins to leave its host; the time of its arrival, if it goes over no wire.
    pub(crate) fn send(&mut self, time: Time, message: Message) -> Option<Time> {
        let Message {
            id,
            from,
            to,
            bytes,
            stream,
        } = message;
        if from == to {
            return Some(time + within(self.paces.of(from), bytes));
        }
        let number = self.connection(from, to, stream);
        if let Some(connection) = self.state.connections.get_mut(number) {
            let end = connection.sender.push(bytes);
            connection.receiver.expect(id, end);
            self.under_way += 1;
            self.line_up(time, number, false);
        }
        None
    }

    /// The number of a connection. One that is new has seen the round trip of its handshake.
    fn connection(&mut self, from: u32, to: u32, stream: u64) -> u32 {
        let before = self.state.connections.len();
        let number = self.state.connections.number(from, to, stream);
        if number == before
            && let Some(connection) = self.state.connections.get_mut(number)
        {
            let there = self.ways.between(&self.topology, from, to).empty();
            let back = self.ways.between(&self.topology, to, from).empty();
            connection.sender.shook_hands(there + back);
        }
        number
    }

    /// The time of the hosts' next event.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.events.first().map(Timed::time)
    }

    /// Lets the hosts' events until `now` happen; messages that are whole with them are added to `arrived`.
    pub(crate) fn advance(&mut self, now: Time, arrived: &mut Vec<Arrival>) {
        while self.next_time().is_some_and(|time| time <= now) {
            if let Some(Due((_, event, _))) = self.events.pop() {
                self.happen(now, event, arrived);
            }
        }
    }

    fn schedule(&mut self, time: Time, event: Event) {
        self.events.push(Due((time, event, self.state.scheduled)));
        self.state.scheduled += 1;
    }

    fn happen(&mut self, now: Time, event: Event, arrived: &mut Vec<Arrival>) {
        match event {
            Event::Acknowledged(number, acknowledgement) => {
                if let Some(connection) = self.state.connections.get_mut(number) {
                    connection.sender.acknowledge(now, acknowledgement);
                    self.line_up(now, number, true);
                }
            }
            Event::Comes(number, segment) => self.take_in(now, number, segment, arrived),
            Event::Taken(number, segment) => self.taken(now, number, segment, arrived),
            Event::Delayed(number) => {
                if let Some(connection) = self.state.connections.get_mut(number) {
                    connection.delayed = false;
                    if connection.receiver.owes() {
                        self.acknowledge(now, number, u64::MAX);
                    }
                }
            }
            Event::Expire(number) => self.expire(now, number),
            Event::Leave(host) => self.leave(now, host),
        }
    }

    /// Queues a connection that may send from `time` on; an `urgent` one precedes those of processes.
    fn line_up(&mut self, time: Time, number: u32, urgent: bool) {
        self.watch(number);
        let Some(connection) = self.state.connections.get_mut(number) else {
            return;
        };
        if connection.queued || !connection.sender.may_send() {
            return;
        }
        connection.queued = true;
        let from = connection.from;
        let host = &mut self.state.hosts[from as usize];
        match urgent {
            true => host.urgent.push_back(number),
            false => host.usual.push_back(number),
        }
        if !std::mem::replace(&mut host.busy, true) {
            let at = time.max(host.free);
            self.schedule(at, Event::Leave(from));
        }
    }

    /// A host's next frame leaves.
    fn leave(&mut self, now: Time, from: u32) {
        self.state.hosts[from as usize].busy = false;
        while let Some((number, urgent)) = self.state.hosts[from as usize].pop() {
            let Some(connection) = self.state.connections.get_mut(number) else {
                continue;
            };
            connection.queued = false;
            let Some(leaving) = connection.sender.take(now) else {
                continue;
            };
            let to = connection.to;
            let more = connection.sender.may_send();
            let continues = more && connection.sender.continues();
            connection.queued = more;
            self.segment(now, from, to, number, leaving);
            self.watch(number);
            let pace = self.paces.of(from).sends;
            let host = &mut self.state.hosts[from as usize];
            if continues {
                // The work for a message's first frame is part of the call that sends it.
                host.free = now + pace;
            }
            match (more, urgent) {
                (true, true) => host.urgent.push_front(number),
                (true, false) => host.usual.push_front(number),
                (false, _) => {}
            }
            break;
        }
        let host = &mut self.state.hosts[from as usize];
        if !host.urgent.is_empty() || !host.usual.is_empty() {
            host.busy = true;
            let at = host.free.max(now);
            self.schedule(at, Event::Leave(from));
        }
    }

    fn segment(&mut self, now: Time, from: u32, to: u32, connection: u32, leaving: Leaving) {
        let mark = Mark::Segment(connection, leaving);
        self.put(now, from, marked(from, to, mark, leaving.data));
    }

    fn put(&mut self, now: Time, from: u32, frame: Frame) {
        let host = &mut self.state.hosts[from as usize];
        self.outbox.push(Sent {
            time: now,
            host: from,
            sequence: host.frames,
            frame,
        });
        host.frames += 1;
    }

    /// Sees that an event comes when a sender's timer expires.
    fn watch(&mut self, number: u32) {
        let Some(connection) = self.state.connections.get_mut(number) else {
            return;
        };
        if let Some(due) = connection.sender.due()
            && connection.alarm.is_none_or(|alarm| due < alarm)
        {
            connection.alarm = Some(due);
            self.schedule(due, Event::Expire(number));
        }
    }

    /// A sender's timer has expired, if it was not set anew since.
    fn expire(&mut self, now: Time, number: u32) {
        let Some(connection) = self.state.connections.get_mut(number) else {
            return;
        };
        if connection.alarm.is_some_and(|alarm| alarm <= now) {
            connection.alarm = None;
        }
        if connection.sender.due().is_some_and(|due| due <= now) {
            connection.sender.expire(now);
        }
        self.line_up(now, number, true);
    }

    /// A host receives a frame at `at`, which is not over.
    pub(crate) fn came(&mut self, at: Time, to: u32, frame: &Frame) {
        let (number, event, is_segment) = match mark_of(frame.head()) {
            Some(Mark::Acknowledgement(number, acknowledgement)) => {
                (number, Event::Acknowledged(number, acknowledgement), false)
            }
            Some(Mark::Segment(number, segment)) => (number, Event::Comes(number, segment), true),
            None => return,
        };
        let of = self.state.connections.get_mut(number);
        let host = of.map(|of| if is_segment { of.to } else { of.from });
        // A frame that was restored may be for another host, or of no connection.
        if host == Some(to) {
            self.schedule(at, event);
        }
    }

    /// A segment has come to its host.
    fn take_in(&mut self, now: Time, number: u32, segment: Leaving, arrived: &mut Vec<Arrival>) {
        let Some(of) = self.state.connections.get_mut(number) else {
            return;
        };
        if segment.number >= of.sender.sent() {
            return;
        }
        let work = match segment.first {
            true => Span::ZERO,
            false => self.paces.of(of.to).receives,
        };
        let Some(taken) = self.state.hosts[of.to as usize].take_in(now, work) else {
            return;
        };
        of.arriving += 1;
        match taken > now {
            true => self.schedule(taken, Event::Taken(number, segment)),
            false => self.taken(now, number, segment, arrived),
        }
    }

    /// A host has taken in a segment.
    fn taken(&mut self, now: Time, number: u32, segment: Leaving, arrived: &mut Vec<Arrival>) {
        let Some(of) = self.state.connections.get_mut(number) else {
            return;
        };
        if segment.number >= of.sender.sent() {
            return;
        }
        of.arriving = of.arriving.saturating_sub(1);
        let reply = of.receiver.take(segment.number);
        while let Some(id) = of.receiver.whole() {
            self.under_way = self.under_way.saturating_sub(1);
            arrived.push(Arrival { time: now, id });
        }
        self.reply(now, number, segment, reply);
    }

    /// A receiver acknowledges a segment that it has taken in, or not yet.
    fn reply(&mut self, now: Time, number: u32, segment: Leaving, reply: Reply) {
        let Some(of) = self.state.connections.get_mut(number) else {
            return;
        };
        let (from, to) = (of.from, of.to);
        match reply {
            // The next segment of the batch has come.
            Reply::Batch if of.arriving > 0 => {}
            Reply::Batch if segment.first && segment.last => {
                // Its acknowledgement travels in a frame of other data.
                let acknowledgement = of.receiver.acknowledge(segment.number);
                let back = self.ways.between(&self.topology, to, from).empty();
                let event = Event::Acknowledged(number, acknowledgement);
                self.schedule(now + back, event);
            }
            Reply::Now | Reply::Batch => self.acknowledge(now, number, segment.number),
            Reply::Later => {
                if !std::mem::replace(&mut of.delayed, true) {
                    self.schedule(expiry(now, DELAYED), Event::Delayed(number));
                }
            }
        }
    }

    /// A receiver sends an acknowledgement, with the block of `segment`.
    fn acknowledge(&mut self, now: Time, number: u32, segment: u64) {
        let Some(of) = self.state.connections.get_mut(number) else {
            return;
        };
        let Connection { from, to, .. } = *of;
        let acknowledgement = of.receiver.acknowledge(segment);
        let mark = Mark::Acknowledgement(number, acknowledgement);
        self.put(now, to, marked(to, from, mark, 0));
    }
}

impl Host {
    /// The connection that sends next, and whether an acknowledgement lets it.
    fn pop(&mut self) -> Option<(u32, bool)> {
        let urgent = self.urgent.pop_front().map(|number| (number, true));
        urgent.or_else(|| Some((self.usual.pop_front()?, false)))
    }

    /// A frame comes at `at`, which takes so much work: the time when it is taken in, unless there is no room for it.
    fn take_in(&mut self, at: Time, work: Span) -> Option<Time> {
        while self.arriving.front().is_some_and(|taken| *taken <= at) {
            self.arriving.pop_front();
        }
        if self.arriving.len() >= MOST_ARRIVING {
            self.dropped += 1;
            return None;
        }
        self.taken = self.taken.max(at) + work;
        if self.taken > at {
            self.arriving.push_back(self.taken);
        }
        Some(self.taken)
    }
}

#[cfg(test)]
mod tests;
