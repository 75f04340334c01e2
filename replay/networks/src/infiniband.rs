//! InfiniBand cards and their network.
//!
//! Cards send messages as packets of reliable connections over the fabric of live runs, with the delays of the cards' model. A stream is a
//! connection: its messages leave in order, with a limited number of packets under way. No processor works for packets. Used by replay.

/// Connections and their packets.
mod connection;

use std::collections::BTreeMap;

use belljar_fabric::{Direction, Routes, Routing, RoutingError, Topology};
use belljar_lossless::{Arrival as Delivery, CardDelays, Destination, Flow, Lossless, Parcel};
use belljar_sim::{Pending, Span, Time};

use crate::message::{Arrival, Message, MessageId};
use crate::network::{LinkLoad, Network};
use crate::pace::{Paces, within};
use crate::way::name;
use connection::{Connection, Outgoing};

/// Bytes of a packet besides its data: 8 of its local route header, 12 of the base transport header, 4 of the invariant checksum.
const HEADERS: usize = 24;

/// Properties of the cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cards {
    /// From a doorbell to the first bit on the link.
    pub send: Span,
    /// From a packet's last bit to its effect in memory.
    pub receive: Span,
    /// From a packet's effect to the first bit of the answer.
    pub answer: Span,
    /// Additional time to read data that are not in the request itself from memory.
    pub fetch: Span,
    /// Bits per second of the bus between card and memory.
    pub bus: u64,
    /// Bytes of data of a full packet.
    pub mtu: u64,
    /// Most bytes of a message that the library writes into the request itself.
    pub inline: u64,
}

/// A network of InfiniBand cards.
#[derive(Clone, Debug, PartialEq)]
pub struct InfinibandModel {
    /// Topology of the network.
    pub topology: Topology,
    /// Its routing.
    pub routing: Routing,
    /// Seed of the routing's hashes.
    pub seed: u64,
    /// Credits and lanes.
    pub flow: Flow,
    /// The cards.
    pub cards: Cards,
}

impl InfinibandModel {
    /// Its routes.
    pub fn routes(&self) -> Routes {
        Routes {
            routing: self.routing,
            seed: self.seed,
            tables: None,
        }
    }
}

/// A connection's direction: the stream, and whether the card sends by itself in answer to a read.
type Key = (u64, bool);

/// A packet.
#[derive(Clone, Debug)]
struct Piece {
    to: u32,
    /// Bytes of data.
    bytes: u32,
    connection: Key,
    role: Role,
}

/// The role of a packet.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// Part of a message; with its number if it is the last one, and the packets that its receiver acknowledges.
    Data(Option<MessageId>, u32),
    /// Acknowledges this many packets.
    Acknowledgement(u32),
}

impl Parcel for Piece {
    fn destination(&self) -> Option<Destination> {
        Some(Destination::Host(self.to))
    }

    fn length(&self) -> usize {
        HEADERS + (self.bytes as usize).next_multiple_of(4)
    }

    fn payload(&self) -> usize {
        self.bytes as usize
    }

    /// Replays have no congestion control.
    fn mark(&mut self) -> bool {
        false
    }
}

/// An event of a card.
#[derive(Clone, Debug)]
enum Due {
    /// A packet takes effect.
    Arrived(Piece),
    /// The next piece of an answer is due.
    Continue(Key),
}

/// InfiniBand cards and their network, in operation.
pub struct InfinibandNetwork {
    fabric: Lossless<Piece>,
    cards: Cards,
    paces: Paces,
    connections: BTreeMap<Key, Connection>,
    /// For each host, the time at which the data that its card asked for are there.
    fetched: Vec<Time>,
    /// For each host, the number of packets that it sent.
    sent: Vec<u64>,
    due: Pending<Time, Due>,
    now: Time,
    /// The least time from a packet's [time](Lossless::next_time) to its arrival.
    tail: Span,
}

impl InfinibandNetwork {
    /// Creates a network of cards; `paces` determines the time of messages within a host.
    ///
    /// # Errors
    /// When the topology does not fit the routing.
    pub fn new(model: &InfinibandModel, paces: impl Into<Paces>) -> Result<Self, RoutingError> {
        let cards = model.cards;
        let delays = CardDelays {
            before: cards.send.min(cards.answer),
            after: cards.receive,
            bus: cards.bus,
        };
        let routes = model.routes();
        let hosts = model.topology.hosts();
        let fabric = Lossless::new(model.topology.clone(), &routes, delays, model.flow)?;
        let distances = fabric.distances();
        let tails = (0..hosts).map(|host| distances.tail(host));
        Ok(Self {
            tail: tails.min().unwrap_or(Span::ZERO),
            fabric,
            cards,
            paces: paces.into(),
            connections: BTreeMap::new(),
            fetched: vec![Time::ZERO; hosts as usize],
            sent: vec![0; hosts as usize],
            due: Pending::default(),
            now: Time::ZERO,
        })
    }

    /// Sends the packets that a connection may send, from `at` on.
    fn proceed(&mut self, key: Key, at: Time) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        let host = connection.from as usize;
        let mut carried = 0;
        while let Some(next) = connection.next_packet(self.cards.mtu) {
            let mut ready = at;
            if !next.is_inline {
                let first = (at + self.cards.fetch).max(self.fetched[host]);
                ready = first + Span::of_transfer(next.bytes, self.cards.bus);
                self.fetched[host] = ready;
            }
            ready = ready.max(connection.last);
            connection.last = ready;
            let piece = Piece {
                to: connection.to,
                bytes: next.bytes as u32,
                connection: key,
                role: Role::Data(next.ends, next.acknowledges),
            };
            carried += belljar_lossless::wire_bytes(piece.length());
            self.fabric
                .send(ready, connection.from, self.sent[host], piece);
            self.sent[host] += 1;
        }
        if key.1 && connection.has_more() {
            self.pace(key, carried);
        }
    }

    /// Schedules the next piece of an answer so early that its link does not wait for it.
    fn pace(&mut self, key: Key, carried: u64) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        let topology = self.fabric.topology();
        let link = topology.links()[topology.link_of(connection.from) as usize].spec;
        let lead = self.cards.answer + self.cards.fetch;
        let begins = (self.now + lead).max(connection.paced);
        connection.paced = begins + Span::of_transfer(carried, link.bandwidth);
        connection.piece = 0;
        let early = connection.paced.since(Time::ZERO + lead);
        let next = (Time::ZERO + early).max(self.now);
        self.due.push(next, Due::Continue(key));
    }

    /// Handles an event of a card at the present time.
    fn happen(&mut self, event: Due) {
        match event {
            Due::Continue(key) => self.proceed(key, self.now + self.cards.answer),
            Due::Arrived(piece) => match piece.role {
                Role::Data(_, packets) => self.acknowledge(&piece, packets),
                Role::Acknowledgement(packets) => {
                    if let Some(connection) = self.connections.get_mut(&piece.connection) {
                        connection.under_way = connection.under_way.saturating_sub(packets);
                    }
                    self.proceed(piece.connection, self.now + self.cards.answer);
                }
            },
        }
    }

    /// The receiver of packets acknowledges them.
    fn acknowledge(&mut self, piece: &Piece, packets: u32) {
        let Some(connection) = self.connections.get(&piece.connection) else {
            return;
        };
        let (host, to) = (connection.to, connection.from);
        let answer = Piece {
            to,
            bytes: 0,
            connection: piece.connection,
            role: Role::Acknowledgement(packets),
        };
        let ready = self.now + self.cards.answer;
        let sent = &mut self.sent[host as usize];
        self.fabric.send(ready, host, *sent, answer);
        *sent += 1;
    }

    /// The time from which the fabric has an event to handle.
    fn next_of_fabric(&self) -> Option<Time> {
        let next = self.fabric.next_time()?;
        let hop = self.fabric.hop().as_ps();
        Some(Time::from_ps(next.as_ps().saturating_sub(hop) + 1).max(self.now))
    }

    /// Handles the events of the fabric that actions from `end` on cannot change.
    fn advance_fabric(&mut self, end: Time, arrived: &mut Vec<Arrival>) {
        for Delivery { time, packet, .. } in self.fabric.advance(end + self.fabric.hop()) {
            if let Role::Data(Some(id), _) = packet.role {
                arrived.push(Arrival { time, id });
            }
            let is_silent = matches!(packet.role, Role::Data(_, 0));
            if !is_silent {
                self.due.push(time, Due::Arrived(packet));
            }
        }
    }

    /// Handles the next events up to `limit`: those of cards, or those of the fabric that no card can change.
    fn step(&mut self, limit: Time, arrived: &mut Vec<Arrival>) {
        let due = self.due.next();
        let fabric = self.next_of_fabric();
        if let Some(at) = due.filter(|at| fabric.is_none_or(|next| *at <= next)) {
            self.now = at.max(self.now);
            while let Some(event) = self.due.pop_due(self.now) {
                self.happen(event);
            }
        } else if let Some(next) = fabric {
            let tail = Span::from_ps(self.tail.as_ps().saturating_sub(1));
            let end = (next + tail).min(limit).min(due.unwrap_or(Time::MAX));
            self.now = end.max(next);
            self.advance_fabric(self.now, arrived);
        }
    }
}

impl InfinibandNetwork {
    /// A message begins, by a doorbell or, if `is_answer`, by the card itself.
    fn begin(&mut self, time: Time, message: Message, is_answer: bool) -> Option<Time> {
        self.now = self.now.max(time);
        if message.from == message.to {
            return Some(time + within(self.paces.of(message.from), message.bytes));
        }
        let key = (message.stream, is_answer);
        let connection = self
            .connections
            .entry(key)
            .or_insert_with(|| Connection::new(message.from, message.to, key.1));
        connection.push(Outgoing {
            id: message.id,
            bytes: message.bytes,
            sent: 0,
            is_inline: message.bytes <= self.cards.inline && !key.1,
        });
        let delay = match key.1 {
            true => self.cards.answer,
            false => self.cards.send,
        };
        if !connection.is_paced() {
            self.proceed(key, time + delay);
        }
        None
    }
}

impl Network for InfinibandNetwork {
    fn send(&mut self, time: Time, message: Message) -> Option<Time> {
        self.begin(time, message, false)
    }

    fn answer(&mut self, time: Time, message: Message) -> Option<Time> {
        self.begin(time, message, true)
    }

    fn next_time(&self) -> Option<Time> {
        let due = self.due.next().map(|at| at.max(self.now));
        due.into_iter().chain(self.next_of_fabric()).min()
    }

    fn advance(&mut self, arrived: &mut Vec<Arrival>) {
        if let Some(next) = self.next_time() {
            self.step(next, arrived);
        }
    }

    fn advance_to(&mut self, limit: Time, arrived: &mut Vec<Arrival>) {
        while arrived.is_empty() && self.next_time().is_some_and(|next| next <= limit) {
            self.step(limit, arrived);
        }
    }

    fn loads(&self, _until: Time) -> Vec<LinkLoad> {
        let topology = self.fabric.topology();
        let both = [Direction::Up, Direction::Down];
        let figures = (0..).zip(self.fabric.figures());
        let ports = figures.flat_map(|(link, of)| {
            let named = both.into_iter().zip(of);
            named.map(move |(direction, port)| (link, direction, port))
        });
        let used = ports.filter(|(.., port)| port.packets > 0);
        used.map(|(link, direction, port)| LinkLoad {
            name: name(topology, link, direction),
            bytes: port.bytes,
            busy: Span::from_ps(port.busy_ps),
            dropped: 0,
        })
        .collect()
    }

    fn blocked(&self) -> Option<Vec<String>> {
        let circle = self.fabric.circle()?;
        let topology = self.fabric.topology();
        let links = circle.iter();
        let links = links.map(|(link, direction, _)| name(topology, *link, *direction));
        Some(links.collect())
    }
}

#[cfg(test)]
mod tests;
