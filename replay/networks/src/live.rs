//! Hosts that send messages over a network that others use, too, and operate.
//!
//! Whoever operates it takes the frames that hosts send from here and hands in those that come to hosts. Frames are taken in at the time at which they come, in the order of
//! time and hosts, whenever they were handed in before that: how far the network is let run at once shows nowhere. Called by background traffic of runs.

use std::vec::Drain;

use belljar_fabric::{Frame, Routes, RoutingError, Topology};
use belljar_sim::{EventKey, EventQueue, Span, Time};
use serde::{Deserialize, Serialize};

use crate::network::{Arrival, LinkLoad, Message, Network, Paces};
use crate::transport::{MOST_COUNTED, Sent, Transport, TransportState};

/// Hosts on a network that others operate.
pub struct LiveNetwork {
    transport: Transport,
    hosts: u32,
    /// Frames that come, in the order in which they were handed in where two come to a host at a time.
    inbox: EventQueue<Frame>,
    /// Frames that were handed in.
    handed: u64,
}

/// All that changes of a [`LiveNetwork`], as plain values.
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
    /// The hosts of a topology whose frames are routed so.
    ///
    /// # Errors
    /// When the topology is none for the routing.
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

    /// A host receives a frame of another one of these at `time`, which nothing was let happen at yet. Those to one host are handed in in order of time.
    pub fn hand_in(&mut self, time: Time, host: u32, frame: Frame) {
        self.inbox.push(key(time, host, self.handed), frame);
        self.handed += 1;
    }

    /// What hosts sent since this was called last, in order of time.
    pub fn sent(&mut self) -> Drain<'_, Sent> {
        self.transport.outbox.drain(..)
    }

    /// Whether no message is under way.
    pub fn is_quiet(&self) -> bool {
        self.transport.is_quiet()
    }

    /// All that changes. What was sent must have been taken.
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

    /// Continues from `state`, which anybody may have written; whether it can be one of these hosts. If not, nothing has changed.
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

    /// Links are whose who operates the network.
    fn loads(&self) -> Vec<LinkLoad> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
