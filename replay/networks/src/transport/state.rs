//! The state of all hosts, as plain values.
//!
//! With the topology and the hosts' pace it says everything that is to come. A state may come from a file that anybody wrote, so it is checked before it is
//! used. Called for checkpoints of runs with background traffic.

use belljar_sim::Time;
use serde::{Deserialize, Serialize};

use super::connection::Connections;
use super::transits::Transits;
use super::{Happening, Pair, Sender, Transit, Turn};
use crate::network::{MOST_BYTES, frames_of};

/// More than anything can have been counted to in all of representable time.
pub(crate) const MOST_COUNTED: u64 = 1 << 62;

/// All that changes of hosts that send and receive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TransportState {
    pub(super) senders: Vec<Sender>,
    /// When each host has taken in what came.
    pub(super) receivers: Vec<Time>,
    pub(super) connections: Connections,
    /// By the order of sending: numbers of messages return.
    pub(super) transits: Transits,
    /// What is to happen, in its order; while hosts are at work that stands elsewhere.
    pub(super) happenings: Vec<(Time, Happening, u64)>,
    pub(super) happened: u64,
}

impl TransportState {
    /// Nothing has been sent by so many hosts.
    pub(super) fn of_hosts(hosts: u32) -> Self {
        Self {
            senders: vec![Sender::default(); hosts as usize],
            receivers: vec![Time::ZERO; hosts as usize],
            connections: Connections::of_hosts(hosts),
            ..Self::default()
        }
    }

    /// Whether it could have come about between so many hosts.
    pub(super) fn is_sound(&self, hosts: u32) -> bool {
        let exist = |(from, to): Pair| from < hosts && to < hosts;
        let counted = self.transits.sent().max(self.happened) <= MOST_COUNTED;
        let lists = self.senders.len() == hosts as usize && self.receivers.len() == hosts as usize;
        let mut senders = self.senders.iter();
        let senders = senders.all(|sender| {
            sender.frames <= MOST_COUNTED && sender.turns.iter().all(|turn| self.is_turn(turn))
        });
        let mut all = self.connections.iter();
        let connections = self.connections.is_sound(hosts)
            && all.all(|connection| {
                connection.is_sound() && connection.waiting().all(|turn| self.is_turn(turn))
            });
        let mut transits = self.transits.iter();
        let transits = transits.all(|transit| {
            let message = transit.message;
            exist((message.from, message.to)) && message.bytes <= MOST_BYTES && transit.is_sound()
        });
        let mut happenings = self.happenings.iter();
        let happenings = happenings.all(|(_, happening, number)| {
            let known = match happening {
                Happening::Told(pair, _) | Happening::Acknowledges(pair, _) => exist(*pair),
                Happening::Lost(own, index) => self.is_frame(*own, *index),
                Happening::Looks(_) => true,
                Happening::Makes(host) => *host < hosts,
            };
            known && *number < self.happened
        });
        counted && lists && senders && connections && transits && happenings
    }

    fn is_turn(&self, (own, frames): &Turn) -> bool {
        frames.start < frames.end && self.is_frame(*own, frames.end - 1)
    }

    /// Of a message that has come nothing is looked at.
    fn is_frame(&self, own: u64, index: u64) -> bool {
        let transit = self.transits.get(own);
        transit.is_none_or(|transit| index < frames_of(transit.message.bytes))
    }
}

impl Transit {
    fn is_sound(&self) -> bool {
        let frames = frames_of(self.message.bytes);
        let mut missing = self.missing.iter();
        self.sent <= frames
            && self.known <= frames
            && missing.all(|(index, later)| *index < self.known && *later <= MOST_COUNTED)
    }
}
