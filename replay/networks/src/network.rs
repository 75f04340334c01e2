//! Common parts of network models: messages, arrivals, and hosts' work for each frame.
//!
//! A message is sent as frames of TCP over IPv4 and Ethernet, as the nodes' own systems send it. Used by all models and by replay.

use std::collections::BTreeMap;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::flow::FlowState;
use crate::packet::PacketState;

/// The number of a message in flight, chosen by the sender.
pub type MessageId = u32;

/// Bytes of data in a full frame: 1500 of IP, minus 20 of its header and 32 of TCP's with time stamps (RFC 7323).
pub(crate) const SEGMENT: u64 = 1448;

/// Bytes of a frame besides its data, from the destination's address on: 14 of Ethernet, 20 of IP, 32 of TCP.
pub(crate) const HEADERS: u64 = belljar_fabric::HEADERS as u64;

/// Most bytes of a message, since a network of frames creates them one by one.
pub const MOST_BYTES: u64 = 1 << 40;

/// A message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its number.
    pub id: MessageId,
    /// The host that sends it.
    pub from: u32,
    /// The host that receives it.
    pub to: u32,
    /// Bytes, including the library's own headers.
    pub bytes: u64,
    /// Number of the stream: messages of one stream from one host to another arrive in order of sending.
    pub stream: u64,
}

/// A message whose last frame has been taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time.
    pub time: Time,
    /// The message.
    pub id: MessageId,
}

/// A host's work for each frame, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// A sender's time for each frame after a message's first.
    pub sends: Span,
    /// A receiver's time for each frame after a message's first.
    pub receives: Span,
    /// Time of a message between processes of the same host, without copying.
    pub within: Span,
    /// Time for each full frame's data that is copied within a host.
    pub copies: Span,
}

/// The pace of each host of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paces {
    usual: Pace,
    others: BTreeMap<u32, Pace>,
}

impl From<Pace> for Paces {
    fn from(usual: Pace) -> Self {
        Self {
            usual,
            others: BTreeMap::new(),
        }
    }
}

impl Paces {
    /// Returns the same with another pace for one host.
    #[must_use]
    pub fn with(mut self, host: u32, pace: Pace) -> Self {
        if pace == self.usual {
            self.others.remove(&host);
        } else {
            self.others.insert(host, pace);
        }
        self
    }

    /// Returns the pace of a host.
    pub fn of(&self, host: u32) -> &Pace {
        self.others.get(&host).unwrap_or(&self.usual)
    }
}

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

    /// Returns the load of links that carried anything.
    fn loads(&self) -> Vec<LinkLoad>;

    /// Returns the mutable state between two events, if the model can be saved.
    fn saved(&self) -> Option<NetworkState> {
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

/// Returns the frames of a message of this many bytes, at least one.
pub fn frames_of(bytes: u64) -> u64 {
    bytes.div_ceil(SEGMENT).max(1)
}

/// Returns the bytes on a wire of a message of this many bytes, with all headers, preambles and gaps.
pub fn on_wire(bytes: u64) -> u64 {
    let full = bytes / SEGMENT;
    let rest = bytes % SEGMENT;
    let of_frame = |data: u64| belljar_fabric::wire_bytes((HEADERS + data) as usize);
    let last = if rest > 0 || full == 0 {
        of_frame(rest)
    } else {
        0
    };
    full.saturating_mul(of_frame(SEGMENT)).saturating_add(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_many_frames_as_it_fills() {
        assert_eq!(frames_of(0), 1);
        assert_eq!(frames_of(SEGMENT), 1);
        assert_eq!(frames_of(SEGMENT + 1), 2);
        // IEEE 802.3: 1514 bytes, 4 of checksum, 20 of preamble and gap.
        assert_eq!(on_wire(SEGMENT), 1538);
        assert_eq!(on_wire(SEGMENT + 1), 1538 + 66 + 1 + 24);
        assert_eq!(on_wire(0), 66 + 24);
    }
}
