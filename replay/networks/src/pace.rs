//! Hosts' work for each frame, and the time of messages within a host.
//!
//! A pace is a host's own; hosts without one have the usual pace. Used by all models and by replay.

use std::collections::BTreeMap;

use belljar_sim::Span;

use crate::message::frames_of;

/// A host's work for each frame, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// A sender's time for each frame after a message's first.
    pub sends: Span,
    /// A receiver's time for each frame after a message's first.
    pub receives: Span,
    /// Time of a message between processes of the same host, without copying.
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
    /// Returns the same with another pace for one host.
    #[must_use]
    pub fn with(mut self, host: u32, pace: Pace) -> Self {
        if pace == self.usual {
            self.others.remove(&host);
        } else {
            self.others.insert(host, pace);
        }
        self
    }

    /// Returns the pace of a host.
    pub fn of(&self, host: u32) -> &Pace {
        self.others.get(&host).unwrap_or(&self.usual)
    }
}

/// Returns the time of a message within a host.
pub(crate) fn within(pace: &Pace, bytes: u64) -> Span {
    pace.within + times(pace.copies, frames_of(bytes) - 1)
}

/// Multiplies a span, saturating.
pub(crate) fn times(span: Span, count: u64) -> Span {
    Span::from_ps(span.as_ps().saturating_mul(count))
}
