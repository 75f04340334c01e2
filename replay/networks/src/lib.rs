//! Network models that determine the duration of messages, from frames to formulas.
//!
//! A [`Network`] takes messages in the order of time and reports the arrival of each. Four models take the same messages: [`PacketNetwork`] sends
//! frames through the fabric of live runs, [`FlowNetwork`] shares links fairly among messages, [`LogGops`] has no links. [`InfinibandNetwork`] sends packets of InfiniBand cards. In the others, hosts'
//! work for each frame bounds the rate of a message ([`Pace`]). Results depend only on the messages and their times. This crate does not depend on
//! MPI. Used by replay.
//!
//! From top to bottom: `packet`, `flow`, `live`, `loggops` and `infiniband` implement `network`; `packet` and `live` use `transport`; `transport`, `packet` and `flow` use `way`; all
//! use `message` and `pace`.

/// A network in which messages share links fairly.
mod flow;
/// InfiniBand cards and their network.
mod infiniband;
/// Hosts on a network with another operator.
mod live;
/// A network of formulas.
mod loggops;
/// Messages and their size on the wire.
mod message;
/// The interface of network models.
mod network;
/// Hosts' work for each frame.
mod pace;
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
pub use infiniband::{Cards, InfinibandModel, InfinibandNetwork};
pub use live::{LiveNetwork, LiveState};
pub use loggops::{LogGops, Parameters};
pub use message::{Arrival, MOST_BYTES, Message, MessageId, frames_of, on_wire};
pub use network::{LinkLoad, Network, NetworkState};
pub use pace::{Pace, Paces};
pub use packet::{PacketNetwork, PacketState};
pub use transport::Sent;
pub use way::Latencies;
