//! Nodes that run past their ends within a round.
//!
//! Where each node has a thread of its own, its end of a turn need not be everybody's. A node
//! out of which nothing came lets the others know how far it is, and runs on to what theirs
//! allow: the null messages of Chandy and Misra ("Distributed Simulation: A Case Study in Design
//! and Verification of Distributed Programs", 1979) and Bryant, as one word that a node writes
//! and all others read. A node out of which something came stays where it was known to be
//! silent, for the network must see a frame before anybody may hear of it; so all others soon
//! come to stay, too, and the round is over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use belljar_sim::{Span, Time};

use super::{Turn, half};

/// What a node lets the others know during a round. It lies in lines of the host's caches of its
/// own: all others look at it while they wait.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct NullMessage {
    /// Nothing comes out of it before this, in picoseconds.
    silent: AtomicU64,
    /// It sends no later null message in this round.
    stays: AtomicBool,
}

impl NullMessage {
    /// Of a node that has no turn: what it does bounds others by their [`reach`](Turn::reach).
    pub(crate) fn none() -> Self {
        Self {
            silent: u64::MAX.into(),
            stays: true.into(),
        }
    }

    /// Begins a round in which the node has no turn. Nobody may be in a turn.
    pub(crate) fn clear(&self) {
        self.silent.store(u64::MAX, Ordering::Relaxed);
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Begins a `turn` of the node, which does nothing before `next`. Nobody may be in a turn;
    /// whoever is given one afterwards sees this.
    pub(crate) fn begin(&self, next: Time, turn: &Turn) {
        self.silent.store(next.as_ps(), Ordering::Relaxed);
        self.stays.store(!turn.goes_on(), Ordering::Relaxed);
    }

    /// How long nothing comes out of it, and whether that is its last null message of the round.
    fn look(&self) -> (Time, bool) {
        // In this order: of a node that stays, the last null message is seen.
        let stays = self.stays.load(Ordering::Acquire);
        let silent = self.silent.load(Ordering::Acquire);
        (Time::from_ps(silent), stays)
    }
}

/// What a node does next that nothing came out of so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It runs to there.
    Run(Time),
    /// Others must get further first.
    Wait,
    /// It is through with this round.
    Stop,
}

/// A node's way through a round. When it is dropped the others know that it stays where it is.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    null_messages: &'a [NullMessage],
    own: usize,
    nearest: Span,
    reach: Time,
    /// The time of its last null message.
    promised: Time,
    /// How far it was let go so far.
    end: Time,
    /// How far it may go, by what was seen of the others.
    bound: Time,
    /// The least time of others' null messages.
    least: Time,
    /// Whether that is the last word.
    is_last: bool,
}

impl<'a> Ahead<'a> {
    /// Of the node with this `turn`, in which it may run past its end; its null message is the one at `own`.
    pub(crate) fn new(null_messages: &'a [NullMessage], own: usize, turn: &Turn) -> Self {
        Self {
            null_messages,
            own,
            nearest: turn.nearest(),
            reach: turn.reach,
            promised: Time::ZERO,
            end: turn.end,
            bound: turn.end,
            least: Time::ZERO,
            is_last: false,
        }
    }

    /// What the node does, out of which nothing comes before `next`: it is asked this when it has
    /// run as far as it was let go.
    pub(crate) fn step(&mut self, next: Time) -> Step {
        if next > self.promised {
            // Once: whoever writes here takes the line from all who look at it.
            let null_message = &self.null_messages[self.own];
            null_message.silent.store(next.as_ps(), Ordering::Release);
            self.promised = next;
            self.end = self.end.max(next);
        }
        if self.end >= self.reach {
            return Step::Stop;
        }
        if !self.is_last && !self.is_worthwhile(next) {
            self.look();
        }
        if self.is_worthwhile(next) {
            // Not all at once: somebody may wait to hear that nothing came.
            self.end = self.bound.min(self.end + self.nearest);
            Step::Run(self.end)
        } else if self.is_last {
            Step::Stop
        } else {
            Step::Wait
        }
    }

    /// Whether it is far enough to go. For the node whose time is least anything is: it may
    /// have been let go less far than it needs to run at all.
    fn is_worthwhile(&self, next: Time) -> bool {
        let way = self.bound.since(self.end);
        way >= half(self.nearest) || (way > Span::ZERO && next <= self.least)
    }

    fn look(&mut self) {
        let others = self.null_messages.iter().enumerate();
        let others = others.filter(|(place, _)| *place != self.own);
        let first = others
            .map(|(_, null_message)| null_message.look())
            // Of equals one that stays: nobody gets beyond it.
            .min_by_key(|(silent, stays)| (*silent, !stays));
        let (least, stays) = first.unwrap_or((Time::MAX, true));
        self.least = least;
        self.bound = self.reach.min(least + self.nearest);
        self.is_last = stays || self.bound == self.reach;
    }
}

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        self.null_messages[self.own]
            .stays
            .store(true, Ordering::Release);
    }
}
