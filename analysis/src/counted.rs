//! A trace's calls without their times, which suffice for counts.
//!
//! Chunks of times are not read, even if they are damaged, with two exceptions. The trace may have several jobs, which are
//! distinguished by their start, or its version may store counts among the times. Calls come thread by thread, with all times 0. Used
//! by the analyses that count.

use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::{Collector, Communicators, communicators};
use belljar_trace::{Accounts, Event, Polls, TraceError};

use crate::dump::Filter;

impl Filter {
    /// True if the filter depends on calls' times.
    pub fn needs_times(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.phase.is_some()
    }
}

/// The mode in which an analysis reads a trace: with times or without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimesMode {
    /// With times.
    #[default]
    Read,
    /// Counts alone: times are neither read nor shown.
    Unread,
}

impl TimesMode {
    /// Opens the trace at `path`; its events must be passed through [`seen`](Self::seen).
    pub(crate) fn open(self, path: &Path) -> Result<TraceReader, TraceError> {
        match self {
            Self::Read => TraceReader::open(path),
            Self::Unread => TraceReader::open_untimed(path),
        }
    }

    /// Returns the event as the analysis is to see it, without times even in versions where they are read.
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

    /// Resolves the communicators that `collector` found in the trace at `path`.
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

    /// Returns the communicators of the trace at `path`.
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
