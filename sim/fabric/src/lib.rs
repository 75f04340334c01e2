//! Frames, links, switches and topologies in virtual time.
//!
//! A [`Topology`] says what is connected to what; a [`Fabric`] carries frames over
//! it. Hosts are numbered from 0; the fabric knows them by their MAC addresses.
//! Delivery times are a function of what was sent when, and of nothing else.
//!
//! From top to bottom: `network` has frames under way; `routing` and `distance` look at a `topology`; `windows` and
//! `topology` know a `link`, and that `frame` and `impairment`. None imports one above it.

/// How soon hosts can hear of each other.
mod distance;
/// What tells flows apart.
mod flow;
/// Ethernet frames: their addresses and the time that they take on a wire.
mod frame;
/// GraphML: networks as other tools write them.
pub mod graphml;
/// What goes wrong on a link: frames lost, delay that varies, outages.
mod impairment;
/// One direction of a link: a queue in front of a wire.
mod link;
/// Frames on their way: a topology in operation.
mod network;
/// Whole ways through a network.
mod path;
/// Which way frames go.
mod routing;
/// What is connected to what.
mod topology;
/// What links carry over time: figures by windows of equal length.
mod windows;
/// Who sent how much to whom.
mod wire;

pub use distance::Distances;
pub use flow::FlowKey;
pub use frame::{
    Frame, HEADERS, Head, MARK_BYTES, MIN_FRAME, Mac, WIRE_OVERHEAD, headers, wire_bytes,
};
pub use impairment::{Impairment, ImpairmentError, Outage};
pub use link::{LinkSpec, LinkStatistics};
pub use network::{
    Captured, Delivery, Direction, Fabric, FabricState, RestoreError, Settings, Traffic,
};
pub use path::Paths;
pub use routing::{ForwardingTables, LinkUsage, Routes, Routing, RoutingError, TableError};
pub use topology::{
    Bisection, Dragonfly, Endpoint, FatTree, GlobalPorts, GlobalWiring, HyperX, Link, LinkId,
    Measures, PartSpecs, SlimFly, SwitchSpec, Topology, TopologyError, Torus,
};
pub use windows::{LinkRecord, LinkWindow};
pub use wire::{WireCount, WirePair};
