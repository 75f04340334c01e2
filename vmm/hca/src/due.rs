//! Later events of the card, in order of time.
//!
//! Events of one time keep the order in which they were added. The node runs exactly to the first one.

use std::collections::BTreeMap;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::completions::Completion;

/// A later event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Due {
    /// Work is complete, in this queue.
    Complete(u32, Completion),
    /// A packet for this card itself arrives.
    Arrive(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A pair's peer may be silent for too long.
    Timeout(u32),
    /// A pair may try again whose peer had no receive.
    Ready(u32),
    /// A pair goes on with a long answer.
    Answer(u32),
}

/// Later events.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DueEvents {
    waiting: BTreeMap<(Time, u64), Due>,
    count: u64,
}

impl DueEvents {
    pub(crate) fn push(&mut self, at: Time, event: Due) {
        self.waiting.insert((at, self.count), event);
        self.count += 1;
    }

    /// The time of the first event.
    pub(crate) fn next(&self) -> Option<Time> {
        self.waiting.keys().next().map(|(at, _)| *at)
    }

    /// The time of the first event after `now`.
    pub(crate) fn next_after(&self, now: Time) -> Option<Time> {
        let mut later = self.waiting.range((now + Span::from_ps(1), 0)..);
        later.next().map(|((at, _), _)| *at)
    }

    /// Takes the first event, if it is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, Due)> {
        let first = self.waiting.first_entry()?;
        let at = first.key().0;
        (at <= now).then(|| (at, first.remove()))
    }
}
