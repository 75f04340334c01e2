//! A simulation's state as plain values.
//!
//! It is the state between two steps. With the machine, the jobs and the policies it determines all further events, except for the progress of running jobs, which is
//! saved separately. A state may come from an untrusted file, so it is checked before use. Used by `belljar simulate`, which keeps states of long simulations.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{JobOutcome, Simulation, Under};
use crate::job::Nanos;
use crate::load::{Load, LoadsState};
use crate::selection::Hosts;

/// The mutable state of a [`Simulation`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixState {
    end: Nanos,
    arrived: usize,
    /// Waiting jobs, in the order of the queue.
    waiting: Vec<usize>,
    /// Running jobs, and the routes of their flows.
    running: Vec<(usize, Vec<Vec<u32>>)>,
    jobs: Vec<JobOutcome>,
    loads: LoadsState,
    history: Vec<Load>,
    snapshots: Vec<(Nanos, Vec<u64>)>,
    /// The states of scheduler, selection, mapping and router.
    policies: [Vec<u8>; 4],
}

/// The error for a state from which a simulation cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state of the simulation is damaged, or of another one")]
pub struct MixStateError;

impl Simulation<'_> {
    /// Returns the mutable state between two steps.
    pub fn save(&self) -> MixState {
        let ways = |under: &Under| under.ways.iter().map(|way| way.to_vec()).collect();
        let policies = &self.policies;
        MixState {
            end: self.out.end,
            arrived: self.arrived,
            waiting: self.waiting.iter().map(|own| own.job).collect(),
            running: self
                .under
                .iter()
                .map(|(job, it)| (*job, ways(it)))
                .collect(),
            jobs: self.out.jobs.clone(),
            loads: self.loads.save(),
            history: self.out.loads.clone(),
            snapshots: self.out.snapshots.clone(),
            policies: [
                policies.scheduler.save(),
                policies.selection.save(),
                policies.mapping.save(),
                policies.router.save(),
            ],
        }
    }

    /// Continues from an untrusted `state`.
    ///
    /// # Errors
    /// Returns an error if it does not fit this simulation; it must not be used any more then.
    pub fn restore(&mut self, state: MixState) -> Result<(), MixStateError> {
        let sound = self.is_sound(&state)
            && state.loads.carries(&self.carried_by(&state.running))
            && self.loads.restore(state.end, &state.loads);
        if !sound {
            return Err(MixStateError);
        }
        let [scheduler, selection, mapping, router] = &state.policies;
        let policies = &mut self.policies;
        let remembered = policies.scheduler.restore(scheduler)
            && policies.selection.restore(selection)
            && policies.mapping.restore(mapping)
            && policies.router.restore(router);
        if !remembered {
            return Err(MixStateError);
        }
        self.arrived = state.arrived;
        let waiting = state.waiting.into_iter();
        self.waiting = waiting
            .map(|job| self.machine.waiting(job, &self.jobs[job]))
            .collect();
        self.hosts = Hosts::new(self.machine.topology.hosts());
        self.under.clear();
        for (job, ways) in state.running {
            let outcome = &state.jobs[job];
            self.hosts.take(&outcome.hosts);
            let start = outcome.start.unwrap_or(0);
            let under = Under {
                hosts: outcome.hosts.clone(),
                estimated: start.saturating_add(self.jobs[job].estimate),
                ways: ways.into_iter().collect(),
            };
            self.under.insert(job, under);
        }
        self.out.jobs = state.jobs;
        self.out.loads = state.history;
        self.out.snapshots = state.snapshots;
        self.out.end = state.end;
        Ok(())
    }

    fn is_sound(&self, state: &MixState) -> bool {
        let wanted = self.machine.snapshots;
        let links = self.machine.topology.links().len() * 2;
        let times = state.history.iter().map(|load| load.time);
        let snapshots = state.snapshots.len() <= wanted.len()
            && state
                .snapshots
                .iter()
                .zip(wanted)
                .all(|((time, loads), at)| time == at && loads.len() == links);
        self.are_jobs_sound(state)
            && self.is_queue_sound(state)
            && self.are_running_sound(state)
            && snapshots
            && times.clone().is_sorted()
            && times.max().unwrap_or(0) == state.end
    }

    /// True if each job's outcome is possible until the state's time.
    fn are_jobs_sound(&self, state: &MixState) -> bool {
        let hosts = self.machine.topology.hosts();
        let mut jobs = state.jobs.iter().zip(self.jobs).enumerate();
        state.jobs.len() == self.jobs.len()
            && jobs.all(|(number, (outcome, job))| {
                let times = match (outcome.start, outcome.end) {
                    (None, None) => outcome.hosts.is_empty(),
                    (None, Some(_)) => false,
                    (Some(start), end) => {
                        let end = end.unwrap_or(state.end);
                        let until = state.end;
                        job.arrival <= start
                            && start <= end
                            && end <= until
                            && !outcome.hosts.is_empty()
                    }
                };
                outcome.job == number && times && outcome.hosts.iter().all(|host| *host < hosts)
            })
    }

    /// True if the jobs that have arrived and not started are waiting, each once, the highest priority first.
    fn is_queue_sound(&self, state: &MixState) -> bool {
        let Some((came, coming)) = self.order.split_at_checked(state.arrived) else {
            return false;
        };
        let began = |job: &usize| state.jobs[*job].start.is_some();
        let waits: BTreeSet<usize> = came.iter().copied().filter(|job| !began(job)).collect();
        let queue: BTreeSet<usize> = state.waiting.iter().copied().collect();
        let next = coming.first().map(|job| self.jobs[*job].arrival);
        let priorities = || {
            state
                .waiting
                .iter()
                .map(|job| std::cmp::Reverse(self.jobs[*job].priority))
        };
        !coming.iter().any(began)
            && queue.len() == state.waiting.len()
            && queue == waits
            && priorities().is_sorted()
            && came.iter().all(|job| self.jobs[*job].arrival <= state.end)
            && next.is_none_or(|next| next > state.end || state.history.is_empty())
    }

    /// True if the jobs that began and did not end are running, on distinct hosts.
    fn are_running_sound(&self, state: &MixState) -> bool {
        let links = self.machine.topology.links().len() as u32 * 2;
        let jobs = state
            .jobs
            .iter()
            .filter(|job| job.start.is_some() && job.end.is_none());
        let same = jobs
            .map(|job| job.job)
            .eq(state.running.iter().map(|(job, _)| *job));
        let mut taken = BTreeSet::new();
        same && state.running.iter().all(|(job, ways)| {
            let hosts = &state.jobs[*job].hosts;
            ways.len() <= self.jobs[*job].traffic.flows.len()
                && ways.iter().flatten().all(|link| *link < links)
                && hosts.iter().all(|host| taken.insert(*host))
        })
    }

    /// Returns the load of links by these jobs, in bits a second.
    fn carried_by(&self, running: &[(usize, Vec<Vec<u32>>)]) -> Vec<u64> {
        let mut sums = vec![0_u64; self.machine.topology.links().len() * 2];
        for (job, ways) in running {
            for (way, flow) in ways.iter().zip(&self.jobs[*job].traffic.flows) {
                for link in way {
                    let sum = &mut sums[*link as usize];
                    *sum = sum.saturating_add(flow.rate);
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests;
