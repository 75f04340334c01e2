//! Scheduling of waiting jobs.
//!
//! Schedulers know the ends of running jobs from their users' estimates. Jobs wait in the order of priority, and of arrival for equal priorities. Used by the simulation
//! whenever a job has arrived or ended.

/// Number of free hosts over time.
mod profile;

use crate::job::Nanos;
use crate::memory::Memory;
use profile::FreeHostProfile;

/// A waiting job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingJob {
    /// Its number.
    pub job: usize,
    /// Number of hosts that it needs.
    pub hosts: u32,
    /// Its duration, by its user's estimate.
    pub estimate: Nanos,
}

/// A running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its end, by its user's estimate.
    pub ends: Nanos,
    /// Number of its hosts.
    pub hosts: u32,
}

/// A scheduler's input.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'a> {
    /// The time.
    pub now: Nanos,
    /// Waiting jobs, in order.
    pub waiting: &'a [WaitingJob],
    /// Running jobs.
    pub running: &'a [Running],
    /// Number of free hosts.
    pub free: u32,
}

/// Decides which jobs start. Implement it for a custom policy.
pub trait Scheduler: Memory {
    /// Returns the queue positions of jobs that start now, in the order in which they get hosts.
    fn start(&mut self, queue: Queue<'_>) -> Vec<usize>;
}

/// First come, first served: no job starts before the first one in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fcfs;

impl Memory for Fcfs {}

impl Scheduler for Fcfs {
    fn start(&mut self, queue: Queue<'_>) -> Vec<usize> {
        let mut free = queue.free;
        let fits = queue.waiting.iter().take_while(|job| {
            let fits = job.hosts <= free;
            free -= if fits { job.hosts } else { 0 };
            fits
        });
        (0..fits.count()).collect()
    }
}

/// EASY backfilling: others may start before the first waiting job if that does not delay it (D. Lifka, "The ANL/IBM SP scheduling system", 1995).
#[derive(Clone, Copy, Debug, Default)]
pub struct Easy;

impl Memory for Easy {}

impl Scheduler for Easy {
    fn start(&mut self, queue: Queue<'_>) -> Vec<usize> {
        let mut started = Fcfs.start(queue);
        let Some(head) = queue.waiting.get(started.len()) else {
            return started;
        };
        let mut free = queue.free;
        let mut running = queue.running.to_vec();
        for place in &started {
            let job = queue.waiting[*place];
            free -= job.hosts;
            running.push(Running {
                ends: queue.now.saturating_add(job.estimate),
                hosts: job.hosts,
            });
        }
        running.sort_unstable_by_key(|job| job.ends);
        // The time at which the first has enough hosts, and the number of hosts left over then.
        let (mut there, mut shadow) = (free, Nanos::MAX);
        for job in running {
            if there >= head.hosts {
                break;
            }
            there += job.hosts;
            shadow = job.ends;
        }
        let mut extra = there.saturating_sub(head.hosts);
        let later = queue.waiting.iter().enumerate().skip(started.len() + 1);
        let mut backfilled = Vec::new();
        for (place, job) in later {
            if free == 0 {
                break;
            }
            let in_time = queue.now.saturating_add(job.estimate) <= shadow;
            if job.hosts <= free && (in_time || job.hosts <= extra) {
                free -= job.hosts;
                if !in_time {
                    extra -= job.hosts;
                }
                backfilled.push(place);
            }
        }
        started.extend(backfilled);
        started
    }
}

/// Conservative backfilling: others may start earlier if that delays no job before them (A. Mu'alem and D. Feitelson, "Utilization, predictability, workloads, and user
/// runtime estimates in scheduling the IBM SP2 with backfilling", 2001). All reservations are recomputed at each decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conservative;

impl Memory for Conservative {}

impl Scheduler for Conservative {
    fn start(&mut self, queue: Queue<'_>) -> Vec<usize> {
        let mut started = Vec::new();
        // The fewest hosts that this job or a later one needs: if they are not free now, no such job can start.
        let mut least: Vec<u32> = queue.waiting.iter().map(|job| job.hosts).collect();
        for place in (1..least.len()).rev() {
            least[place - 1] = least[place - 1].min(least[place]);
        }
        if least.first().is_none_or(|least| *least > queue.free) {
            return started;
        }
        let mut profile = FreeHostProfile::of(queue);
        for (place, job) in queue.waiting.iter().enumerate() {
            if least[place] > profile.free_now() {
                break;
            }
            let Some(at) = profile.first(job) else {
                continue;
            };
            profile.reserve(at, job);
            if at == queue.now {
                started.push(place);
            }
        }
        started
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(jobs: &[(u32, Nanos)]) -> Vec<WaitingJob> {
        let jobs = jobs.iter().enumerate();
        let jobs = jobs.map(|(job, (hosts, estimate))| WaitingJob {
            job,
            hosts: *hosts,
            estimate: *estimate,
        });
        jobs.collect()
    }

    /// Returns the jobs that each scheduler starts: FCFS, EASY, conservative.
    fn started(waits: &[(u32, Nanos)], runs: &[(Nanos, u32)], free: u32) -> [Vec<usize>; 3] {
        let waiting = waiting(waits);
        let running = runs.iter().map(|(ends, hosts)| Running {
            ends: *ends,
            hosts: *hosts,
        });
        let running: Vec<Running> = running.collect();
        let queue = Queue {
            now: 100,
            waiting: &waiting,
            running: &running,
            free,
        };
        [
            Fcfs.start(queue),
            Easy.start(queue),
            Conservative.start(queue),
        ]
    }

    #[test]
    fn what_fits_starts_in_order() {
        let none: [usize; 0] = [];
        assert_eq!(started(&[(2, 9), (2, 9)], &[], 4), [[0, 1], [0, 1], [0, 1]]);
        assert_eq!(started(&[(5, 9)], &[(200, 2)], 4), [none, none, none]);
        assert_eq!(started(&[], &[], 4), [none, none, none]);
    }

    #[test]
    fn backfilling_does_not_delay_the_first() {
        // The first needs 6 of 8 hosts; 4 are free, 4 until 200. A short job may start before it, as may a long one that leaves it enough hosts.
        let waits = [(6, 50), (2, 100), (2, 500), (2, 500)];
        let [fcfs, easy, conservative] = started(&waits, &[(200, 4)], 4);
        assert_eq!(fcfs, []);
        // The second ends in time; of the others one fits next to the first.
        assert_eq!(easy, [1, 2]);
        assert_eq!(conservative, [1, 2]);
    }

    #[test]
    fn conservative_backfilling_delays_nobody() {
        // Two of 8 hosts are free until 200. The first needs 6 then, the second 7 when that has ended, at 300. The third needs two for a long time: the first does not
        // need these, the second does.
        let none: [usize; 0] = [];
        let waits = [(6, 100), (7, 100), (2, 1000)];
        let [_, easy, conservative] = started(&waits, &[(200, 6)], 2);
        assert_eq!(easy, [2]);
        assert_eq!(conservative, none);
        // One that ends before 300 may start.
        let waits = [(6, 100), (7, 100), (2, 200)];
        let [_, _, conservative] = started(&waits, &[(200, 6)], 2);
        assert_eq!(conservative, [2]);
    }
}
