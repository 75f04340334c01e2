//! Network models that determine the duration of messages, from frames to formulas.
//!
//! A [`Network`] takes messages in the order of time and reports the arrival of each. Three models take the same messages: [`PacketNetwork`] sends
//! frames through the fabric of live runs, [`FlowNetwork`] shares links fairly among messages, [`LogGops`] has no links. In all of them, hosts'
//! work for each frame bounds the rate of a message ([`Pace`]). Results depend only on the messages and their times. This crate does not depend on
//! MPI. Used by replay.
//!
//! From top to bottom: `packet` and `live` use `transport`; `transport`, `flow` and `loggops` each use `network`; `packet` and `flow` use `way`.

/// A network in which messages share links fairly.
mod flow;
/// Hosts on a network with another operator.
mod live;
/// A network of formulas.
mod loggops;
/// Common parts of network models.
mod network;
/// A network of frames.
mod packet;
/// Topologies for tests.
#[cfg(test)]
mod shapes;
/// TCP of the hosts, which splits messages into frames.
mod transport;
/// Routes through a network.
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
