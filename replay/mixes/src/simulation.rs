//! Many jobs on one interconnect, at the level of traffic matrices.
//!
//! A job that runs is a constant flow for as long as it runs (K. Takahashi and others, "A toolset for analyzing application-aware dynamic interconnects", 2017). How long that is somebody else may say: [`simulate_with`] asks a
//! [`Progress`], to which jobs may be messages that contend; with [`simulate`] they do not change each other's length. Events are arrivals and ends; at one time ends come before arrivals, and both in the order of jobs, so that a simulation is a function of its jobs, its policies and their seeds. Called by
//! `belljar simulate`.

use std::collections::{BTreeMap, BTreeSet};

use belljar_fabric::Topology;
use serde::Serialize;

use crate::job::{Job, Nanos};
use crate::load::{LinkUse, Load, Loads};
use crate::mapping::{Mapping, Placing};
use crate::routing::{Placed, Router, Way};
use crate::scheduler::{Queue, Running, Scheduler, Waiting};
use crate::selection::{Hosts, Selection};

/// How jobs are dealt with.
pub struct Policies {
    /// Which job starts.
    pub scheduler: Box<dyn Scheduler + Send>,
    /// On which hosts.
    pub selection: Box<dyn Selection + Send>,
    /// Which process is on which of them.
    pub mapping: Box<dyn Mapping + Send>,
    /// Over which links its flows go.
    pub router: Box<dyn Router + Send>,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobOutcome {
    /// Its number, by the order in which it was given.
    pub job: usize,
    /// When it started; `None` if it never did.
    pub start: Option<Nanos>,
    /// When it ended.
    pub end: Option<Nanos>,
    /// Its hosts.
    pub hosts: Vec<u32>,
}

/// What became of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulated {
    /// Jobs, in the order in which they were given.
    pub jobs: Vec<JobOutcome>,
    /// What links carried together, at each time at which that changed.
    pub loads: Vec<Load>,
    /// What each link carried.
    pub links: Vec<LinkUse>,
    /// What links carried at the times of snapshots, in bits a second.
    pub snapshots: Vec<(Nanos, Vec<u64>)>,
    /// When the last job ended.
    pub end: Nanos,
}

/// Why jobs cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// A job is larger than the machine.
    #[error(
        "job {job} ({name}) needs {hosts} hosts, and the network has {there}: allow more ranks on each host, or take a larger network"
    )]
    Large {
        /// Its number.
        job: usize,
        /// Its name.
        name: String,
        /// Hosts that it needs.
        hosts: u32,
        /// Hosts that there are.
        there: u32,
    },
    /// A job has no process.
    #[error("job {job} ({name}) has no rank")]
    Empty {
        /// Its number.
        job: usize,
        /// Its name.
        name: String,
    },
}

/// The machine and what is wanted of it.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// The network.
    pub topology: &'a Topology,
    /// Processes on each host, at most.
    pub slots: u32,
    /// When the network is to be seen, in order.
    pub snapshots: &'a [Nanos],
}

impl Machine<'_> {
    fn hosts_for(&self, job: &Job) -> u32 {
        job.ranks.div_ceil(self.slots.max(1))
    }

    fn check(&self, jobs: &[Job]) -> Result<(), MixError> {
        let there = self.topology.hosts();
        for (number, job) in jobs.iter().enumerate() {
            let (name, hosts) = (job.name.to_string(), self.hosts_for(job));
            if job.ranks == 0 {
                return Err(MixError::Empty { job: number, name });
            }
            if hosts > there {
                return Err(MixError::Large {
                    job: number,
                    name,
                    hosts,
                    there,
                });
            }
        }
        Ok(())
    }
}

/// How jobs that run come to their ends.
pub trait Progress {
    /// A job begins at `now`, no earlier than anything that this was told or told of: its rank `i` on host `places[i]`.
    fn begin(&mut self, now: Nanos, job: usize, places: &[u32]);

    /// The next job that ends, and when; `None` where none ends until `until`, or ever.
    fn next_end(&mut self, until: Option<Nanos>) -> Option<(Nanos, usize)>;
}

/// Jobs that run as long as they say, and no longer than their users say.
struct AsLong<'a> {
    jobs: &'a [Job],
    ends: BTreeSet<(Nanos, usize)>,
}

impl Progress for AsLong<'_> {
    fn begin(&mut self, now: Nanos, job: usize, _places: &[u32]) {
        let lasts = self.jobs[job].duration.min(self.jobs[job].estimate);
        self.ends.insert((now.saturating_add(lasts), job));
    }

    fn next_end(&mut self, until: Option<Nanos>) -> Option<(Nanos, usize)> {
        let (time, _) = self.ends.first()?;
        match until.is_none_or(|until| *time <= until) {
            true => self.ends.pop_first(),
            false => None,
        }
    }
}

/// A job that runs.
struct Under {
    hosts: Vec<u32>,
    estimated: Nanos,
    ways: Vec<Way>,
}

struct Simulation<'a> {
    machine: Machine<'a>,
    jobs: &'a [Job],
    policies: Policies,
    hosts: Hosts,
    loads: Loads,
    waiting: Vec<Waiting>,
    under: BTreeMap<usize, Under>,
    progress: &'a mut dyn Progress,
    out: Simulated,
}

/// Simulates jobs that do not change each other's length; `each` is asked at each time at which something happens, and says whether to continue.
///
/// # Errors
/// [`MixError`] when a job cannot run on the machine.
pub fn simulate(
    machine: Machine<'_>,
    jobs: &[Job],
    policies: Policies,
    each: impl FnMut(Nanos) -> bool,
) -> Result<Simulated, MixError> {
    let mut progress = AsLong {
        jobs,
        ends: BTreeSet::new(),
    };
    simulate_with(machine, jobs, policies, &mut progress, each)
}

/// Simulates jobs that end when `progress` says; a job that never does keeps its hosts.
///
/// # Errors
/// [`MixError`] when a job cannot run on the machine.
pub fn simulate_with(
    machine: Machine<'_>,
    jobs: &[Job],
    policies: Policies,
    progress: &mut dyn Progress,
    mut each: impl FnMut(Nanos) -> bool,
) -> Result<Simulated, MixError> {
    machine.check(jobs)?;
    let links = machine.topology.links().iter();
    let capacity = links.flat_map(|link| [link.spec.bandwidth; 2]).collect();
    let outcome = |job| JobOutcome {
        job,
        start: None,
        end: None,
        hosts: Vec::new(),
    };
    let mut simulation = Simulation {
        machine,
        jobs,
        policies,
        hosts: Hosts::new(machine.topology.hosts()),
        loads: Loads::new(capacity),
        waiting: Vec::new(),
        under: BTreeMap::new(),
        progress,
        out: Simulated {
            jobs: (0..jobs.len()).map(outcome).collect(),
            ..Simulated::default()
        },
    };
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|job| (jobs[*job].arrival, *job));
    let mut arrivals = order.into_iter().peekable();
    let mut snapshots = machine.snapshots.iter().copied().peekable();
    loop {
        let arrives = arrivals.peek().map(|job| jobs[*job].arrival);
        let ended = simulation.progress.next_end(arrives);
        let Some(now) = ended.map(|(time, _)| time).or(arrives) else {
            break;
        };
        while let Some(time) = snapshots.next_if(|time| *time < now) {
            simulation.snapshot(time);
        }
        if !each(now) {
            break;
        }
        let mut next = ended;
        while let Some((_, job)) = next {
            simulation.end(now, job);
            next = simulation.progress.next_end(Some(now));
        }
        while let Some(job) = arrivals.next_if(|job| jobs[*job].arrival <= now) {
            simulation.arrive(job);
        }
        simulation.start(now);
        simulation.out.loads.push(simulation.loads.at(now));
        simulation.out.end = now;
    }
    snapshots.for_each(|time| simulation.snapshot(time));
    simulation.out.links = simulation.loads.uses(simulation.out.end);
    Ok(simulation.out)
}

impl Simulation<'_> {
    fn snapshot(&mut self, time: Nanos) {
        let links = 0..self.machine.topology.links().len() as u32 * 2;
        let loads = links.map(|link| self.loads.of(link)).collect();
        self.out.snapshots.push((time, loads));
    }

    /// A job ends.
    fn end(&mut self, now: Nanos, job: usize) {
        let Some(under) = self.under.remove(&job) else {
            return;
        };
        for (way, flow) in under.ways.iter().zip(&self.jobs[job].traffic.flows) {
            for link in way.iter() {
                self.loads.remove(now, *link, flow.rate);
            }
        }
        self.hosts.give_back(&under.hosts);
        self.out.jobs[job].end = Some(now);
    }

    fn arrive(&mut self, number: usize) {
        let job = &self.jobs[number];
        let waiting = Waiting {
            job: number,
            hosts: self.machine.hosts_for(job),
            estimate: job.estimate,
        };
        let after = |other: &Waiting| self.jobs[other.job].priority >= job.priority;
        let place = self.waiting.partition_point(after);
        self.waiting.insert(place, waiting);
    }

    /// Starts jobs, as long as the scheduler has some that get hosts.
    fn start(&mut self, now: Nanos) {
        let running: Vec<Running> = self
            .under
            .values()
            .map(|under| Running {
                ends: under.estimated,
                hosts: under.hosts.len() as u32,
            })
            .collect();
        let started = self.policies.scheduler.start(Queue {
            now,
            waiting: &self.waiting,
            running: &running,
            free: self.hosts.count(),
        });
        let mut gone = Vec::new();
        for place in started {
            let Some(waiting) = self.waiting.get(place).copied() else {
                continue;
            };
            if !gone.contains(&place) && self.begin(now, waiting) {
                gone.push(place);
            }
        }
        gone.sort_unstable();
        for place in gone.into_iter().rev() {
            self.waiting.remove(place);
        }
    }

    /// A job begins, if the policy has hosts for it.
    fn begin(&mut self, now: Nanos, waiting: Waiting) -> bool {
        let topology = self.machine.topology;
        let selection = &mut self.policies.selection;
        let Some(hosts) = selection.select(waiting.hosts, &self.hosts, topology) else {
            return false;
        };
        let job = &self.jobs[waiting.job];
        self.hosts.take(&hosts);
        let places = self.policies.mapping.place(Placing {
            ranks: job.ranks,
            hosts: &hosts,
            slots: self.machine.slots,
            traffic: &job.traffic,
            topology,
        });
        let ways = self.policies.router.route(Placed {
            places: &places,
            traffic: &job.traffic,
            loads: &self.loads,
            topology,
        });
        for (way, flow) in ways.iter().zip(&job.traffic.flows) {
            for link in way.iter() {
                self.loads.add(now, *link, flow.rate);
            }
        }
        self.progress.begin(now, waiting.job, &places);
        let outcome = &mut self.out.jobs[waiting.job];
        (outcome.start, outcome.hosts) = (Some(now), hosts.clone());
        let under = Under {
            hosts,
            estimated: now.saturating_add(job.estimate),
            ways,
        };
        self.under.insert(waiting.job, under);
        true
    }
}

#[cfg(test)]
mod tests;
