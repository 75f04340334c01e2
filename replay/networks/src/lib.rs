//! How long messages take: models of networks, from frames to formulas.
//!
//! A [`Network`] is given messages in the order of time and says when all of each has arrived. Three models take the same messages:
//! [`PacketNetwork`] sends frames through the fabric of live runs, [`FlowNetwork`] shares links fairly among messages, [`LogGops`] has
//! no links at all. What hosts do for each frame bounds how fast a message goes in all of them ([`Pace`]). Results depend on what is sent when, and
//! on nothing else. Nothing here knows of MPI. Called by replay.
//!
//! From top to bottom: `packet` and `live` know `transport`; that, `flow` and `loggops` each know `network`; the first two know `way`.

/// A network in which messages share links fairly.
mod flow;
/// Hosts on a network that others operate.
mod live;
/// A network of formulas.
mod loggops;
/// What models of networks have in common.
mod network;
/// A network of frames.
mod packet;
/// Topologies for tests.
#[cfg(test)]
mod shapes;
/// What hosts do so that messages become frames.
mod transport;
/// Ways through a network.
mod way;

pub use flow::{FlowNetwork, FlowState};
pub use live::{LiveNetwork, LiveState};
pub use loggops::{LogGops, Parameters};
pub use network::{
    Arrival, LinkLoad, MOST_BYTES, Message, MessageId, Network, NetworkState, Pace, Paces,
    frames_of, on_wire,
};
pub use packet::{PacketNetwork, PacketState};
pub use transport::Sent;
pub use way::Latencies;
