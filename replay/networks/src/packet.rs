//! A network of frames, and hosts that send messages over it.
//!
//! It carries no other traffic. Frames pass the fabric of live runs, or, with fixed routes and without impairments, links with the same queues that need less work for
//! each frame. Used by replay.

/// Arrivals at switches by day.
mod days;
/// Frames in transit over fixed routes.
mod fixed;
/// Queues and wires.
mod ports;
/// The state as plain values.
mod state;

use belljar_fabric::{Direction, Fabric, Routes, RoutingError, Settings, Topology};
use belljar_sim::{Span, Time};

use crate::message::{Arrival, Message};
use crate::network::{LinkLoad, Network, NetworkState};
use crate::pace::Paces;
use crate::transport::{Outgoing, Transport};
use crate::way::name;
use fixed::FixedFabric;
use ports::PortLoad;
use state::{CarrierState, FixedState};

pub use state::PacketState;

/// A network of frames.
pub struct PacketNetwork {
    topology: Topology,
    carrier: Carrier,
    transport: Transport,
}

/// The links of a network.
enum Carrier {
    /// Links without impairments, each pair of hosts with one route.
    Fixed(Box<FixedFabric>),
    /// Any.
    Fabric(Box<Fabric>),
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
        let routes: Routes = settings.routes();
        let transport = Transport::new(topology.clone(), &routes, paces.into())?;
        let carrier = match FixedFabric::fits(settings) {
            true => Carrier::Fixed(Box::new(FixedFabric::new(&topology))),
            false => {
                let fabric = Fabric::with_settings(topology.clone(), settings)?;
                Carrier::Fabric(Box::new(fabric))
            }
        };
        Ok(Self {
            topology,
            carrier,
            transport,
        })
    }

    /// Handles the events at `now`: first at hosts, then on links.
    fn happen(&mut self, now: Time, arrived: &mut Vec<Arrival>) {
        let transport = &mut self.transport;
        match &mut self.carrier {
            Carrier::Fabric(fabric) => happen_in(fabric, now, transport, arrived),
            Carrier::Fixed(fixed) => {
                if fixed.days.next_time().is_some_and(|begin| begin <= now) {
                    return fixed.advance(transport);
                }
                transport.advance(now, arrived);
                let mut outbox = std::mem::take(&mut transport.outbox);
                for sent in outbox.drain(..) {
                    fixed.send(&self.topology, &sent, transport);
                }
                transport.outbox = outbox;
                fixed.hand_over(now, transport);
            }
        }
    }

    /// Returns the load of each direction, without losses at hosts.
    fn port_loads(&self) -> Vec<PortLoad> {
        match &self.carrier {
            Carrier::Fixed(fixed) => fixed.loads(),
            Carrier::Fabric(fabric) => {
                let all = fabric.statistics().into_iter().flatten();
                let load = all.map(|carried| PortLoad {
                    frames: carried.frames,
                    bytes: carried.bytes,
                    busy: Span::from_ps(carried.busy_ps),
                    dropped: carried.drops + carried.lost + carried.failed,
                });
                load.collect()
            }
        }
    }
}

/// Handles all events at `now` at hosts and in a fabric.
fn happen_in(
    fabric: &mut Fabric,
    now: Time,
    transport: &mut Transport,
    arrived: &mut Vec<Arrival>,
) {
    transport.advance(now, arrived);
    let sends = !transport.outbox.is_empty();
    for sent in transport.outbox.drain(..).map(Outgoing::sent) {
        fabric.send_first(sent.time, sent.host, sent.frame);
    }
    if !sends && fabric.next_time().is_none_or(|next| next > now) {
        return;
    }
    for delivery in fabric.advance(now + Span::from_ps(1)) {
        transport.came(delivery.time, delivery.host, &delivery.frame);
    }
}

impl Network for PacketNetwork {
    fn send(&mut self, time: Time, message: Message) -> Option<Time> {
        self.transport.send(time, message)
    }

    fn next_time(&self) -> Option<Time> {
        let next = match &self.carrier {
            Carrier::Fixed(fixed) => fixed.next_time(),
            Carrier::Fabric(fabric) => fabric.next_time(),
        };
        match (next, self.transport.next_time()) {
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

    fn loads(&self, until: Time) -> Vec<LinkLoad> {
        let mut ports = self.port_loads();
        for (host, dropped) in (0..).zip(self.transport.dropped()) {
            // A frame that finds a full card is lost at the end of the card's link.
            let down = self.topology.link_of(host) * 2 + 1;
            ports[down as usize].dropped += dropped;
        }
        if let Carrier::Fixed(fixed) = &self.carrier {
            for (_, port, load) in fixed.ahead(until) {
                ports[port as usize] = ports[port as usize].without(load);
            }
        }
        let used = (0..).zip(ports);
        let used = used.filter(|(_, load)| load.frames > 0 || load.dropped > 0);
        used.map(|(port, load)| {
            let direction = match port % 2 {
                0 => Direction::Up,
                _ => Direction::Down,
            };
            LinkLoad {
                name: name(&self.topology, port / 2, direction),
                bytes: load.bytes,
                busy: load.busy,
                dropped: load.dropped,
            }
        })
        .collect()
    }

    fn saved(&self, now: Time) -> Option<NetworkState> {
        // All frames that hosts sent are in the network.
        let carrier = match &self.carrier {
            Carrier::Fixed(fixed) => CarrierState::Fixed(FixedState::of(fixed, now)),
            Carrier::Fabric(fabric) => CarrierState::Fabric(fabric.save()),
        };
        Some(NetworkState::Packet(Box::new(PacketState {
            carrier,
            transport: self.transport.save(),
        })))
    }

    fn continues_from(&mut self, state: NetworkState) -> bool {
        let NetworkState::Packet(state) = state else {
            return false;
        };
        let transport = &mut self.transport;
        transport.restore(state.transport)
            && match (&mut self.carrier, state.carrier) {
                (Carrier::Fixed(fixed), CarrierState::Fixed(state)) => {
                    state.restore(fixed, &self.topology, transport)
                }
                (Carrier::Fabric(fabric), CarrierState::Fabric(state)) => {
                    fabric.restore(state).is_ok()
                }
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests;
