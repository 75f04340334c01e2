//! What hosts do so that messages become frames and frames messages: TCP, as far as it matters for time.
//!
//! A message goes as full frames and a rest, and has arrived when its receiver has taken in all. A host makes a frame of each of its messages in turn, as
//! many of those to one receiver as its window lets it (`connection`). Acknowledgements of messages of several frames are frames, too, and wait in line with all
//! that their hosts send; those of small ones come back with other frames. What is lost on the way is sent again: at once when a later frame of the message (a third one, where frames may overtake one another) tells
//! the receiver, which takes a round trip, else after a time (RFC 6298), then after twice as long, and so on. What is to be sent is left in a list: whoever has the frames carried takes it from there. Called by networks of frames.

/// How much may be under way from one host to another.
mod connection;
/// What frames say of themselves.
mod mark;
/// The state of all hosts, as plain values.
mod state;
/// Messages on their way.
mod transits;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use belljar_fabric::{Frame, Mac, Routes, RoutingError, Topology};
use belljar_sim::{Calendar, Span, Time, Timed};
use serde::{Deserialize, Serialize};

use crate::loggops::within;
use crate::network::{Arrival, Message, Paces, SEGMENT, frames_of};
use crate::way::Ways;
use mark::{ACKNOWLEDGEMENT, mark_of, marked};
pub(crate) use state::{MOST_COUNTED, TransportState};

/// How long a sender waits for what nobody tells it is lost: Linux's least.
const TIMEOUT: Span = Span::from_ms(200);

/// After how many later frames TCP takes one for lost, where frames may overtake one another (RFC 5681, 3.2).
const OVERTAKEN: u64 = 3;

/// The sending host and the receiving one.
type Pair = (u32, u32);

/// Frames of a message that are to be sent.
type Turn = (u64, Range<u64>);

/// What a sending host does.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Sender {
    /// When it can make the next frame.
    free: Time,
    /// Frames that it sent.
    frames: u64,
    /// What is to be sent, in turn.
    turns: VecDeque<Turn>,
}

/// A message on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Transit {
    message: Message,
    /// Frames that were sent.
    sent: u64,
    /// Frames that the receiver knows of: all up to the last that came.
    known: u64,
    /// Those of them that did not come, and how many later ones have.
    missing: BTreeMap<u64, u64>,
    /// When one was sent or came last.
    heard: Time,
    /// For how long nothing may be heard.
    patience: Span,
}

impl Transit {
    /// Frame `index` has come. Those that are lost, as so many later ones came.
    fn take(&mut self, index: u64, overtaken: u64) -> Vec<u64> {
        if index < self.known {
            self.missing.remove(&index);
        } else {
            let passed = self.known..index;
            self.missing.extend(passed.map(|index| (index, 0)));
            self.known = index + 1;
        }
        let mut lost = Vec::new();
        for (earlier, later) in self.missing.range_mut(..index) {
            *later += 1;
            if *later == overtaken {
                lost.push(*earlier);
            }
        }
        lost
    }
}

/// What happens at a host, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Happening {
    /// A sender is told how many frames have come.
    Told(Pair, u64),
    /// A receiver acknowledges so many frames.
    Acknowledges(Pair, u64),
    /// It is told that this frame of a message was lost.
    Lost(u64, u64),
    /// It looks whether all of a message has come.
    Looks(u64),
    /// It can make its next frame.
    Makes(u32),
}

/// What happens when, with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due((Time, Happening, u64));

impl Timed for Due {
    fn time(&self) -> Time {
        self.0.0
    }
}

/// A frame that a host sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub time: Time,
    /// The host.
    pub host: u32,
    /// Counts the host's frames.
    pub sequence: u64,
    /// What.
    pub frame: Frame,
}

/// The sending and receiving of all hosts of a network.
pub(crate) struct Transport {
    topology: Topology,
    paces: Paces,
    ways: Ways,
    /// After how many later frames one that did not come is taken for lost.
    overtaken: u64,
    state: TransportState,
    /// What is to happen, with a number, so that those of one time are all kept.
    happenings: Calendar<Due>,
    /// What is to be carried, in the order in which it was sent.
    pub(crate) outbox: Vec<Sent>,
}

impl Transport {
    /// Of the hosts of a topology whose frames are routed so.
    ///
    /// # Errors
    /// When the topology is none for the routing.
    pub(crate) fn new(
        topology: Topology,
        routes: &Routes,
        paces: Paces,
    ) -> Result<Self, RoutingError> {
        Ok(Self {
            ways: Ways::new(&topology, routes)?,
            overtaken: match routes.routing.looks_at_load() {
                true => OVERTAKEN,
                false => 1,
            },
            paces,
            state: TransportState::of_hosts(topology.hosts()),
            happenings: Calendar::default(),
            topology,
            outbox: Vec::new(),
        })
    }

    /// All that changes.
    pub(crate) fn save(&self) -> TransportState {
        let mut happenings: Vec<_> = self.happenings.iter().map(|due| due.0).collect();
        happenings.sort_unstable();
        TransportState {
            happenings,
            ..self.state.clone()
        }
    }

    /// Continues from `state`; if that can be one of these hosts.
    pub(crate) fn restore(&mut self, state: TransportState) -> bool {
        let sound = state.is_sound(self.topology.hosts());
        if sound {
            self.state = state;
            let happenings = std::mem::take(&mut self.state.happenings);
            self.happenings = Calendar::default();
            happenings
                .into_iter()
                .for_each(|due| self.happenings.push(Due(due)));
        }
        sound
    }

    /// Whether no message is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state.transits.is_empty()
    }

    /// A message begins to leave its host; when it will have arrived, if it goes over no wire.
    pub(crate) fn send(&mut self, time: Time, message: Message) -> Option<Time> {
        if message.from == message.to {
            return Some(time + within(self.paces.of(message.from), message.bytes));
        }
        let transit = Transit {
            message,
            sent: 0,
            known: 0,
            missing: BTreeMap::new(),
            heard: time,
            patience: TIMEOUT,
        };
        let own = self.state.transits.push(transit);
        self.happens(time + TIMEOUT, Happening::Looks(own));
        let frames = 0..frames_of(message.bytes);
        self.line_up(time, message.from, (own, frames));
        None
    }

    /// When hosts do anything next by themselves.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.happenings.first().map(Timed::time)
    }

    /// Has hosts do what they do until `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        while self.next_time().is_some_and(|time| time <= now) {
            if let Some(Due((_, happening, _))) = self.happenings.pop() {
                self.happen(now, happening);
            }
        }
    }

    fn happens(&mut self, time: Time, happening: Happening) {
        self.happenings
            .push(Due((time, happening, self.state.happened)));
        self.state.happened += 1;
    }

    /// Frames are to leave their host, from `time` on.
    fn line_up(&mut self, time: Time, host: u32, turn: Turn) {
        let Some(sender) = self.state.senders.get_mut(host as usize) else {
            return;
        };
        let rests = sender.turns.is_empty();
        let at = time.max(sender.free);
        sender.turns.push_back(turn);
        if rests {
            self.happens(at, Happening::Makes(host));
        }
    }

    /// A host makes its next frame, if it may send any.
    fn make(&mut self, now: Time, host: u32) {
        while let Some((own, mut frames)) = self.state.senders[host as usize].turns.pop_front() {
            let Some(transit) = self.state.transits.get_mut(own) else {
                continue;
            };
            let message = transit.message;
            let pair = (message.from, message.to);
            let connection = self.state.connections.of(pair);
            if !connection.may_send() {
                connection.wait((own, frames));
                continue;
            }
            let index = frames.start;
            frames.start += 1;
            transit.sent = transit.sent.max(index + 1);
            transit.heard = now;
            self.frame(now, own, message, index);
            if !frames.is_empty() {
                let sender = &mut self.state.senders[host as usize];
                // The first frame's part of the work is in what the call that sends it takes.
                sender.free = now + self.paces.of(host).sends;
                sender.turns.push_back((own, frames));
            }
            break;
        }
        let sender = &self.state.senders[host as usize];
        if !sender.turns.is_empty() {
            self.happens(sender.free.max(now), Happening::Makes(host));
        }
    }

    fn frame(&mut self, now: Time, own: u64, message: Message, index: u64) {
        let data = (message.bytes - (index * SEGMENT).min(message.bytes)).min(SEGMENT);
        let frame = marked((message.from, message.to), (own, index), now, data);
        self.put(now, message.from, frame);
    }

    fn put(&mut self, now: Time, host: u32, frame: Frame) {
        let sender = &mut self.state.senders[host as usize];
        self.outbox.push(Sent {
            time: now,
            host,
            sequence: sender.frames,
            frame,
        });
        sender.frames += 1;
    }

    /// A host receives a frame at `at`; messages that are whole with it are added to `arrived`.
    pub(crate) fn came(&mut self, at: Time, host: u32, frame: &Frame, arrived: &mut Vec<Arrival>) {
        let Some((own, index, sent)) = mark_of(frame.head()) else {
            return;
        };
        if own == ACKNOWLEDGEMENT {
            if let Some(from) = Mac::source(frame.head()).and_then(Mac::host_index) {
                self.happens(at, Happening::Told((host, from), index));
            }
            return;
        }
        let Some(free) = self.state.receivers.get_mut(host as usize) else {
            return;
        };
        let taken = match index {
            0 => at.max(*free),
            _ => at.max(*free) + self.paces.of(host).receives,
        };
        *free = taken;
        let Some(transit) = self.state.transits.get_mut(own) else {
            return;
        };
        let pair = (transit.message.from, transit.message.to);
        if index >= frames_of(transit.message.bytes) {
            return;
        }
        transit.heard = taken;
        let lost = transit.take(index, self.overtaken);
        let frames = frames_of(transit.message.bytes);
        let whole = transit.known == frames && transit.missing.is_empty();
        if whole {
            let id = transit.message.id;
            self.state.transits.remove(own);
            arrived.push(Arrival { time: taken, id });
        }
        for index in lost {
            self.happens(at + at.since(sent), Happening::Lost(own, index));
        }
        self.acknowledge(taken, pair, (frames, whole));
    }

    /// A receiver has taken in a frame of a message of so many, which may be whole now.
    fn acknowledge(&mut self, taken: Time, pair: Pair, (frames, whole): (u64, bool)) {
        let connection = self.state.connections.of(pair);
        let Some(came) = connection.came(whole) else {
            return;
        };
        if frames > 1 {
            return self.happens(taken, Happening::Acknowledges(pair, came));
        }
        let topology = &self.topology;
        let back = self.ways.between(topology, pair.1, pair.0).empty();
        self.happens(taken + back, Happening::Told(pair, came));
    }

    /// Sends again what did not come of a message in time.
    fn look(&mut self, now: Time, own: u64) {
        let Some(transit) = self.state.transits.get_mut(own) else {
            return;
        };
        let (mut lost, mut turns) = (Vec::new(), VecDeque::new());
        if transit.heard + transit.patience <= now {
            let rest = transit.known..transit.sent;
            lost.extend(transit.missing.keys().copied().chain(rest));
            transit.patience = transit.patience + transit.patience;
            transit.heard = now;
            let pair = (transit.message.from, transit.message.to);
            let connection = self.state.connections.of(pair);
            turns = connection.timed_out();
        }
        let next = transit.heard + transit.patience;
        let from = transit.message.from;
        self.happens(next, Happening::Looks(own));
        for turn in turns {
            self.line_up(now, from, turn);
        }
        for index in lost {
            self.again(now, own, index);
        }
    }

    /// Sends a frame again.
    fn again(&mut self, now: Time, own: u64, index: u64) {
        let Some(message) = self.state.transits.get(own).map(|transit| transit.message) else {
            return;
        };
        let pair = (message.from, message.to);
        self.state.connections.of(pair).lost();
        self.line_up(now, message.from, (own, index..index + 1));
    }

    fn happen(&mut self, now: Time, happening: Happening) {
        match happening {
            Happening::Told(pair, came) => {
                let connection = self.state.connections.of(pair);
                for turn in connection.told(came) {
                    self.line_up(now, pair.0, turn);
                }
            }
            Happening::Acknowledges(pair, came) => {
                let mark = (ACKNOWLEDGEMENT, came);
                let frame = marked((pair.1, pair.0), mark, now, 0);
                self.put(now, pair.1, frame);
            }
            Happening::Lost(own, index) => self.again(now, own, index),
            Happening::Looks(own) => self.look(now, own),
            Happening::Makes(host) => self.make(now, host),
        }
    }
}

#[cfg(test)]
mod tests;
