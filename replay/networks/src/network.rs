//! What models of networks have in common: messages, arrivals, and what hosts do for each frame.
//!
//! A message goes as frames of TCP over IPv4 and Ethernet, as the nodes' own systems send it. Used by all models and by replay.

use std::collections::BTreeMap;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::flow::FlowState;
use crate::packet::PacketState;

/// The number of a message that is under way, as whoever sends it counts them.
pub type MessageId = u32;

/// Bytes of data in a full frame: 1500 of IP, less 20 of its header and 32 of TCP's with time stamps (RFC 7323).
pub(crate) const SEGMENT: u64 = 1448;

/// Bytes of a frame besides its data, from the destination's address on: 14 of Ethernet, 20 of IP, 32 of TCP.
pub(crate) const HEADERS: u64 = belljar_fabric::HEADERS as u64;

/// Bytes of a message, at most: a network of frames makes them one by one.
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
    /// Bytes, the library's own headers included.
    pub bytes: u64,
    /// Number of the stream: messages of one stream from one host to another arrive in order of sending.
    pub stream: u64,
}

/// A message whose last frame has been taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub time: Time,
    /// The message.
    pub id: MessageId,
}

/// What hosts do for each frame, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Time that a sender takes for each frame but a message's first.
    pub sends: Span,
    /// Time that a receiver takes for each frame but a message's first.
    pub receives: Span,
    /// Time that a message takes from one process to another of its own host, besides what copying takes.
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
    /// The same, with another pace of one host.
    #[must_use]
    pub fn with(mut self, host: u32, pace: Pace) -> Self {
        if pace == self.usual {
            self.others.remove(&host);
        } else {
            self.others.insert(host, pace);
        }
        self
    }

    /// That of a host.
    pub fn of(&self, host: u32) -> &Pace {
        self.others.get(&host).unwrap_or(&self.usual)
    }
}

/// What a direction of a link carried.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkLoad {
    /// The link and the direction, such as `host3-switch0 up`.
    pub name: String,
    /// Bytes on it, headers included.
    pub bytes: u64,
    /// Time during which it was busy, at its full bandwidth.
    pub busy: Span,
    /// Frames that found no room, where the model has frames.
    pub dropped: u64,
}

/// A network, at some point in time.
pub trait Network {
    /// A message begins to leave its host at `time`, which is no earlier than any time that this network was told or told of. If it is known
    /// already when all of it will have arrived, that is returned, and [`advance`](Self::advance) does not tell it.
    fn send(&mut self, time: Time, message: Message) -> Option<Time>;

    /// When something happens next in the network, if anything does.
    fn next_time(&self) -> Option<Time>;

    /// Lets happen what happens at [`next_time`](Self::next_time), and adds to `arrived` the messages of which it becomes known when they arrive: at
    /// that time or later.
    fn advance(&mut self, arrived: &mut Vec<Arrival>);

    /// The same at all times until `limit`, up to the first at which any message is added.
    fn advance_to(&mut self, limit: Time, arrived: &mut Vec<Arrival>) {
        while arrived.is_empty() && self.next_time().is_some_and(|time| time <= limit) {
            self.advance(arrived);
        }
    }

    /// What links carried, those that carried anything.
    fn loads(&self) -> Vec<LinkLoad>;

    /// All that changes, between two events, where a model can be saved.
    fn saved(&self) -> Option<NetworkState> {
        None
    }

    /// Continues from `state`, which anybody may have written; whether it can be one of this network. If not, the network must not be used any more.
    #[must_use]
    fn continues_from(&mut self, _state: NetworkState) -> bool {
        false
    }
}

/// All that changes of a network, as plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NetworkState {
    /// Of messages that share links.
    Flow(FlowState),
    /// Of frames.
    Packet(Box<PacketState>),
}

/// Frames of a message of so many bytes: one at least.
pub fn frames_of(bytes: u64) -> u64 {
    bytes.div_ceil(SEGMENT).max(1)
}

/// Bytes of time on a wire of a message of so many bytes, with all headers, preambles and gaps.
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
