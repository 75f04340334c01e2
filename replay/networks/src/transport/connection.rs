//! Connections between hosts, each with its sending and its receiving end.

use std::collections::VecDeque;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::limits::MOST_COUNTED;
use super::receiver::Receiver;
use super::sender::Sender;

/// Longest time from the arrival of an acknowledgement to the segment that it releases: 26 to 32 us in captures of runs whose processors were idle, 2 us where the
/// kernel polled its card.
const LONGEST_RESPONSE: Span = Span::from_us(32);

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
    /// The time at which the sender learned of the last acknowledgement since its first loss.
    learned: Time,
    /// Acknowledgements since then.
    acknowledgements: u64,
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
            learned: Time::ZERO,
            acknowledgements: 0,
        }
    }

    /// Returns the time at which the sender of connection `number` learns of an acknowledgement that arrives at `at`.
    ///
    /// A kernel that polls its card answers at once, an idle one after its interrupt. Without losses this time is part of the calibrated costs. After a loss it decides who
    /// finds space in a full queue: senders with constant delays stay in phase with the queue, and one of them takes all of its space (S. Floyd and V. Jacobson, "Traffic
    /// phase effects in packet-switched gateways", 1991). The delay is therefore pseudo-random there, between both cases.
    pub(super) fn learns(&mut self, number: u32, at: Time) -> Time {
        if !self.sender.has_lost() {
            return at;
        }
        let key = (u64::from(number) << u32::BITS ^ self.acknowledgements).to_le_bytes();
        let delay = XxHash3_64::oneshot(&key) % LONGEST_RESPONSE.as_ps();
        self.acknowledgements = self.acknowledgements.wrapping_add(1);
        self.learned = self.learned.max(at + Span::from_ps(delay));
        self.learned
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_after_a_loss_are_learned_in_order_and_within_a_response() {
        let mut connection = Connection::new(0, 1);
        let at = |us: u64| Time::ZERO + Span::from_us(us);
        assert_eq!(connection.learns(0, at(1)), at(1));
        connection.sender.push(100_000);
        connection.sender.take(at(2)).expect("the window is open");
        // The probe, and the timeout after it.
        connection.sender.expire(at(300_000));
        connection.sender.take(at(300_000)).expect("a probe is due");
        connection.sender.expire(at(600_000));
        assert!(connection.sender.has_lost());
        let times: Vec<u64> = (0..1000_u64)
            .map(|number| connection.learns(7, at(1_000_000 + 100 * number)).as_ps() / 1_000_000)
            .collect();
        assert!(times.is_sorted());
        let delays = times
            .iter()
            .zip(0..)
            .map(|(time, number)| time - 1_000_000 - 100 * number);
        let delays: Vec<u64> = delays.collect();
        assert!(delays.iter().all(|delay| *delay < 32), "{delays:?}");
        let mean = delays.iter().sum::<u64>() / 1000;
        assert!((13..18).contains(&mean), "{mean}");
    }
}
