//! How jobs that run come to their ends.
//!
//! Whoever plays jobs is told which begin, and tells which end. Ends are told in the order of time, and none after an arrival of which nothing is known yet. Asked by the simulation.

use std::collections::BTreeSet;

use super::Simulation;
use crate::job::{Job, Nanos};

/// What comes next of jobs that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This job ends at this time.
    End(Nanos, usize),
    /// None ends until the time that was asked for, or ever.
    Nothing,
    /// It is not known yet; asking again continues. Said now and then by who works for long, so that others can be looked at.
    Pause,
}

/// How jobs that run come to their ends. Implement it for jobs of your own.
pub trait Progress {
    /// A job begins at `now`, no earlier than anything that this was told or told of: its rank `i` on host `places[i]`.
    fn begin(&mut self, now: Nanos, job: usize, places: &[u32]);

    /// The next job that ends, not after `until`.
    fn next_end(&mut self, until: Option<Nanos>) -> Next;
}

/// Jobs that run as long as they say, and no longer than their users say.
#[derive(Clone, Debug)]
pub struct AsLong<'a> {
    jobs: &'a [Job],
    ends: BTreeSet<(Nanos, usize)>,
}

impl<'a> AsLong<'a> {
    /// The jobs of a simulation: those that run now have begun when it says.
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

impl Progress for AsLong<'_> {
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
