//! TCP of the hosts, which splits messages into frames and reassembles them.
//!
//! All messages of a stream share a connection and arrive in order of sending. A host creates frames one after the other: first the frames that an acknowledgement
//! releases, in its kernel, then those of its processes, one message after the other. A receiving host processes frames one after the other; frames that find its card
//! full are lost. Acknowledgements of messages of several segments are separate frames. Frames to be carried are added to `outbox`. Losses are found and repaired as
//! Linux does it (`sender`, `rtt`, `congestion`). Used by networks of frames.

/// Arrival of frames.
mod arrival;
/// The congestion window.
mod congestion;
/// Connections between hosts.
mod connection;
/// Departure of frames.
mod departure;
/// Events at hosts.
mod event;
/// Hosts.
mod host;
/// Bounds of values in states.
mod limits;
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

use std::sync::Arc;

use belljar_fabric::{Frame, Routes, RoutingError, Topology};
use belljar_sim::{Calendar, Time, Timed};

use crate::message::{Arrival, Message};
use crate::pace::Paces;
use crate::pace::within;
use crate::way::FlowRoutes;
use event::{Due, Event};
pub(crate) use limits::MOST_COUNTED;
pub(crate) use mark::Mark;
use mark::marked;
pub(crate) use state::TransportState;

/// A frame that a host sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Time of sending.
    pub time: Time,
    /// The host.
    pub host: u32,
    /// The frame's number among the host's.
    pub sequence: u64,
    /// The frame.
    pub frame: Frame,
}

/// A frame that a host sends, by its contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) time: Time,
    pub(crate) host: u32,
    pub(crate) to: u32,
    /// The frame's number among the host's.
    pub(crate) sequence: u64,
    pub(crate) mark: Mark,
    /// Bytes of data.
    pub(crate) data: u32,
}

impl Outgoing {
    /// Returns it as a frame with all headers.
    pub(crate) fn sent(self) -> Sent {
        Sent {
            time: self.time,
            host: self.host,
            sequence: self.sequence,
            frame: marked(self.host, self.to, self.mark, self.data),
        }
    }
}

/// The sending and receiving of all hosts of a network.
pub(crate) struct Transport {
    topology: Topology,
    paces: Paces,
    ways: FlowRoutes,
    state: TransportState,
    /// Incomplete messages.
    under_way: usize,
    /// Future events.
    events: Calendar<Due>,
    /// Frames to be carried, in the order of sending.
    pub(crate) outbox: Vec<Outgoing>,
}

impl Transport {
    /// Creates the hosts of a topology with these routes.
    ///
    /// # Errors
    /// Returns an error if the routing does not fit the topology.
    pub(crate) fn new(
        topology: Topology,
        routes: &Routes,
        paces: Paces,
    ) -> Result<Self, RoutingError> {
        Ok(Self {
            ways: FlowRoutes::new(&topology, routes)?,
            paces,
            state: TransportState::of_hosts(topology.hosts()),
            under_way: 0,
            events: Calendar::default(),
            topology,
            outbox: Vec::new(),
        })
    }

    /// Returns the mutable state.
    pub(crate) fn save(&self) -> TransportState {
        let mut due: Vec<&Due> = self.events.iter().collect();
        due.sort_unstable();
        let events = due.iter().map(|due| (due.time(), due.event()));
        TransportState {
            events: events.collect(),
            ..self.state.clone()
        }
    }

    /// Continues from `state`, and returns true if it fits these hosts.
    pub(crate) fn restore(&mut self, state: TransportState) -> bool {
        let sound = state.is_sound(self.topology.hosts());
        if sound {
            self.state = state;
            self.under_way = self.state.connections.under_way();
            self.events = Calendar::default();
            for (time, event) in std::mem::take(&mut self.state.events) {
                self.schedule(time, event);
            }
        }
        sound
    }

    /// True if no message is in flight.
    pub(crate) fn is_quiet(&self) -> bool {
        self.under_way == 0
    }

    /// Returns the frames lost at each host's card for lack of space.
    pub(crate) fn dropped(&self) -> impl Iterator<Item = u64> + '_ {
        self.state.hosts.iter().map(|host| host.dropped)
    }

    /// Begins to send a message. Returns the time of its arrival if it does not use the wire.
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

    /// Returns the number of a connection. A new connection has measured the round trip of its handshake.
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

    /// Returns the links of frames of a connection's data, and of its acknowledgements, by twice the link's number, plus one for downwards.
    pub(crate) fn links_of(&mut self, number: u32) -> Option<[Arc<[u32]>; 2]> {
        let connection = self.state.connections.get_mut(number)?;
        let (from, to) = (connection.from, connection.to);
        let ways = [(from, to), (to, from)];
        Some(ways.map(|(from, to)| self.ways.between(&self.topology, from, to).links()))
    }

    /// Returns the time of the hosts' next event.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.events.first().map(Timed::time)
    }

    /// Handles the hosts' events until `now`; messages that become complete are added to `arrived`.
    pub(crate) fn advance(&mut self, now: Time, arrived: &mut Vec<Arrival>) {
        while let Some(due) = self.events.pop_until(now) {
            self.happen(now, due.event(), arrived);
        }
    }

    fn schedule(&mut self, time: Time, event: Event) {
        self.events.push(Due::new(time, event));
    }

    fn happen(&mut self, now: Time, event: Event, arrived: &mut Vec<Arrival>) {
        match event {
            Event::Acknowledged(number, acknowledgement) => {
                if let Some(connection) = self.state.connections.get_mut(number) {
                    connection.sender.acknowledge(now, acknowledgement);
                    self.line_up(now, number, true);
                }
            }
            Event::Comes(number, segment) | Event::Taken(number, segment) => {
                self.taken(now, number, segment, arrived);
            }
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
}

#[cfg(test)]
mod tests;
