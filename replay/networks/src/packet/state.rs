//! The state of a network of frames, as plain values.
//!
//! With the topology and the settings it determines all further events. A state may come from an untrusted file, so it is checked before it is used. Frames in transit
//! are stored with their contents and the number of links behind them. Used for checkpoints of simulations.

use belljar_fabric::{FabricState, Topology};
use belljar_sim::Time;
use serde::{Deserialize, Serialize};

use super::days::Hop;
use super::fixed::{FixedFabric, Returning};
use super::ports::{PortLoad, PortState};
use crate::transport::{Mark, Transport, TransportState};

/// The mutable state of a [`PacketNetwork`](super::PacketNetwork), as plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PacketState {
    pub(super) carrier: CarrierState,
    pub(super) transport: TransportState,
}

/// The mutable state of a network's links.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum CarrierState {
    Fixed(FixedState),
    Fabric(FabricState),
}

/// The mutable state of a network of fixed routes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FixedState {
    ports: Vec<PortState>,
    hops: Vec<HopState>,
    /// The load by frames that were sent ahead of the present time, with their times and directions.
    ahead: Vec<(Time, u32, PortLoad)>,
    /// Acknowledgements that hosts do not know yet: the times at which they are sent over the last link and arrive.
    returning: Vec<(Time, Time, Mark)>,
}

/// A frame's arrival at a switch.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct HopState {
    time: Time,
    mark: Mark,
    length: u32,
    /// The number of links of its route behind it.
    links: u32,
}

/// Most bytes of a frame.
const MOST_LENGTH: u32 = 1 << 16;

impl FixedState {
    /// Returns the state at `now`.
    pub(super) fn of(fixed: &FixedFabric, now: Time) -> Self {
        let hops = fixed.days.sorted();
        let returning = fixed.returning.iter();
        Self {
            ports: fixed.ports.save(),
            hops: hops.iter().map(|hop| HopState::of(fixed, hop)).collect(),
            ahead: fixed.ahead(now).collect(),
            returning: returning.map(|it| (it.known, it.at, it.mark)).collect(),
        }
    }

    /// Continues from it with these hosts, and returns true if it fits the topology.
    pub(super) fn restore(
        self,
        fixed: &mut FixedFabric,
        topology: &Topology,
        transport: &mut Transport,
    ) -> bool {
        *fixed = FixedFabric::new(topology);
        let directions = fixed.ports.len() as u32;
        let acknowledges = |mark: &Mark| matches!(mark, Mark::Acknowledgement(..));
        let mut returning = self.returning.iter();
        let sound = returning.all(|(known, at, mark)| known <= at && acknowledges(mark))
            && self.returning.is_sorted_by_key(|(known, ..)| *known)
            && self.ahead.iter().all(|(_, port, _)| *port < directions)
            && fixed.ports.restore(self.ports);
        let mut hops = Vec::new();
        for hop in &self.hops {
            match hop.restored(fixed, topology, transport) {
                Some(hop) => hops.push(hop),
                None => return false,
            }
        }
        fixed.days.restore(hops.into_iter());
        fixed.ahead = self.ahead;
        fixed.returning = self
            .returning
            .into_iter()
            .map(|(known, at, mark)| Returning { known, at, mark })
            .collect();
        sound
    }
}

impl HopState {
    fn of(fixed: &FixedFabric, hop: &Hop) -> Self {
        let mark = fixed.frames[hop.frame as usize];
        Self {
            time: hop.time,
            mark,
            length: hop.length,
            links: hop.position - fixed.known_begin(mark),
        }
    }

    /// Returns the arrival, if it is on a route of a connection.
    fn restored(
        &self,
        fixed: &mut FixedFabric,
        topology: &Topology,
        transport: &mut Transport,
    ) -> Option<Hop> {
        let begin = fixed.begin(topology, self.mark, transport)?;
        let source = fixed.passed(begin, self.links)?;
        let frame = fixed.insert(self.mark);
        (self.length <= MOST_LENGTH).then_some(Hop {
            time: self.time,
            source,
            frame,
            position: begin + self.links,
            length: self.length,
        })
    }
}
