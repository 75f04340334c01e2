//! Measures of a simulation: waiting, slowdown, utilisation.
//!
//! Slowdown is the time from arrival to end over a job's duration; the bounded one assumes durations of at least ten seconds (D. Feitelson, L. Rudolph, U.
//! Schwiegelshohn, K. Sevcik and P. Wong, "Theory and practice in parallel job scheduling", 1997). Computed from the outcomes of jobs; shown by `belljar simulate`.

use serde::{Deserialize, Serialize};

use crate::job::{Job, Nanos};
use crate::simulation::Simulated;

/// Least duration for bounded slowdowns, in nanoseconds.
const BOUND: f64 = 10e9;

/// Measures of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobMeasures {
    /// Nanoseconds from arrival to start.
    pub waited: Nanos,
    /// Nanoseconds from start to end.
    pub ran: Nanos,
    /// Time from arrival to end, over its duration.
    pub slowdown: f64,
    /// The bounded slowdown, at least 1.
    pub bounded: f64,
}

/// Measures over all jobs that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Jobs that ended.
    pub ended: u64,
    /// Jobs that did not.
    pub left: u64,
    /// The end of the last job, in seconds.
    pub makespan_s: f64,
    /// The share of all hosts' time in which they had a job.
    pub utilisation: f64,
    /// Mean seconds from arrival to start.
    pub mean_wait_s: f64,
    /// Most seconds from arrival to start.
    pub longest_wait_s: f64,
    /// Mean slowdown.
    pub mean_slowdown: f64,
    /// Mean bounded slowdown.
    pub mean_bounded_slowdown: f64,
    /// Mean factor by which jobs ran longer than alone: 1 if they do not affect each other's durations.
    pub mean_stretch: f64,
    /// The highest load of the busiest link, in bits a second.
    pub highest_load: u64,
    /// Bits a second, mean over links and time.
    pub mean_load: f64,
    /// The highest load of a link as a share of its capacity; more than 1 exceeds the capacity.
    pub highest_share: f64,
    /// Variance over links, mean over time.
    pub mean_variance: f64,
}

impl JobMeasures {
    /// Returns the measures of a job, if it ended.
    pub fn of(simulated: &Simulated, job: usize, jobs: &[Job]) -> Option<Self> {
        let outcome = &simulated.jobs[job];
        let (start, end) = (outcome.start?, outcome.end?);
        let arrival = jobs[job].arrival;
        let (ran, whole) = (end - start, (end - arrival) as f64);
        Some(Self {
            waited: start - arrival,
            ran,
            slowdown: whole / (ran as f64).max(1.0),
            bounded: (whole / (ran as f64).max(BOUND)).max(1.0),
        })
    }
}

impl Measures {
    /// Returns the measures of a simulation on this many hosts.
    pub fn of(simulated: &Simulated, jobs: &[Job], hosts: u32) -> Self {
        let each = (0..jobs.len()).map(|job| (job, JobMeasures::of(simulated, job, jobs)));
        let (mut all, mut busy, mut waits) = (Self::default(), 0.0, 0.0);
        for (job, own) in each {
            let Some(own) = own else {
                all.left += 1;
                continue;
            };
            let wait = own.waited as f64 / 1e9;
            all.ended += 1;
            waits += wait;
            all.longest_wait_s = all.longest_wait_s.max(wait);
            all.mean_slowdown += own.slowdown;
            let alone = jobs[job].duration.min(jobs[job].estimate);
            all.mean_stretch += own.ran as f64 / (alone as f64).max(1.0);
            all.mean_bounded_slowdown += own.bounded;
            busy += own.ran as f64 * simulated.jobs[job].hosts.len() as f64;
        }
        let ended = all.ended.max(1) as f64;
        all.mean_wait_s = waits / ended;
        all.mean_slowdown /= ended;
        all.mean_stretch /= ended;
        all.mean_bounded_slowdown /= ended;
        all.makespan_s = simulated.end as f64 / 1e9;
        all.utilisation = busy / (simulated.end.max(1) as f64 * f64::from(hosts.max(1)));
        all.load(simulated);
        all
    }

    fn load(&mut self, simulated: &Simulated) {
        let loads = &simulated.loads;
        let until = loads.iter().skip(1).map(|load| load.time);
        let until = until.chain([simulated.end]);
        for (load, until) in loads.iter().zip(until) {
            let share = (until - load.time) as f64 / simulated.end.max(1) as f64;
            self.mean_load += load.mean * share;
            self.mean_variance += load.variance * share;
            self.highest_load = self.highest_load.max(load.maximum);
        }
        let shares = simulated.links.iter();
        let shares = shares.map(|link| link.maximum as f64 / link.capacity.max(1) as f64);
        self.highest_share = shares.fold(0.0, f64::max);
    }
}
