//! A network of frames: the fabric of live runs, and hosts that send messages over it.
//!
//! It carries no other traffic. Used by replay.

use belljar_fabric::{Direction, Endpoint, Fabric, FabricState, RoutingError, Settings, Topology};
use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::message::{Arrival, Message};
use crate::network::{LinkLoad, Network, NetworkState};
use crate::pace::Paces;
use crate::transport::{Transport, TransportState};
use crate::way::name;

/// A network of frames.
pub struct PacketNetwork {
    fabric: Fabric,
    transport: Transport,
}

/// The mutable state of a [`PacketNetwork`], as plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PacketState {
    fabric: FabricState,
    transport: TransportState,
}

impl PacketNetwork {
    /// Creates a network with the topology and these settings.
    ///
    /// # Errors
    /// Returns an error if the topology does not fit the routing.
    pub fn new(
        topology: Topology,
        settings: &Settings,
        paces: impl Into<Paces>,
    ) -> Result<Self, RoutingError> {
        Ok(Self {
            transport: Transport::new(topology.clone(), &settings.routes(), paces.into())?,
            fabric: Fabric::with_settings(topology, settings)?,
        })
    }
}

impl PacketNetwork {
    /// Handles all events at `now`: first at hosts, then on links.
    fn happen(&mut self, now: Time, arrived: &mut Vec<Arrival>) {
        self.transport.advance(now, arrived);
        let sends = !self.transport.outbox.is_empty();
        for sent in self.transport.outbox.drain(..) {
            self.fabric.send_first(sent.time, sent.host, sent.frame);
        }
        if !sends && self.fabric.next_time().is_none_or(|next| next > now) {
            return;
        }
        for delivery in self.fabric.advance(now + Span::from_ps(1)) {
            self.transport
                .came(delivery.time, delivery.host, &delivery.frame);
        }
    }
}

impl Network for PacketNetwork {
    fn send(&mut self, time: Time, message: Message) -> Option<Time> {
        self.transport.send(time, message)
    }

    fn next_time(&self) -> Option<Time> {
        match (self.fabric.next_time(), self.transport.next_time()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn advance(&mut self, arrived: &mut Vec<Arrival>) {
        if let Some(now) = self.next_time() {
            self.happen(now, arrived);
        }
    }

    fn advance_to(&mut self, limit: Time, arrived: &mut Vec<Arrival>) {
        while arrived.is_empty()
            && let Some(now) = self.next_time().filter(|now| *now <= limit)
        {
            self.happen(now, arrived);
        }
    }

    fn loads(&self) -> Vec<LinkLoad> {
        let topology = self.fabric.topology();
        let mut loads = Vec::new();
        let mut dropped: Vec<u64> = self.transport.dropped().collect();
        for (link, both) in (0..).zip(self.fabric.statistics()) {
            for (carried, direction) in both.into_iter().zip([Direction::Up, Direction::Down]) {
                if carried.frames > 0 || carried.drops > 0 {
                    // A frame that finds a full card is lost at the end of the card's link.
                    let end = topology.links()[link as usize].ends[1 - direction.index()];
                    let card = match end {
                        Endpoint::Host(host) => dropped.get_mut(host as usize).map(std::mem::take),
                        Endpoint::Switch(_) => None,
                    };
                    loads.push(LinkLoad {
                        name: name(topology, link, direction),
                        bytes: carried.bytes,
                        busy: Span::from_ps(carried.busy_ps),
                        dropped: carried.drops + carried.lost + carried.failed + card.unwrap_or(0),
                    });
                }
            }
        }
        loads
    }

    fn saved(&self) -> Option<NetworkState> {
        // The fabric has taken all frames that hosts sent.
        Some(NetworkState::Packet(Box::new(PacketState {
            fabric: self.fabric.save(),
            transport: self.transport.save(),
        })))
    }

    fn continues_from(&mut self, state: NetworkState) -> bool {
        match state {
            NetworkState::Packet(state) => {
                self.fabric.restore(state.fabric).is_ok() && self.transport.restore(state.transport)
            }
            NetworkState::Flow(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
