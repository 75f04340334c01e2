//! Hosts that send messages over a network that others use, too, and that its operator drives.
//!
//! The operator takes the frames that hosts send, and passes in the frames that arrive for hosts. Frames take effect at the time of their arrival, in the order of time
//! and hosts, independent of when they were passed in. The length of the operator's steps does not affect the results. Used by background traffic of runs.

use belljar_fabric::{Frame, Routes, RoutingError, Topology};
use belljar_sim::{EventKey, EventQueue, Span, Time};
use serde::{Deserialize, Serialize};

use crate::message::{Arrival, Message};
use crate::network::{LinkLoad, Network};
use crate::pace::Paces;
use crate::transport::{MOST_COUNTED, Outgoing, Sent, Transport, TransportState};

/// Hosts on a network with another operator.
pub struct LiveNetwork {
    transport: Transport,
    hosts: u32,
    /// Arriving frames; ties at one host are in the order in which they were passed in.
    inbox: EventQueue<Frame>,
    /// Number of frames passed in.
    handed: u64,
}

/// The mutable state of a [`LiveNetwork`], as plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LiveState {
    transport: TransportState,
    inbox: Vec<(Time, u32, u64, Frame)>,
    handed: u64,
}

fn key(time: Time, host: u32, number: u64) -> EventKey {
    EventKey {
        time,
        kind: 0,
        source: host,
        sequence: number,
    }
}

impl LiveNetwork {
    /// Creates the hosts of a topology with these routes.
    ///
    /// # Errors
    /// Returns an error if the topology does not fit the routing.
    pub fn new(
        topology: Topology,
        routes: &Routes,
        paces: impl Into<Paces>,
    ) -> Result<Self, RoutingError> {
        Ok(Self {
            hosts: topology.hosts(),
            transport: Transport::new(topology, routes, paces.into())?,
            inbox: EventQueue::new(),
            handed: 0,
        })
    }

    /// Adds a frame from another one of these hosts that arrives at a host at `time`, up to which the network has not been advanced. Frames for one host must be added in
    /// the order of time.
    pub fn hand_in(&mut self, time: Time, host: u32, frame: Frame) {
        self.inbox.push(key(time, host, self.handed), frame);
        self.handed += 1;
    }

    /// Takes the frames that hosts sent since the last call, in order of time.
    pub fn sent(&mut self) -> impl Iterator<Item = Sent> {
        self.transport.outbox.drain(..).map(Outgoing::sent)
    }

    /// True if no message is in flight.
    pub fn is_quiet(&self) -> bool {
        self.transport.is_quiet()
    }

    /// Returns the mutable state. The sent frames must have been taken.
    pub fn save(&self) -> LiveState {
        let inbox = self.inbox.iter();
        LiveState {
            transport: self.transport.save(),
            inbox: inbox
                .map(|(key, frame)| (key.time, key.source, key.sequence, frame.clone()))
                .collect(),
            handed: self.handed,
        }
    }

    /// Continues from an untrusted `state`, and returns true if it fits these hosts. Otherwise, nothing has changed.
    #[must_use]
    pub fn restore(&mut self, state: LiveState) -> bool {
        let mut inbox = state.inbox.iter();
        let known = inbox.all(|(_, host, number, _)| *host < self.hosts && *number < state.handed);
        if !known || state.handed > MOST_COUNTED || !self.transport.restore(state.transport) {
            return false;
        }
        self.inbox = EventQueue::new();
        for (time, host, number, frame) in state.inbox {
            self.inbox.push(key(time, host, number), frame);
        }
        self.handed = state.handed;
        true
    }
}

impl Network for LiveNetwork {
    fn send(&mut self, time: Time, message: Message) -> Option<Time> {
        self.transport.send(time, message)
    }

    fn next_time(&self) -> Option<Time> {
        match (self.inbox.next_time(), self.transport.next_time()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn advance(&mut self, arrived: &mut Vec<Arrival>) {
        let Some(now) = self.next_time() else {
            return;
        };
        while let Some((key, frame)) = self.inbox.pop_before(now + Span::from_ps(1)) {
            self.transport.came(key.time, key.source, &frame);
        }
        self.transport.advance(now, arrived);
    }

    /// Links belong to the network's operator.
    fn loads(&self, _until: Time) -> Vec<LinkLoad> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
