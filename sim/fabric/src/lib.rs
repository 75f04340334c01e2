//! Frames, links, switches and topologies in virtual time.
//!
//! A [`Topology`] says what is connected to what; a [`Fabric`] carries frames over
//! it. Hosts are numbered from 0; the fabric knows them by their MAC addresses.
//! Delivery times are a function of what was sent when, and of nothing else.

mod distance;
mod flow;
mod frame;
pub mod graphml;
mod impairment;
mod link;
mod network;
mod routing;
mod topology;
mod windows;

pub use distance::Distances;
pub use flow::FlowKey;
pub use frame::{Frame, MIN_FRAME, Mac, WIRE_OVERHEAD, wire_bytes};
pub use impairment::{Impairment, ImpairmentError, Outage};
pub use link::{LinkSpec, LinkStatistics};
pub use network::{Captured, Delivery, Direction, Fabric, FabricState, RestoreError, Settings};
pub use routing::{Routing, RoutingError};
pub use topology::{
    Dragonfly, Endpoint, FatTree, Link, LinkId, Measures, PartSpecs, SwitchSpec, Topology,
    TopologyError, Torus,
};
pub use windows::{LinkRecord, LinkWindow};
