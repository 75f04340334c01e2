//! One direction of a link: a queue in front of a wire.
//!
//! A frame's fate is determined when it is sent, and frames arrive in the order in which they were sent:
//! calls come in order of time. Called by the fabric for each frame and hop.

use std::collections::VecDeque;
use std::sync::Arc;

use belljar_sim::{Seed, Span, Time};
use serde::{Deserialize, Serialize};

use crate::frame::wire_bytes;
use crate::impairment::{Chance, Impairment};

/// Properties of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// Bits per second, in each direction.
    pub bandwidth: u64,
    /// Propagation delay.
    pub latency: Span,
}

impl LinkSpec {
    /// The time for which a frame of `length` bytes occupies the wire.
    pub fn transmission(&self, length: usize) -> Span {
        Span::of_transfer(wire_bytes(length), self.bandwidth)
    }
}

/// Figures of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatistics {
    /// Frames whose last bit was sent, including those lost at random.
    pub frames: u64,
    /// Bytes of these frames, without preamble, checksum and gap.
    pub bytes: u64,
    /// Frames dropped because the queue was full.
    pub drops: u64,
    /// Frames lost on the wire at random, or by the user's choice.
    pub lost: u64,
    /// Frames lost because the link failed during transmission, or was down.
    pub failed: u64,
    /// Longest queue, in bytes.
    pub longest_queue: u64,
    /// Time during which the wire was busy, in picoseconds.
    pub busy_ps: u64,
}

/// Reason that a frame is not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The queue is full.
    Full,
    /// The link is down.
    Down,
}

/// The way in which a frame leaves a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Its last bit arrives at the other end at this time.
    Arrives(Time),
    /// It is lost on the wire at random, or by the user's choice.
    Lost,
    /// The link fails before its last bit arrives.
    Failed,
}

/// A frame's passage through a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// Time at which its first bit is on the wire, or the link's failure if that is earlier.
    pub(crate) start: Time,
    /// Time at which it leaves the queue: its last bit is on the wire, or the link fails.
    pub(crate) leaves: Time,
    /// Bytes in the queue after it is added, including its own.
    pub(crate) queued: u64,
    pub(crate) exit: Exit,
}

/// Properties of a port.
#[derive(Clone, Debug)]
pub(crate) struct PortSpec {
    pub(crate) link: LinkSpec,
    /// Capacity of the queue in bytes, including the frame on the wire.
    pub(crate) capacity: u64,
    /// Number among all directions of all links.
    pub(crate) number: u64,
    pub(crate) seed: Seed,
    pub(crate) impairment: Option<Arc<Impairment>>,
}

/// A sending port: frames wait in a finite queue for the wire.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    spec: PortSpec,
    chance: Option<Box<Chance>>,
    pub(crate) state: PortState,
}

/// The state of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortState {
    /// Time at which the wire becomes idle.
    free_at: Time,
    /// Time at which the last bit sent so far arrives at the other end.
    last_arrival: Time,
    /// Frames that wait or are on the wire: the time at which they leave the queue, and their bytes.
    waiting: VecDeque<(Time, u64)>,
    /// Total bytes of these.
    queued: u64,
    /// Frames whose fate was drawn at random.
    pub(crate) accepted: u64,
    pub(crate) statistics: LinkStatistics,
}

/// A limit above any count in all of representable time.
pub(crate) const MOST_COUNTED: u64 = 1 << 62;

impl PortState {
    /// True if a port can have this state.
    pub(crate) fn is_sound(&self) -> bool {
        let mut waiting = self.waiting.iter();
        let sum = waiting.try_fold(0_u64, |sum, &(_, bytes)| sum.checked_add(bytes));
        let counted = &self.statistics;
        let counts = [
            self.accepted,
            counted.frames,
            counted.bytes,
            counted.drops,
            counted.lost,
            counted.failed,
        ];
        sum == Some(self.queued)
            && self.waiting.iter().is_sorted_by_key(|&(leaves, _)| leaves)
            && counts.iter().all(|&count| count <= MOST_COUNTED)
    }
}

impl Port {
    pub(crate) fn new(spec: PortSpec, state: PortState) -> Self {
        let random = spec.impairment.as_ref().filter(|it| it.is_random());
        let chance = random.map(|impairment| {
            let chance = Chance::new(spec.seed, spec.number, impairment, state.accepted);
            Box::new(chance)
        });
        Self {
            spec,
            chance,
            state,
        }
    }

    /// Its properties.
    pub(crate) fn spec(&self) -> &PortSpec {
        &self.spec
    }

    /// The time from `now` until the wire is idle.
    pub(crate) fn busy_for(&self, now: Time) -> Span {
        self.state.free_at.max(now).since(now)
    }

    /// Sends a frame that is ready at `now`. Calls must be in order of time.
    pub(crate) fn send(&mut self, now: Time, length: usize) -> Result<Passage, Refusal> {
        self.pass(now, length, false)
    }

    /// The same for a frame that is lost on the wire, unless the link fails before.
    pub(crate) fn lose(&mut self, now: Time, length: usize) -> Result<Passage, Refusal> {
        self.pass(now, length, true)
    }

    fn pass(&mut self, now: Time, length: usize, is_lost: bool) -> Result<Passage, Refusal> {
        let bytes = length as u64;
        self.state.drain(now);
        let impairment = self.spec.impairment.as_deref();
        if impairment.is_some_and(|impairment| impairment.is_down(now)) {
            self.state.statistics.failed += 1;
            return Err(Refusal::Down);
        }
        if self.state.queued.saturating_add(bytes) > self.spec.capacity {
            self.state.statistics.drops += 1;
            return Err(Refusal::Full);
        }
        let failure = impairment.and_then(|impairment| impairment.next_failure(now));
        let busy = self.spec.link.transmission(length);
        let chance = self.chance.as_mut().map(|chance| chance.next());
        let state = &mut self.state;
        state.accepted += 1;
        let mut start = now.max(state.free_at);
        let mut leaves = start + busy;
        // Jitter only adds delay; a frame never overtakes the one before it.
        let late = chance.map_or(Span::ZERO, |fate| fate.late);
        let arrival = leaves + self.spec.link.latency + late;
        let arrival = arrival.max(state.last_arrival + busy);
        let exit = match failure {
            Some(failure) if failure < arrival => {
                start = start.min(failure);
                leaves = leaves.min(failure);
                Exit::Failed
            }
            _ if is_lost || chance.is_some_and(|fate| fate.lost) => Exit::Lost,
            _ => Exit::Arrives(arrival),
        };
        if exit != Exit::Failed {
            state.last_arrival = arrival;
        }
        state.free_at = leaves;
        state.queued += bytes;
        state.waiting.push_back((leaves, bytes));
        state.count(bytes, leaves.since(start), exit);
        Ok(Passage {
            start,
            leaves,
            queued: state.queued,
            exit,
        })
    }
}

impl PortState {
    /// Removes frames that have left at `now`.
    fn drain(&mut self, now: Time) {
        while let Some(&(leaves, bytes)) = self.waiting.front()
            && leaves <= now
        {
            self.waiting.pop_front();
            self.queued -= bytes;
        }
    }

    fn count(&mut self, bytes: u64, busy: Span, exit: Exit) {
        let statistics = &mut self.statistics;
        statistics.busy_ps = statistics.busy_ps.saturating_add(busy.as_ps());
        statistics.longest_queue = statistics.longest_queue.max(self.queued);
        if exit == Exit::Failed {
            statistics.failed += 1;
            return;
        }
        statistics.frames += 1;
        statistics.bytes += bytes;
        statistics.lost += u64::from(exit == Exit::Lost);
    }
}

#[cfg(test)]
mod tests;
