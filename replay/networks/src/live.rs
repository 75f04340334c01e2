//! Hosts that send messages over a network that others use, too, and operate.
//!
//! Whoever operates it takes the frames that hosts send from here and hands in those that come to hosts. Frames are taken in at the time at which they come, in the order of
//! time and hosts, whenever they were handed in before that: how far the network is let run at once shows nowhere. Called by background traffic of runs.

use std::collections::BTreeMap;
use std::vec::Drain;

use belljar_fabric::{Frame, Routes, RoutingError, Topology};
use belljar_sim::Time;
use serde::{Deserialize, Serialize};

use crate::network::{Arrival, LinkLoad, Message, Network, Pace};
use crate::transport::{MOST_COUNTED, Sent, Transport, TransportState};

/// Hosts on a network that others operate.
pub struct LiveNetwork {
    transport: Transport,
    hosts: u32,
    /// Frames that come: when, where, and the how manieth that was handed in.
    inbox: BTreeMap<(Time, u32, u64), Frame>,
    /// Frames that were handed in.
    handed: u64,
}

/// All that changes of a [`LiveNetwork`], as plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LiveState {
    transport: TransportState,
    inbox: Vec<(Time, u32, u64, Vec<u8>)>,
    handed: u64,
}

impl LiveNetwork {
    /// The hosts of a topology whose frames are routed so.
    ///
    /// # Errors
    /// When the topology is none for the routing.
    pub fn new(topology: Topology, routes: &Routes, pace: Pace) -> Result<Self, RoutingError> {
        Ok(Self {
            hosts: topology.hosts(),
            transport: Transport::new(topology, routes, pace)?,
            inbox: BTreeMap::new(),
            handed: 0,
        })
    }

    /// A frame that a host of these sent comes to another at `time`, which nothing was let happen at yet. Those to one host come in order of time.
    pub fn hand_in(&mut self, time: Time, host: u32, frame: Frame) {
        self.inbox.insert((time, host, self.handed), frame);
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
                .map(|((time, host, number), frame)| (*time, *host, *number, frame.to_vec()))
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
        let inbox = state.inbox.into_iter();
        self.inbox = inbox
            .map(|(time, host, number, frame)| ((time, host, number), frame.into()))
            .collect();
        self.handed = state.handed;
        true
    }
}

impl Network for LiveNetwork {
    fn send(&mut self, time: Time, message: Message) -> Option<Time> {
        self.transport.send(time, message)
    }

    fn next_time(&self) -> Option<Time> {
        let first = self.inbox.keys().next().map(|(time, ..)| *time);
        [first, self.transport.next_time()]
            .into_iter()
            .flatten()
            .min()
    }

    fn advance(&mut self, arrived: &mut Vec<Arrival>) {
        let Some(now) = self.next_time() else {
            return;
        };
        while let Some(first) = self.inbox.first_entry()
            && first.key().0 <= now
        {
            let ((time, host, _), frame) = first.remove_entry();
            self.transport.came(time, host, &frame, arrived);
        }
        self.transport.advance(now);
    }

    /// Links are whose who operates the network.
    fn loads(&self) -> Vec<LinkLoad> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
