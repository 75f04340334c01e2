//! Frames, links, switches and topologies in virtual time.
//!
//! A [`Topology`] describes hosts, switches and links; a [`Fabric`] carries frames over it. Hosts are numbered from
//! 0; the fabric identifies them by their MAC addresses. Delivery times are a function only of the frames sent and
//! their times.
//!
//! The modules from top to bottom: `network` has frames in transit; `routing` and `distance` read a `topology`;
//! `windows` and `topology` use a `link`, which uses `frame` and `impairment`. No module imports one above it.

/// Least times between hosts.
mod distance;
/// Flow keys for ECMP.
mod flow;
/// Ethernet frames: their addresses and their time on the wire.
mod frame;
/// GraphML: network files of other tools.
pub mod graphml;
/// Frames held in a network card.
mod hold;
/// Impairments of links: loss, jitter, outages.
mod impairment;
/// One direction of a link: a queue in front of a wire.
mod link;
/// Losses of chosen frames.
mod loss;
/// Frames in transit: a topology in operation.
mod network;
/// Paths through a network.
mod path;
/// Routing of frames.
mod routing;
/// Hosts, switches and links.
mod topology;
/// Link figures over time, by windows of equal length.
mod windows;
/// Traffic between pairs of hosts.
mod wire;

pub use distance::Distances;
pub use flow::FlowKey;
pub use frame::{
    Frame, HEADERS, Head, MARK_BYTES, MIN_FRAME, Mac, WIRE_OVERHEAD, headers, wire_bytes,
};
pub use hold::Hold;
pub use impairment::{Impairment, ImpairmentError, Outage};
pub use link::{LinkSpec, LinkStatistics};
pub use loss::{FrameLoss, LossCount, LossStart};
pub use network::{
    Captured, Delivery, Direction, Fabric, FabricState, RestoreError, Settings, TrafficClass,
};
pub use path::Paths;
pub use routing::{ForwardingTables, LinkUsage, Routes, Routing, RoutingError, TableError};
pub use topology::{
    Bisection, Dragonfly, Endpoint, FatTree, GlobalPorts, GlobalWiring, HyperX, Link, LinkId,
    Measures, PartSpecs, SlimFly, SwitchSpec, Topology, TopologyError, Torus,
};
pub use windows::{LinkRecord, LinkWindow};
pub use wire::{WireCount, WirePair};
