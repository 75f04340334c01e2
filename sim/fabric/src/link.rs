//! One direction of a link: a queue in front of a wire.
//!
//! What becomes of a frame is settled when it is sent, and frames arrive in the order in which they were
//! sent: calls come in order of time. Called by the fabric for each frame and hop.

use std::collections::VecDeque;
use std::sync::Arc;

use belljar_sim::{Seed, Span, Time};
use serde::{Deserialize, Serialize};

use crate::frame::wire_bytes;
use crate::impairment::{Chance, Impairment};

/// What a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// Bits per second, each way.
    pub bandwidth: u64,
    /// Propagation delay.
    pub latency: Span,
}

impl LinkSpec {
    /// The time a frame of `length` bytes occupies the wire.
    pub fn transmission(&self, length: usize) -> Span {
        Span::of_transfer(wire_bytes(length), self.bandwidth)
    }
}

/// What one direction of a link carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatistics {
    /// Frames carried to their last bit, those lost by chance included.
    pub frames: u64,
    /// Bytes of these, without preamble, checksum and gap.
    pub bytes: u64,
    /// Frames dropped because the queue was full.
    pub drops: u64,
    /// Frames lost on the wire by chance.
    pub lost: u64,
    /// Frames lost because the link failed under them, or did not work.
    pub failed: u64,
    /// The longest that the queue was, in bytes.
    pub longest_queue: u64,
    /// Time during which the wire was busy, in picoseconds.
    pub busy_ps: u64,
}

/// Why a frame does not get into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no room.
    Full,
    /// The link does not work.
    Down,
}

/// How a frame leaves a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Its last bit arrives at the other end then.
    Arrives(Time),
    /// It is lost on the wire by chance.
    Lost,
    /// The link fails before its last bit is there.
    Failed,
}

/// A frame's way through a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// When its first bit is on the wire; where the link failed before, then.
    pub(crate) start: Time,
    /// When it leaves the queue: when its last bit is on the wire, or the link fails.
    pub(crate) leaves: Time,
    /// Bytes in the queue once it is in it, its own included.
    pub(crate) queued: u64,
    pub(crate) exit: Exit,
}

/// What a port is made from.
#[derive(Clone, Debug)]
pub(crate) struct PortSpec {
    pub(crate) link: LinkSpec,
    /// Bytes that may wait, the frame on the wire included.
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

/// All of a port that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortState {
    /// When the wire is free again.
    free_at: Time,
    /// When the last bit sent so far arrives at the other end.
    last_arrival: Time,
    /// Frames that wait or are on the wire: when they leave the queue, and their bytes.
    waiting: VecDeque<(Time, u64)>,
    /// Bytes of these.
    queued: u64,
    /// Frames that chance decided about.
    pub(crate) accepted: u64,
    pub(crate) statistics: LinkStatistics,
}

/// More than anything can have been counted to in all of representable time.
pub(crate) const MOST_COUNTED: u64 = 1 << 62;

impl PortState {
    /// Whether it could have come about.
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

    /// What it was made from.
    pub(crate) fn spec(&self) -> &PortSpec {
        &self.spec
    }

    /// For how long from `now` on the wire has frames to carry.
    pub(crate) fn busy_for(&self, now: Time) -> Span {
        self.state.free_at.max(now).since(now)
    }

    /// Sends a frame that is ready at `now`. Calls must come in order of time.
    pub(crate) fn send(&mut self, now: Time, length: usize) -> Result<Passage, Refusal> {
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
        // Jitter only ever adds, and never lets a frame catch up with the one before it.
        let late = chance.map_or(Span::ZERO, |fate| fate.late);
        let arrival = leaves + self.spec.link.latency + late;
        let arrival = arrival.max(state.last_arrival + busy);
        let exit = match failure {
            Some(failure) if failure < arrival => {
                start = start.min(failure);
                leaves = leaves.min(failure);
                Exit::Failed
            }
            _ if chance.is_some_and(|fate| fate.lost) => Exit::Lost,
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
    /// Lets frames go that have left at `now`.
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
