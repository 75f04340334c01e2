//! The sending side of a link: its wire, the credits of the far side's buffer, and the packets that wait for both.

use std::collections::{BTreeMap, VecDeque};

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use belljar_congestion::Marker;

use crate::{Parcel, Transit};

/// Figures of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFigures {
    /// Packets sent.
    pub packets: u64,
    /// Their bytes, with all headers and checksums.
    pub bytes: u64,
    /// Time during which the wire was busy, in picoseconds.
    pub busy_ps: u64,
    /// Time during which packets were ready and could not leave, summed over packets, in picoseconds.
    pub wait_ps: u64,
    /// Time during which the wire was idle and packets waited for credits, in picoseconds: `PortXmitWait` of the specification.
    pub credit_wait_ps: u64,
    /// Packets that a switch marked here by its congestion control.
    pub marks: u64,
    /// The most bytes that waited here on one virtual lane.
    pub longest_queue: u64,
}

/// The sending side of a link.
#[derive(Clone, Debug)]
pub(crate) struct Port<P> {
    /// Time at which the wire becomes idle.
    pub(crate) free_at: Time,
    /// Time since which packets wait without a break, or later if the wire was busy then.
    pub(crate) since: Time,
    /// The time of the port's last event.
    pub(crate) now: Time,
    /// When the port next tries to send. Also in the fabric's set of attempts.
    pub(crate) attempt: Option<Time>,
    /// For each lane.
    pub(crate) lanes: Vec<Lane<P>>,
    /// The lane that sent last.
    pub(crate) last: u8,
    pub(crate) figures: PortFigures,
}

/// One virtual lane of a port.
#[derive(Clone, Debug)]
pub(crate) struct Lane<P> {
    /// Bytes of the far buffer that are free.
    pub(crate) credits: u64,
    /// Bytes that become free, by the time at which the port learns of it.
    pub(crate) returns: BTreeMap<Time, u64>,
    /// Packets that are ready, by the link that they came from: one queue for each, so that a packet waits only for its own output.
    pub(crate) waiting: BTreeMap<u32, VecDeque<Transit<P>>>,
    /// The link whose packet left last.
    pub(crate) last: u32,
    /// Bytes of the packets that wait.
    pub(crate) queue: u64,
    /// Marks of congestion control.
    pub(crate) marker: Marker,
}

impl<P: Parcel> Lane<P> {
    /// The link whose turn it is, of those with packets.
    fn turn(&self) -> Option<u32> {
        let after = self.waiting.range(self.last.saturating_add(1)..).next();
        after
            .or(self.waiting.first_key_value())
            .map(|(from, _)| *from)
    }

    /// The earliest time at which the packet whose turn it is has its credits, as far as known.
    fn served_at(&self) -> Option<Time> {
        let need = self.waiting.get(&self.turn()?)?.front()?.length();
        let mut credits = self.credits;
        if credits >= need {
            return Some(Time::ZERO);
        }
        for (time, bytes) in &self.returns {
            credits += bytes;
            if credits >= need {
                return Some(*time);
            }
        }
        None
    }

    /// Adds a packet behind those of its link.
    pub(crate) fn push(&mut self, transit: Transit<P>) {
        self.queue = self.queue.saturating_add(transit.length());
        let queue = self.waiting.entry(transit.input).or_default();
        queue.push_back(transit);
    }

    /// Takes the packet whose turn it is, with its credits.
    fn take(&mut self) -> Option<Transit<P>> {
        let from = self.turn()?;
        let queue = self.waiting.get_mut(&from)?;
        let transit = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&from);
        }
        self.last = from;
        self.queue = self.queue.saturating_sub(transit.length());
        self.credits = self.credits.saturating_sub(transit.length());
        Some(transit)
    }
}

impl<P: Parcel> Port<P> {
    /// An idle port with this many lanes, before a buffer of this many bytes for each of them.
    pub(crate) fn new(lanes: u8, buffer: u64) -> Self {
        let lane = |_| Lane {
            credits: buffer,
            returns: BTreeMap::new(),
            waiting: BTreeMap::new(),
            last: 0,
            queue: 0,
            marker: Marker::default(),
        };
        Self {
            free_at: Time::ZERO,
            since: Time::ZERO,
            now: Time::ZERO,
            attempt: None,
            lanes: (0..lanes).map(lane).collect(),
            last: 0,
            figures: PortFigures::default(),
        }
    }

    /// True if packets wait.
    pub(crate) fn is_waiting(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.waiting.is_empty())
    }

    /// Adds a packet that is ready at `now`.
    pub(crate) fn wait(&mut self, now: Time, transit: Transit<P>) {
        self.now = now;
        if !self.is_waiting() {
            self.since = now.max(self.free_at);
        }
        if let Some(lane) = self.lanes.get_mut(usize::from(transit.lane)) {
            lane.push(transit);
            self.figures.longest_queue = self.figures.longest_queue.max(lane.queue);
        }
    }

    /// The time that the wire and the waiting packets take at `rate` bits per second.
    pub(crate) fn queue(&self, now: Time, rate: u64) -> Span {
        let bytes: u64 = self.lanes.iter().map(|lane| lane.queue).sum();
        self.free_at.max(now).since(now) + Span::of_transfer(bytes, rate)
    }

    /// Bytes of a lane's far buffer become free.
    pub(crate) fn give_back(&mut self, lane: u8, time: Time, bytes: u64) {
        if let Some(lane) = self.lanes.get_mut(usize::from(lane)) {
            *lane.returns.entry(time).or_default() += bytes;
        }
    }

    /// When the port can next send, as far as known.
    pub(crate) fn next_attempt(&self) -> Option<Time> {
        let served = self.lanes.iter().filter_map(Lane::served_at).min();
        served.map(|time| time.max(self.now).max(self.free_at))
    }

    /// Takes the packet that leaves at `now`, if one has its credits: lanes take turns, and the links of a lane.
    pub(crate) fn take(&mut self, now: Time) -> Option<Transit<P>> {
        self.now = now;
        for lane in &mut self.lanes {
            while let Some(entry) = lane.returns.first_entry()
                && *entry.key() <= now
            {
                lane.credits += entry.remove();
            }
        }
        let count = self.lanes.len();
        let order = (1..=count).map(|step| (usize::from(self.last) + step) % count);
        let lane = order
            .into_iter()
            .find(|lane| self.lanes[*lane].served_at() == Some(Time::ZERO))?;
        self.last = lane as u8;
        self.lanes[lane].take()
    }

    /// Counts a packet that begins at `now` and was ready at `ready`.
    pub(crate) fn send(&mut self, now: Time, ready: Time, busy: Span, bytes: u64) {
        let figures = &mut self.figures;
        figures.packets += 1;
        figures.bytes = figures.bytes.saturating_add(bytes);
        figures.busy_ps = figures.busy_ps.saturating_add(busy.as_ps());
        figures.wait_ps = figures.wait_ps.saturating_add(now.since(ready).as_ps());
        let idle = now.since(self.since);
        figures.credit_wait_ps = figures.credit_wait_ps.saturating_add(idle.as_ps());
        self.free_at = now + busy;
        self.since = self.free_at;
    }
}
