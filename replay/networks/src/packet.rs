//! A network of frames: the fabric of live runs.
//!
//! A message goes as full frames and a rest, and has arrived when its receiver has taken in all. A host that sends several takes a frame of
//! each in turn, as fast as it can make frames and its link can take them: systems keep the queues of network cards short, so that nothing small waits
//! until all of something large has left. Frames that are lost on the way are sent again: at once when a later one of the message tells the receiver, which takes a round trip, else after
//! a time (RFC 6298), then after twice as long, and so on. There is no window: what a message's sender makes goes out. Called by replay.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use belljar_fabric::{Direction, Fabric, Frame, LinkId, Mac, RoutingError, Settings, Topology};
use belljar_sim::{Span, Time};

use crate::loggops::within;
use crate::network::{Arrival, HEADERS, LinkLoad, Message, Network, Pace, SEGMENT, frames_of};

/// How long a sender waits for what nobody tells it is lost: Linux's least.
const TIMEOUT: Span = Span::from_ms(200);

/// Where in a frame what it is known by again stands, three numbers of eight bytes.
const MARK: usize = 38;

/// What a sending host does.
#[derive(Clone, Debug, Default)]
struct Sender {
    /// When it can send the next frame.
    free: Time,
    /// Frames that it sent.
    frames: u64,
    /// Frames that are next, in turn: messages, and which frames of them.
    turns: VecDeque<(u64, Range<u64>)>,
}

/// A message on its way.
#[derive(Clone, Debug)]
struct Transit {
    message: Message,
    /// Frames that the receiver knows of: all up to the last that came.
    known: u64,
    /// Those of them that did not come.
    missing: BTreeSet<u64>,
    /// When it is looked whether all have come.
    look: Time,
    /// How long to wait then.
    patience: Span,
}

/// A network of frames.
pub struct PacketNetwork {
    fabric: Fabric,
    pace: Pace,
    senders: Vec<Sender>,
    /// When each host has taken in what came.
    receivers: Vec<Time>,
    /// By the order of sending: numbers of messages return.
    transits: BTreeMap<u64, Transit>,
    sent: u64,
    /// Hosts that have frames to send, by when they can.
    sending: BTreeSet<(Time, u32)>,
    /// When it is looked whether a message is whole.
    looks: BTreeSet<(Time, u64)>,
    /// Frames to be sent again.
    again: BTreeSet<(Time, u64, u64)>,
}

impl PacketNetwork {
    /// The topology, operated so.
    ///
    /// # Errors
    /// When the topology is none for the routing.
    pub fn new(topology: Topology, settings: &Settings, pace: Pace) -> Result<Self, RoutingError> {
        let hosts = topology.hosts() as usize;
        Ok(Self {
            fabric: Fabric::with_settings(topology, settings)?,
            pace,
            senders: vec![Sender::default(); hosts],
            receivers: vec![Time::ZERO; hosts],
            transits: BTreeMap::new(),
            sent: 0,
            sending: BTreeSet::new(),
            looks: BTreeSet::new(),
            again: BTreeSet::new(),
        })
    }

    /// Frames of a message are to leave its host, from `time` on.
    fn line_up(&mut self, time: Time, host: u32, own: u64, frames: Range<u64>) {
        let Some(sender) = self.senders.get_mut(host as usize) else {
            return;
        };
        if sender.turns.is_empty() {
            self.sending.insert((time.max(sender.free), host));
        }
        sender.turns.push_back((own, frames));
    }

    /// A host sends its next frame.
    fn turn(&mut self, now: Time, host: u32) {
        let Some(sender) = self.senders.get_mut(host as usize) else {
            return;
        };
        let Some((own, mut frames)) = sender.turns.pop_front() else {
            return;
        };
        let index = frames.start;
        frames.start += 1;
        if let Some(transit) = self.transits.get_mut(&own) {
            let message = transit.message;
            let data = (message.bytes - (index * SEGMENT).min(message.bytes)).min(SEGMENT);
            let frame = marked(message, (own, index), now, data);
            let topology = self.fabric.topology();
            let link = topology.links()[topology.link_of(host) as usize].spec;
            // The first frame's part of the work is in what the call that sends it takes.
            let made = match frames.is_empty() {
                true => Span::ZERO,
                false => self.pace.sends,
            };
            sender.free = now + link.transmission(frame.len()).max(made);
            self.fabric.send(now, host, sender.frames, frame);
            sender.frames += 1;
            if frames.is_empty() {
                transit.look = sender.free + transit.patience;
                self.looks.insert((transit.look, own));
            } else {
                sender.turns.push_back((own, frames));
            }
        }
        if !sender.turns.is_empty() {
            self.sending.insert((sender.free, host));
        }
    }

    /// A frame has come to its host.
    fn came(&mut self, at: Time, host: u32, frame: &Frame, arrived: &mut Vec<Arrival>) {
        let Some((own, index, sent)) = mark_of(frame) else {
            return;
        };
        let Some(free) = self.receivers.get_mut(host as usize) else {
            return;
        };
        let taken = match index {
            0 => at.max(*free),
            _ => at.max(*free) + self.pace.receives,
        };
        *free = taken;
        let Some(transit) = self.transits.get_mut(&own) else {
            return;
        };
        if index >= transit.known {
            let passed = transit.known..index;
            let back = at + at.since(sent);
            self.again
                .extend(passed.clone().map(|lost| (back, own, lost)));
            transit.missing.extend(passed);
            transit.known = index + 1;
        } else {
            transit.missing.remove(&index);
        }
        let whole = transit.known == frames_of(transit.message.bytes);
        if whole && transit.missing.is_empty() {
            let (look, id) = (transit.look, transit.message.id);
            self.looks.remove(&(look, own));
            self.transits.remove(&own);
            arrived.push(Arrival { time: taken, id });
        }
    }

    /// Sends again what did not come of a message in time.
    fn look(&mut self, now: Time, own: u64) {
        let Some(transit) = self.transits.get_mut(&own) else {
            return;
        };
        let all = transit.known..frames_of(transit.message.bytes);
        let lost: Vec<u64> = transit.missing.iter().copied().chain(all).collect();
        transit.patience = transit.patience + transit.patience;
        let host = transit.message.from;
        for index in lost {
            self.line_up(now, host, own, index..index + 1);
        }
    }
}

impl Network for PacketNetwork {
    fn send(&mut self, time: Time, message: Message) -> Option<Time> {
        if message.from == message.to {
            return Some(time + within(&self.pace, message.bytes));
        }
        let own = self.sent;
        self.sent += 1;
        let transit = Transit {
            message,
            known: 0,
            missing: BTreeSet::new(),
            look: Time::MAX,
            patience: TIMEOUT,
        };
        self.transits.insert(own, transit);
        self.line_up(time, message.from, own, 0..frames_of(message.bytes));
        None
    }

    fn next_time(&self) -> Option<Time> {
        let look = self.looks.first().map(|(time, _)| *time);
        let again = self.again.first().map(|(time, ..)| *time);
        let sending = self.sending.first().map(|(time, _)| *time);
        let times = [self.fabric.next_time(), sending, look, again];
        times.into_iter().flatten().min()
    }

    fn advance(&mut self, arrived: &mut Vec<Arrival>) {
        let Some(now) = self.next_time() else {
            return;
        };
        while let Some((time, own, index)) = self.again.first().copied()
            && time <= now
        {
            self.again.pop_first();
            if let Some(host) = self.transits.get(&own).map(|it| it.message.from) {
                self.line_up(now, host, own, index..index + 1);
            }
        }
        while let Some((time, own)) = self.looks.first().copied()
            && time <= now
        {
            self.looks.pop_first();
            self.look(now, own);
        }
        while let Some((time, host)) = self.sending.first().copied()
            && time <= now
        {
            self.sending.pop_first();
            self.turn(now, host);
        }
        let came: Vec<_> = self.fabric.advance(now + Span::from_ps(1)).collect();
        for delivery in came {
            self.came(delivery.time, delivery.host, &delivery.frame, arrived);
        }
    }

    fn loads(&self) -> Vec<LinkLoad> {
        let topology = self.fabric.topology();
        let mut loads = Vec::new();
        for (link, both) in (0..).zip(self.fabric.statistics()) {
            for (carried, direction) in both.into_iter().zip([Direction::Up, Direction::Down]) {
                if carried.frames > 0 || carried.drops > 0 {
                    loads.push(LinkLoad {
                        name: name(topology, link, direction),
                        bytes: carried.bytes,
                        busy: Span::from_ps(carried.busy_ps),
                        dropped: carried.drops + carried.lost + carried.failed,
                    });
                }
            }
        }
        loads
    }
}

/// A direction of a link, for people.
pub(crate) fn name(topology: &Topology, link: LinkId, direction: Direction) -> String {
    let way = match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    format!("{} {way}", topology.link_name(link))
}

/// The headers of a frame of TCP from one host to another: what routing looks at is there.
pub(crate) fn headers(from: u32, to: u32) -> [u8; HEADERS as usize] {
    let mut frame = [0; HEADERS as usize];
    frame[..6].copy_from_slice(&Mac::of_host(to).0);
    frame[6..12].copy_from_slice(&Mac::of_host(from).0);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[23] = 6;
    frame[26..30].copy_from_slice(&from.to_be_bytes());
    frame[30..34].copy_from_slice(&to.to_be_bytes());
    frame[34..36].copy_from_slice(&(from as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&(to as u16).to_be_bytes());
    frame
}

/// A frame of a message: the message's place in the order of sending and the frame's in the message, and when it was sent.
fn marked(message: Message, (own, index): (u64, u64), sent: Time, data: u64) -> Frame {
    let mut frame = headers(message.from, message.to).to_vec();
    for (place, number) in frame[MARK..].chunks_mut(8).zip([own, index, sent.as_ps()]) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    frame.resize((HEADERS + data) as usize, 0);
    Arc::from(frame)
}

fn mark_of(frame: &[u8]) -> Option<(u64, u64, Time)> {
    let number = |at: usize| {
        let bytes = frame.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_be_bytes(bytes))
    };
    let sent = number(MARK + 16)?;
    Some((number(MARK)?, number(MARK + 8)?, Time::from_ps(sent)))
}

#[cfg(test)]
mod tests {
    use belljar_fabric::{Impairment, LinkSpec, SwitchSpec};

    use super::*;
    use crate::network::MessageId;

    fn star(queue_bytes: u64) -> Topology {
        let link = LinkSpec {
            bandwidth: 10_000_000_000,
            latency: Span::from_us(1),
        };
        let latency = Span::from_ns(300);
        let switch = SwitchSpec {
            latency,
            queue_bytes,
        };
        Topology::star(3, link, switch).unwrap()
    }

    fn message(id: MessageId, from: u32, bytes: u64) -> Message {
        Message {
            id,
            from,
            to: 2,
            bytes,
        }
    }

    fn arrivals(network: &mut PacketNetwork) -> Vec<(MessageId, u64)> {
        let mut arrived = Vec::new();
        while network.next_time().is_some() {
            network.advance(&mut arrived);
        }
        let mut all: Vec<_> = arrived
            .iter()
            .map(|arrival| (arrival.id, arrival.time.as_ps()))
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_message_takes_what_its_frames_take() {
        let mut network =
            PacketNetwork::new(star(1 << 20), &Settings::default(), Pace::default()).unwrap();
        network.send(Time::ZERO, message(1, 0, 2 * 1448));
        // Two links and a switch; the second frame is one transmission later.
        let expected = 3 * 1_230_400 + 2 * 1_000_000 + 300_000;
        assert_eq!(arrivals(&mut network), [(1, expected)]);
    }

    #[test]
    fn two_senders_share_the_way_to_one_receiver() {
        let mut network =
            PacketNetwork::new(star(1 << 20), &Settings::default(), Pace::default()).unwrap();
        network.send(Time::ZERO, message(1, 0, 100 * 1448));
        network.send(Time::ZERO, message(2, 1, 100 * 1448));
        let all = arrivals(&mut network);
        let last = all.iter().map(|(_, at)| *at).max().unwrap();
        assert_eq!(last, 201 * 1_230_400 + 2 * 1_000_000 + 300_000);
    }

    #[test]
    fn what_is_lost_is_sent_again() {
        let lossy = Impairment {
            loss: 0.2,
            ..Impairment::default()
        };
        let settings = Settings {
            impairments: vec![(2, lossy)],
            ..Settings::default()
        };
        let mut network = PacketNetwork::new(star(1 << 20), &settings, Pace::default()).unwrap();
        for id in 0..20 {
            network.send(
                Time::from_ps(u64::from(id) * 1_000_000_000),
                message(id, 0, 50 * 1448),
            );
        }
        let all = arrivals(&mut network);
        assert_eq!(all.len(), 20);
        let lost: u64 = network.loads().iter().map(|load| load.dropped).sum();
        assert!(lost > 100, "{lost}");
    }

    #[test]
    fn a_queue_that_is_full_drops() {
        let mut network =
            PacketNetwork::new(star(20_000), &Settings::default(), Pace::default()).unwrap();
        network.send(Time::ZERO, message(1, 0, 100 * 1448));
        network.send(Time::ZERO, message(2, 1, 100 * 1448));
        assert_eq!(arrivals(&mut network).len(), 2);
        let lost: u64 = network.loads().iter().map(|load| load.dropped).sum();
        assert!(lost > 0);
    }
}
