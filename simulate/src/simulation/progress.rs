//! Progress of running jobs.
//!
//! An implementation is notified of jobs that begin, and reports their ends. Ends are reported in the order of time, and none after an arrival that is still unknown.
//! Used by the simulation.

use std::collections::BTreeSet;

use super::Simulation;
use crate::job::{Job, Nanos};

/// The next event of running jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This job ends at this time.
    End(Nanos, usize),
    /// No job ends until the requested time, or ever.
    Nothing,
    /// It is not known yet; call again to continue. Returned occasionally by implementations with long computations, so that callers can do other work.
    Pause,
}

/// Determines the ends of running jobs. Implement it for custom jobs.
pub trait JobProgress {
    /// Begins a job at `now`, which is no earlier than any time passed to or returned by this progress: its rank `i` is on host `places[i]`.
    fn begin(&mut self, now: Nanos, job: usize, places: &[u32]);

    /// Returns the next job that ends, not after `until`.
    fn next_end(&mut self, until: Option<Nanos>) -> Next;
}

/// Jobs that run for their declared duration, up to their users' estimates.
#[derive(Clone, Debug)]
pub struct AsLong<'a> {
    jobs: &'a [Job],
    ends: BTreeSet<(Nanos, usize)>,
}

impl<'a> AsLong<'a> {
    /// Creates the progress of a simulation's jobs: running ones have begun at the recorded times.
    pub fn of(simulation: &Simulation<'a>) -> Self {
        let mut own = Self {
            jobs: simulation.jobs,
            ends: BTreeSet::new(),
        };
        for job in simulation.under.keys() {
            let start = simulation.out.jobs[*job].start;
            own.begin(start.unwrap_or(0), *job, &[]);
        }
        own
    }
}

impl JobProgress for AsLong<'_> {
    fn begin(&mut self, now: Nanos, job: usize, _places: &[u32]) {
        let lasts = self.jobs[job].duration.min(self.jobs[job].estimate);
        self.ends.insert((now.saturating_add(lasts), job));
    }

    fn next_end(&mut self, until: Option<Nanos>) -> Next {
        let first = self.ends.first().copied();
        match first.filter(|(time, _)| until.is_none_or(|until| *time <= until)) {
            Some((time, job)) => {
                self.ends.pop_first();
                Next::End(time, job)
            }
            None => Next::Nothing,
        }
    }
}
