//! Nodes that run past their ends within a round.
//!
//! If each node has a thread, its turn may end later than others'. A node without effects so far announces
//! its time to the others, and runs on to the bound that their announcements allow. These are the null
//! messages of Chandy and Misra ("Distributed Simulation: A Case Study in Design and Verification of
//! Distributed Programs", 1979) and Bryant, as one word that a node writes and all others read. A node with
//! an effect, such as a frame, keeps its last announcement, as the network must process the frame before
//! others may receive it. So all others soon stop, too, and the round ends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use belljar_sim::{Span, Time};

use super::{Turn, half};

/// A node's announcement during a round. It has cache lines of the host to itself, as all others read it
/// while they wait.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct NullMessage {
    /// The node has no effect before this, in picoseconds.
    silent: AtomicU64,
    /// True if the node sends no later null message in this round.
    stays: AtomicBool,
}

impl NullMessage {
    /// The null message of a node without a turn, which bounds others by their [`reach`](Turn::reach).
    pub(crate) fn none() -> Self {
        Self {
            silent: u64::MAX.into(),
            stays: true.into(),
        }
    }

    /// Resets the announcement for a round without a turn of the node. No thread may be in a turn.
    pub(crate) fn clear(&self) {
        self.silent.store(u64::MAX, Ordering::Relaxed);
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Starts a `turn` of the node, which does nothing before `next`. No thread may be in a turn; later
    /// turns see the value.
    pub(crate) fn begin(&self, next: Time, turn: &Turn) {
        self.silent.store(next.as_ps(), Ordering::Relaxed);
        self.stays.store(!turn.goes_on(), Ordering::Relaxed);
    }

    /// The time before which the node has no effect, and whether this null message is its last in the round.
    fn look(&self) -> (Time, bool) {
        // In this order, so that a node that stays shows its last null message.
        let stays = self.stays.load(Ordering::Acquire);
        let silent = self.silent.load(Ordering::Acquire);
        (Time::from_ps(silent), stays)
    }
}

/// The next step of a node without effects so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeStep {
    /// Run up to this time.
    Run(Time),
    /// Wait for other nodes to advance.
    Wait,
    /// End the round.
    Stop,
}

/// A node's progress through a round. Dropping it marks the node as staying.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    null_messages: &'a [NullMessage],
    own: usize,
    nearest: Span,
    reach: Time,
    /// The time of its last null message.
    promised: Time,
    /// The bound of its last step.
    end: Time,
    /// The bound by others' null messages.
    bound: Time,
    /// The minimum time of others' null messages.
    least: Time,
    /// True if the bound is final.
    is_last: bool,
}

impl<'a> Ahead<'a> {
    /// For the node with this `turn`, which may run past its end; its null message has the index `own`.
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

    /// The next step of a node without effects before `next`; called when the node has reached its bound.
    pub(crate) fn step(&mut self, next: Time) -> NodeStep {
        if next > self.promised {
            // Written once, as a write takes the cache line from all readers.
            let null_message = &self.null_messages[self.own];
            null_message.silent.store(next.as_ps(), Ordering::Release);
            self.promised = next;
            self.end = self.end.max(next);
        }
        if self.end >= self.reach {
            return NodeStep::Stop;
        }
        if !self.is_last && !self.is_worthwhile(next) {
            self.look();
        }
        if self.is_worthwhile(next) {
            // In steps, as others may wait for the null message after each.
            self.end = self.bound.min(self.end + self.nearest);
            NodeStep::Run(self.end)
        } else if self.is_last {
            NodeStep::Stop
        } else {
            NodeStep::Wait
        }
    }

    /// True if the step is long enough. For the node with the minimum time any step is: its bound may be
    /// less than it needs to run at all.
    fn is_worthwhile(&self, next: Time) -> bool {
        let way = self.bound.since(self.end);
        way >= half(self.nearest) || (way > Span::ZERO && next <= self.least)
    }

    fn look(&mut self) {
        let others = self.null_messages.iter().enumerate();
        let others = others.filter(|(place, _)| *place != self.own);
        let first = others
            .map(|(_, null_message)| null_message.look())
            // Of equal ones a staying one, as no node gets beyond it.
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
