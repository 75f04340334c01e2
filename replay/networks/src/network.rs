//! The interface of network models: messages in, arrivals out, and the load of links.
//!
//! Messages are passed in the order of time. Implemented by all models, used by replay.

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::flow::FlowState;
use crate::message::{Arrival, Message};
use crate::packet::PacketState;

/// The load of a link in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkLoad {
    /// The link and the direction, such as `host3-switch0 up`.
    pub name: String,
    /// Bytes on it, including headers.
    pub bytes: u64,
    /// Time for which it was busy, at its full bandwidth.
    pub busy: Span,
    /// Frames lost for lack of space, if the model has frames.
    pub dropped: u64,
}

/// A network at a point in time.
pub trait Network {
    /// A message begins to leave its host at `time`, which is no earlier than any time passed to or returned by this network. If its arrival is
    /// already known, that is returned, and [`advance`](Self::advance) does not report it.
    fn send(&mut self, time: Time, message: Message) -> Option<Time>;

    /// The same for a message that the sender's card sends by itself, in answer to another card's request to read its host's memory.
    fn answer(&mut self, time: Time, message: Message) -> Option<Time> {
        self.send(time, message)
    }

    /// Returns the time of the network's next event, if there is one.
    fn next_time(&self) -> Option<Time>;

    /// Handles the event at [`next_time`](Self::next_time), and adds to `arrived` the messages whose arrivals become known, at that time or later.
    fn advance(&mut self, arrived: &mut Vec<Arrival>);

    /// Handles all events until `limit`, but stops when any message is added.
    fn advance_to(&mut self, limit: Time, arrived: &mut Vec<Arrival>) {
        while arrived.is_empty() && self.next_time().is_some_and(|time| time <= limit) {
            self.advance(arrived);
        }
    }

    /// Returns the load of links that carried anything until `until`, the present time or later.
    fn loads(&self, until: Time) -> Vec<LinkLoad>;

    /// Returns the links that wait for each other in a circle, so that no message over them arrives.
    fn blocked(&self) -> Option<Vec<String>> {
        None
    }

    /// Returns the mutable state between two events, at `now`, if the model can be saved.
    fn saved(&self, _now: Time) -> Option<NetworkState> {
        None
    }

    /// Continues from an untrusted `state`, and returns true if it fits this network. Otherwise, the network must not be used any more.
    #[must_use]
    fn continues_from(&mut self, _state: NetworkState) -> bool {
        false
    }
}

/// The mutable state of a network, as plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NetworkState {
    /// A network of flows.
    Flow(FlowState),
    /// A network of frames.
    Packet(Box<PacketState>),
}
