//! Jobs that begin on request, their places and their ends, and the state of the network at the present time.
//!
//! A program may consist of many jobs: each is a range of its threads and of its processes. Used by simulations of several jobs, and by jobs in the background.

use belljar_networks::{Arrival, LinkLoad, Network, NetworkState};
use belljar_program::Program;
use belljar_sim::{Calendar, Time};

use super::locks::Locks;
use super::message::Channel;
use super::scheduled::Scheduled;
use super::slab::Slab;
use super::thread::ThreadState;
use super::{Engine, Event, ProcessState};

/// Returns the number of threads of each job with any calls.
pub(super) fn left(program: &Program) -> Vec<u32> {
    let jobs = program.processes.iter().map(|process| process.job + 1);
    let mut left = vec![0; jobs.max().unwrap_or(0) as usize];
    for thread in program.threads.iter().filter(|it| !it.calls.is_empty()) {
        left[program.processes[thread.process as usize].job as usize] += 1;
    }
    left
}

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// True if an ended job has not been reported, or if no events remain outside of the network.
    pub(crate) fn pauses(&self) -> bool {
        !self.over.is_empty() || self.rests()
    }

    /// True if no events remain outside of the network.
    pub(crate) fn rests(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the threads that are in a call forever, with the call, once no events remain.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = (u32, u32)> {
        let threads = self.threads.iter().zip(&self.program.threads);
        (0..)
            .zip(threads)
            .filter(|(_, (state, thread))| state.returned() < thread.calls.len())
            .map(|(number, (state, _))| (number, state.returned() as u32))
    }

    /// Resets everything except for the network, in which nothing may be in flight.
    pub(crate) fn reset(&mut self) {
        let threads = self.program.threads.iter();
        self.threads = threads.map(ThreadState::without_times).collect();
        self.processes.fill(ProcessState::default());
        self.channels.fill(Channel::default());
        self.messages = Slab::default();
        self.operations = Slab::default();
        self.locks = Locks::default();
        self.scheduled = Scheduled::default();
        self.unanswered.clear();
        self.contacts.clear();
        self.unready.clear();
        self.collectives.clear();
        self.events = Calendar::default();
        self.over.clear();
        self.left = left(self.program);
    }

    /// Begins the threads of these numbers at `now`, each later by its program's start; their processes, which have these numbers, run on these hosts.
    pub(crate) fn begin_job(
        &mut self,
        now: u64,
        threads: std::ops::Range<u32>,
        processes: std::ops::Range<u32>,
        hosts: &[u32],
    ) {
        for (process, host) in processes.zip(hosts) {
            self.hosts[process as usize] = *host;
        }
        self.begin_threads(now, threads);
    }

    /// Begins the threads of these numbers at `now`, each later by its program's start.
    pub(crate) fn begin_threads(&mut self, now: u64, threads: std::ops::Range<u32>) {
        for number in threads {
            let start = self.program.threads[number as usize].start;
            match self.is_scheduled(number) {
                true => self.schedule_event(now, Event::Comes(number)),
                false => self.schedule_event(now.saturating_add(start), Event::Enters(number)),
            }
        }
    }

    /// Places all processes on this host, until they are placed on others.
    pub(crate) fn place_all(&mut self, host: u32) {
        self.hosts = vec![host; self.program.processes.len()];
    }

    /// Places processes on these hosts.
    pub(crate) fn place(&mut self, hosts: Vec<u32>) {
        self.hosts = hosts;
    }

    /// Returns the hosts by process.
    pub(crate) fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    /// Returns the mutable state of the network, if it can be saved.
    pub(crate) fn saved_network(&self) -> Option<NetworkState> {
        self.network.saved(self.clock)
    }

    /// Takes the first ended job that was not taken yet, and its time.
    pub(crate) fn ended(&mut self) -> Option<(u64, u32)> {
        self.over.pop_front()
    }

    /// Plays until a job ends, but not beyond `until`, and returns its time and number, if any. `None` if it is unknown after this many events.
    pub(crate) fn next_end(&mut self, until: u64, most: u32) -> Option<Option<(u64, u32)>> {
        let mut arrived = Vec::new();
        let mut left = most;
        while self.over.is_empty() && self.step(until, &mut arrived).is_some() {
            left -= 1;
            if left == 0 && self.over.is_empty() {
                return None;
            }
        }
        Some(self.ended())
    }

    /// Returns the load of links.
    pub(crate) fn loads(&self) -> Vec<LinkLoad> {
        self.network.loads(self.clock)
    }

    /// Disables the times of calls, for a program that may be played without end.
    pub(crate) fn without_times(mut self) -> Self {
        let threads = self.program.threads.iter();
        self.threads = threads.map(ThreadState::without_times).collect();
        self
    }

    /// Returns the time of the next event, if there is one.
    pub(crate) fn next_time(&self) -> Option<u64> {
        let next = self.events.first().map(|due| due.time);
        let there = self.network.next_time().map(Time::as_ps);
        next.into_iter().chain(there).min()
    }

    /// Returns the network.
    pub(crate) fn network(&mut self) -> &mut N {
        &mut self.network
    }

    /// Handles the next event, if it is not after `until`, and returns its time.
    pub(crate) fn step(&mut self, until: u64, arrived: &mut Vec<Arrival>) -> Option<u64> {
        self.stride(until, arrived, false)
    }
}
