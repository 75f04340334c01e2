//! Frames, links, switches and topologies in virtual time.
//!
//! A [`Topology`] says what is connected to what; a [`Fabric`] carries frames over
//! it. Hosts are numbered from 0; the fabric knows them by their MAC addresses.
//! Delivery times are a function of what was sent when, and of nothing else.

mod distance;
mod frame;
mod link;
mod network;
mod topology;

pub use distance::Distances;
pub use frame::{Frame, MIN_FRAME, Mac, WIRE_OVERHEAD, wire_bytes};
pub use link::{LinkSpec, LinkStatistics};
pub use network::{Captured, Delivery, Direction, Fabric};
pub use topology::{Endpoint, Link, LinkId, SwitchSpec, Topology, TopologyError};
