//! A trace's calls without their times: what counts alone need.
//!
//! Chunks of times are not read, be they damaged or not, unless the trace has several jobs, which are told apart by when they began, or
//! is of a version that has counts among its times. Calls come thread by thread, each at 0. Called by the analyses that count.

use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::{Collector, Communicators, communicators};
use belljar_trace::{Accounts, Event, Polls, TraceError};

use crate::dump::Filter;

impl Filter {
    /// Whether it needs calls' times to be known.
    pub fn needs_times(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.phase.is_some()
    }
}

/// A trace as an analysis reads it: with times or without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// With times.
    #[default]
    Read,
    /// Counts alone: times are neither read nor told.
    Unread,
}

impl Times {
    /// A reader of the trace at `path`, whose events are to be passed through [`seen`](Self::seen).
    pub(crate) fn open(self, path: &Path) -> Result<TraceReader, TraceError> {
        match self {
            Self::Read => TraceReader::open(path),
            Self::Unread => TraceReader::open_untimed(path),
        }
    }

    /// The event as the analysis is to see it: versions whose times have to be read tell them even so.
    pub(crate) fn seen(self, mut event: Event) -> Event {
        if self == Self::Unread {
            (event.entry, event.accounts) = (0, Accounts(None));
            event.exit = event.exit.map(|_| 0);
            if let Some(polls) = &mut event.folded.0 {
                **polls = Polls {
                    calls: polls.calls,
                    ..Polls::default()
                };
            }
        }
        event
    }

    /// What `collector` found of the communicators of the trace at `path`.
    pub(crate) fn resolve(
        self,
        collector: Collector,
        path: &Path,
    ) -> Result<Communicators, TraceError> {
        let found = collector.resolve();
        match self {
            Self::Unread if found.jobs() > 1 => communicators(path),
            _ => Ok(found),
        }
    }

    /// The communicators of the trace at `path`.
    pub(crate) fn communicators(self, path: &Path) -> Result<Communicators, TraceError> {
        let mut reader = self.open(path)?;
        let header = reader.header().clone();
        let mut collector = Collector::new();
        for event in reader.by_ref() {
            collector.observe(&self.seen(event), &header);
        }
        self.resolve(collector, path)
    }
}

#[cfg(test)]
mod tests;
