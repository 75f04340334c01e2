//! Connections between hosts, each with its sending and its receiving end.

use std::collections::VecDeque;

use belljar_sim::Time;
use serde::{Deserialize, Serialize};

use super::receiver::Receiver;
use super::sender::Sender;
use super::state::MOST_COUNTED;

/// A connection from one host to another: one stream of messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Connection {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// True if it is in one of the queues of its sending host.
    pub(super) queued: bool,
    /// Arrivals of segments, past and future, that the receiving host has not processed.
    pub(super) arriving: VecDeque<Time>,
    /// True if a delayed acknowledgement is pending.
    pub(super) delayed: bool,
    /// The time at which the sender's timer is next checked.
    pub(super) alarm: Option<Time>,
}

impl Connection {
    fn new(from: u32, to: u32) -> Self {
        Self {
            from,
            to,
            sender: Sender::default(),
            receiver: Receiver::default(),
            queued: false,
            arriving: VecDeque::new(),
            delayed: false,
            alarm: None,
        }
    }

    /// True if these values are possible for a connection between this number of hosts.
    fn is_sound(&self, hosts: u32) -> bool {
        self.from < hosts
            && self.to < hosts
            && self.arriving.iter().is_sorted()
            && self.sender.is_sound()
            && self
                .receiver
                .is_sound(self.sender.sent(), self.sender.queued())
    }
}

/// All connections, by number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Connections {
    all: Vec<Connection>,
    /// By sending host: the receiving host and the stream, in order, with the connection's number.
    of: Vec<Vec<((u32, u64), u32)>>,
}

impl Connections {
    /// Creates an empty set of connections between this number of hosts.
    pub(super) fn of_hosts(hosts: u32) -> Self {
        Self {
            all: Vec::new(),
            of: vec![Vec::new(); hosts as usize],
        }
    }

    /// Returns the number of the connection of a stream from one host to another.
    pub(super) fn number(&mut self, from: u32, to: u32, stream: u64) -> u32 {
        let own = &mut self.of[from as usize];
        match own.binary_search_by_key(&(to, stream), |(key, _)| *key) {
            Ok(at) => own[at].1,
            Err(at) => {
                let number = self.all.len() as u32;
                own.insert(at, ((to, stream), number));
                self.all.push(Connection::new(from, to));
                number
            }
        }
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Connection> {
        self.all.get_mut(number as usize)
    }

    /// Returns the number of connections.
    pub(super) fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// Returns the number of incomplete messages.
    pub(super) fn under_way(&self) -> usize {
        self.all.iter().map(|it| it.receiver.expects()).sum()
    }

    /// True if these are possible connections between this number of hosts.
    pub(super) fn is_sound(&self, hosts: u32) -> bool {
        let mut seen = vec![false; self.all.len()];
        let mut lists = (0..).zip(&self.of);
        let lists = lists.all(|(host, own): (u32, _)| {
            let mut each = own.iter();
            own.is_sorted_by(|(one, _), (other, _)| one < other)
                && each.all(|((to, _), number)| {
                    let place = seen.get_mut(*number as usize);
                    let fresh = place.is_some_and(|place| !std::mem::replace(place, true));
                    let of = self.all.get(*number as usize);
                    fresh && of.is_some_and(|of| (of.from, of.to) == (host, *to))
                })
        });
        self.of.len() == hosts as usize
            && self.all.len() as u64 <= MOST_COUNTED >> 40
            && lists
            && seen.iter().all(|seen| *seen)
            && self.all.iter().all(|it| it.is_sound(hosts))
    }
}
