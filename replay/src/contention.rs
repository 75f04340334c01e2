//! Many programs on one network, each begun on request.
//!
//! Programs share only the network, so the additional time of one is caused by the others. They are first joined into one, job after job, with one copy for each job.
//! Used by simulations of many jobs, which decide when and where each begins.

use std::ops::Range;

use belljar_networks::{LinkLoad, NetworkState};
use belljar_program::{Collective, Operation, Program};
use serde::{Deserialize, Serialize};

use crate::calibration::Calibration;
use crate::engine::{Engine, EngineState, LAST_PS, Timing};
use crate::replay::{ReplayError, Setting, engine};

/// Programs of jobs, joined into one.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    program: Program,
    residuals: Vec<Vec<i64>>,
    /// Threads and processes by job.
    jobs: Vec<(Range<u32>, Range<u32>)>,
    /// Number of windows of all jobs so far.
    windows: u32,
}

/// The first numbers of a job's channels, collective operations, parts, partitioned messages and windows.
#[derive(Clone, Copy)]
struct JobOffsets {
    channel: u32,
    collective: u32,
    part: u32,
    message: u32,
    window: u32,
}

impl JobOffsets {
    /// Adds them to those of an operation, and returns its window's own number, if it has one.
    fn add_to(self, operation: &mut Operation) -> Option<u32> {
        match operation {
            Operation::Send { channel, .. }
            | Operation::Receive { channel, .. }
            | Operation::Access { channel, .. }
            | Operation::Flush { channel }
            | Operation::Probe { channel } => *channel += self.channel,
            Operation::SendPartitioned {
                channel, message, ..
            } => {
                *channel += self.channel;
                *message += self.message;
            }
            Operation::Ready { message } => *message += self.message,
            Operation::Lock {
                channel, window, ..
            } => {
                let own = *window;
                *channel += self.channel;
                *window += self.window;
                return Some(own);
            }
            Operation::Collective {
                collective, part, ..
            } => {
                *collective += self.collective;
                *part += self.part;
            }
            Operation::Test { .. } | Operation::Wait { .. } | Operation::Nothing { .. } => {}
        }
        None
    }
}

impl Joined {
    /// Adds a job with this program and these residuals; its number is the number of jobs before it.
    pub fn add(&mut self, program: &Program, calibration: &Calibration) {
        let whole = &mut self.program;
        let process = whole.processes.len() as u32;
        let thread = whole.threads.len() as u32;
        let numbers = JobOffsets {
            channel: whole.channels.len() as u32,
            collective: whole.collectives.len() as u32,
            part: whole.parts.len() as u32,
            message: whole.partitioned.len() as u32,
            window: self.windows,
        };
        let job = self.jobs.len() as u32;
        whole.processes.extend(program.processes.iter().map(|own| {
            let mut own = *own;
            own.job = job;
            own
        }));
        whole.channels.extend(program.channels.iter().map(|own| {
            let mut own = *own;
            (own.from, own.to) = (own.from + process, own.to + process);
            own
        }));
        whole
            .collectives
            .extend(program.collectives.iter().map(|own| Collective {
                members: own.members.iter().map(|member| member + process).collect(),
                ..own.clone()
            }));
        whole.parts.extend(program.parts.iter().cloned());
        whole.partitioned.extend(&program.partitioned);
        let first = program
            .threads
            .iter()
            .map(|own| own.start)
            .min()
            .unwrap_or(0);
        let mut windows = 0;
        for own in &program.threads {
            let mut own = own.clone();
            own.process += process;
            own.start -= first;
            for operation in &mut own.operations {
                let window = numbers.add_to(operation);
                windows = windows.max(window.map_or(0, |window| window + 1));
            }
            whole.threads.push(own);
        }
        self.windows += windows;
        self.residuals.extend(calibration.carried(program).to_vec());
        let threads = thread..whole.threads.len() as u32;
        self.jobs
            .push((threads, process..whole.processes.len() as u32));
    }

    /// Returns the number of processes of a job.
    pub fn processes(&self, job: usize) -> u32 {
        self.jobs
            .get(job)
            .map_or(0, |(_, processes)| processes.len() as u32)
    }
}

/// Most events that are played at once, before the caller decides whether to continue.
const AT_ONCE: u32 = 1 << 16;

/// The next event of running jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextEnd {
    /// This job ends at this time, in picoseconds.
    Job(u64, usize),
    /// No job ends until the requested time, or ever.
    Nothing,
    /// It is not known yet; call again to continue.
    NotYet,
}

/// The mutable state of a [`Contention`], as plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContentionState {
    engine: EngineState,
    network: NetworkState,
    /// Hosts by process.
    hosts: Vec<u32>,
}

/// The error for a state from which jobs cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state of the jobs' messages is damaged, or of other jobs")]
pub struct ContentionStateError;

/// Jobs on one network.
pub struct Contention<'p> {
    engine: Engine<'p, 'p>,
    /// Most events that are played at once.
    at_once: u32,
    /// Number of hosts.
    hosts: u32,
    jobs: &'p [(Range<u32>, Range<u32>)],
}

impl<'p> Contention<'p> {
    /// Creates it before any of these jobs has begun. The hosts of `setting` are ignored.
    ///
    /// # Errors
    /// Returns [`ReplayError`] if a message is larger than the limit, or if the routing does not fit.
    pub fn new(joined: &'p Joined, setting: &'p Setting) -> Result<Self, ReplayError> {
        let timing = Timing::Replayed(&joined.residuals);
        let mut engine = engine(&joined.program, setting, timing)?.without_times();
        engine.place_all(0);
        Ok(Self {
            engine,
            at_once: AT_ONCE,
            hosts: setting.network.hosts(),
            jobs: &joined.jobs,
        })
    }

    /// Begins a job at `now`, in picoseconds, which is no earlier than the time played so far; its process `i` runs on host `hosts[i]`.
    pub fn begin(&mut self, now: u64, job: usize, hosts: &[u32]) {
        if let Some((threads, processes)) = self.jobs.get(job) {
            self.engine
                .begin_job(now, threads.clone(), processes.clone(), hosts);
        }
    }

    /// Plays until a job ends, but not beyond `until`, in picoseconds, and a limited number of events at once.
    pub fn next_end(&mut self, until: Option<u64>) -> NextEnd {
        match self
            .engine
            .next_end(until.unwrap_or(LAST_PS).min(LAST_PS), self.at_once)
        {
            Some(Some((time, job))) => NextEnd::Job(time, job as usize),
            Some(None) => NextEnd::Nothing,
            None => NextEnd::NotYet,
        }
    }

    /// Returns the mutable state, after all ends were taken. `None` on a network of formulas, which cannot be saved.
    pub fn save(&self) -> Option<ContentionState> {
        Some(ContentionState {
            network: self.engine.saved_network()?,
            engine: self.engine.save(),
            hosts: self.engine.hosts().to_vec(),
        })
    }

    /// Continues from an untrusted `state`.
    ///
    /// # Errors
    /// Returns an error if it does not fit these jobs on this network; it must not be used any more then.
    pub fn restore(&mut self, state: ContentionState) -> Result<(), ContentionStateError> {
        let there = |host: &u32| *host < self.hosts;
        let sound = state.hosts.len() == self.engine.hosts().len()
            && state.hosts.iter().all(there)
            && self.engine.network().continues_from(state.network)
            && self.engine.restore(state.engine);
        if !sound {
            return Err(ContentionStateError);
        }
        self.engine.place(state.hosts);
        Ok(())
    }

    /// Returns the load of links.
    pub fn links(&self) -> Vec<LinkLoad> {
        self.engine.loads()
    }
}

#[cfg(test)]
mod tests;
