//! Many jobs on one interconnect, at the level of traffic matrices.
//!
//! A running job is a constant flow for its duration (K. Takahashi and others, "A toolset for analyzing application-aware dynamic interconnects", 2017). The duration is
//! determined elsewhere: [`Simulation::step`] queries a [`JobProgress`], for which jobs may be messages that contend; with [`AsLong`] they do not affect each other's
//! duration. Events are arrivals and ends. At one time ends come before arrivals, and both are in the order of jobs. A simulation is therefore a function of its jobs,
//! its policies and their seeds. Between two steps it can be saved, and another one can continue from there. Used by `belljar simulate`.

/// Progress of running jobs.
mod progress;
/// A simulation's state as plain values.
mod state;

use std::collections::{BTreeMap, BTreeSet};

use belljar_fabric::Topology;
use serde::{Deserialize, Serialize};

use crate::job::{Job, Nanos};
use crate::load::{LinkUse, Load, Loads};
use crate::mapping::{MappingPolicy, Placing};
use crate::routing::{Placed, Router, Ways};
use crate::scheduler::{Queue, Running, Scheduler, WaitingJob};
use crate::selection::{Hosts, Selection};
pub use progress::{AsLong, JobProgress, Next};
pub use state::{MixState, MixStateError};

/// The policies for jobs.
pub struct Policies {
    /// Scheduling of jobs.
    pub scheduler: Box<dyn Scheduler + Send>,
    /// Selection of hosts.
    pub selection: Box<dyn Selection + Send>,
    /// Mapping of processes to hosts.
    pub mapping: Box<dyn MappingPolicy + Send>,
    /// Routing of flows over links.
    pub router: Box<dyn Router + Send>,
}

/// The outcome of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// Its index in the input.
    pub job: usize,
    /// Its start; `None` if it never started.
    pub start: Option<Nanos>,
    /// Its end.
    pub end: Option<Nanos>,
    /// Its hosts.
    pub hosts: Vec<u32>,
}

/// The outcome of all jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulated {
    /// Jobs, in the order of the input.
    pub jobs: Vec<JobOutcome>,
    /// The load of all links, at each time at which it changed.
    pub loads: Vec<Load>,
    /// The load of each link over time.
    pub links: Vec<LinkUse>,
    /// The load of each link at the times of snapshots, in bits a second.
    pub snapshots: Vec<(Nanos, Vec<u64>)>,
    /// The end of the last job.
    pub end: Nanos,
}

/// An error in jobs to be simulated.
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
        /// Number of hosts that it needs.
        hosts: u32,
        /// Number of existing hosts.
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

/// The machine and the requested results.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// The network.
    pub topology: &'a Topology,
    /// Most processes on each host.
    pub slots: u32,
    /// The times of snapshots of the network, in order.
    pub snapshots: &'a [Nanos],
}

impl Machine<'_> {
    fn hosts_for(&self, job: &Job) -> u32 {
        job.ranks.div_ceil(self.slots.max(1))
    }

    fn waiting(&self, number: usize, job: &Job) -> WaitingJob {
        WaitingJob {
            job: number,
            hosts: self.hosts_for(job),
            estimate: job.estimate,
        }
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

/// A running job.
struct Under {
    hosts: Vec<u32>,
    estimated: Nanos,
    ways: Ways,
}

/// Jobs that arrive, wait, run and end.
pub struct Simulation<'a> {
    machine: Machine<'a>,
    jobs: &'a [Job],
    /// Jobs, in the order of their arrivals.
    order: Vec<usize>,
    /// The number of jobs that have arrived.
    arrived: usize,
    policies: Policies,
    hosts: Hosts,
    loads: Loads,
    waiting: Vec<WaitingJob>,
    under: BTreeMap<usize, Under>,
    out: Simulated,
}

/// The result of a step of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulationStep {
    /// All events at this time have been handled.
    Happened(Nanos),
    /// No event; the [`JobProgress`] of jobs paused to let the caller do other work.
    Paused,
    /// There are no more events.
    Over,
}

/// Simulates jobs that do not affect each other's durations; `each` is called with the time of each event, and returns whether to continue.
///
/// # Errors
/// Returns [`MixError`] if a job cannot run on the machine.
pub fn simulate(
    machine: Machine<'_>,
    jobs: &[Job],
    policies: Policies,
    mut each: impl FnMut(Nanos) -> bool,
) -> Result<Simulated, MixError> {
    let mut simulation = Simulation::new(machine, jobs, policies)?;
    let mut progress = AsLong::of(&simulation);
    while let SimulationStep::Happened(now) = simulation.step(&mut progress) {
        if !each(now) {
            break;
        }
    }
    Ok(simulation.finish())
}

impl<'a> Simulation<'a> {
    /// Creates a simulation before any event.
    ///
    /// # Errors
    /// Returns [`MixError`] if a job cannot run on the machine.
    pub fn new(
        machine: Machine<'a>,
        jobs: &'a [Job],
        policies: Policies,
    ) -> Result<Self, MixError> {
        machine.check(jobs)?;
        let links = machine.topology.links().iter();
        let capacity = links.flat_map(|link| [link.spec.bandwidth; 2]).collect();
        let outcome = |job| JobOutcome {
            job,
            ..JobOutcome::default()
        };
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by_key(|job| (jobs[*job].arrival, *job));
        Ok(Self {
            machine,
            jobs,
            order,
            arrived: 0,
            policies,
            hosts: Hosts::new(machine.topology.hosts()),
            loads: Loads::new(capacity),
            waiting: Vec::new(),
            under: BTreeMap::new(),
            out: Simulated {
                jobs: (0..jobs.len()).map(outcome).collect(),
                ..Simulated::default()
            },
        })
    }

    /// Returns the next job to arrive.
    fn next_arrival(&self) -> Option<(Nanos, usize)> {
        let job = *self.order.get(self.arrived)?;
        Some((self.jobs[job].arrival, job))
    }

    /// Handles all events at the next time at which there are any. Running jobs are played by `progress`, which must be the same one at each step; a job that never ends
    /// keeps its hosts.
    pub fn step(&mut self, progress: &mut dyn JobProgress) -> SimulationStep {
        let arrives = self.next_arrival().map(|(time, _)| time);
        let ended = match progress.next_end(arrives) {
            Next::End(time, job) => Some((time, job)),
            Next::Nothing => None,
            Next::Pause => return SimulationStep::Paused,
        };
        let Some(now) = ended.map(|(time, _)| time).or(arrives) else {
            return SimulationStep::Over;
        };
        // With a state from an untrusted file, `progress` may report an end in the past.
        let now = now.max(self.out.end);
        self.snapshots_before(now);
        let mut next = ended;
        while let Some((_, job)) = next {
            self.end(now, job);
            next = loop {
                match progress.next_end(Some(now)) {
                    Next::End(time, job) => break Some((time, job)),
                    Next::Nothing => break None,
                    // A pause is ignored here, in the middle of this time, at which the state is inconsistent.
                    Next::Pause => {}
                }
            };
        }
        while let Some((_, job)) = self.next_arrival().filter(|(time, _)| *time <= now) {
            self.arrived += 1;
            self.arrive(job);
        }
        self.start(now, progress);
        self.out.loads.push(self.loads.at(now));
        self.out.end = now;
        SimulationStep::Happened(now)
    }

    /// Returns the outcome of all jobs, until now.
    pub fn finish(mut self) -> Simulated {
        self.snapshots_before(Nanos::MAX);
        self.out.links = self.loads.uses(self.out.end);
        self.out
    }

    /// Takes the requested snapshots of the network at times before `now`.
    fn snapshots_before(&mut self, now: Nanos) {
        let times = self.machine.snapshots.iter().skip(self.out.snapshots.len());
        for time in times.take_while(|time| **time < now || now == Nanos::MAX) {
            let links = 0..self.machine.topology.links().len() as u32 * 2;
            let loads = links.map(|link| self.loads.of(link)).collect();
            self.out.snapshots.push((*time, loads));
        }
    }

    /// Ends a job.
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
        let waiting = self.machine.waiting(number, job);
        let after = |other: &WaitingJob| self.jobs[other.job].priority >= job.priority;
        let place = self.waiting.partition_point(after);
        self.waiting.insert(place, waiting);
    }

    /// Starts jobs, as long as the scheduler returns some that get hosts.
    fn start(&mut self, now: Nanos, progress: &mut dyn JobProgress) {
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
        let mut gone = BTreeSet::new();
        for place in started {
            let Some(waiting) = self.waiting.get(place).copied() else {
                continue;
            };
            if !gone.contains(&place) && self.begin(now, waiting, progress) {
                gone.insert(place);
            }
        }
        if !gone.is_empty() {
            let mut place = 0..;
            self.waiting
                .retain(|_| place.next().is_none_or(|place| !gone.contains(&place)));
        }
    }

    /// Begins a job, if the policy has hosts for it.
    fn begin(&mut self, now: Nanos, waiting: WaitingJob, progress: &mut dyn JobProgress) -> bool {
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
        progress.begin(now, waiting.job, &places);
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
