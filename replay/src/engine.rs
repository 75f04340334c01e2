//! Plays a program on a network.
//!
//! Threads do what their calls say; what happens to one at a time happens in the order of time, and at one time in the order of kinds and numbers,
//! so that a replay is a function of its program, its network and its costs. A thread is looked at only where it calls MPI and where something comes for it.
//! MPI libraries do nothing while a process computes: what comes for it then waits for its next call. Called by `replay`.
//!
//! From top to bottom: `thread` enters and leaves calls; it begins `message`s, `collective` operations and `access`es, whose ends come back through
//! `Engine::end`.

/// Accesses to other processes' memory, flushes and locks.
mod access;
/// Collective operations.
mod collective;
/// Locks of windows.
mod locks;
/// Messages, from the call that sends one to the call that has it.
mod message;
/// Messages in partitions.
mod partitioned;
/// Threads of schedules, whose calls have conditions.
mod scheduled;
/// The operations of a call, one after the other.
mod sequence;
/// Numbers that are used again.
mod slab;
/// An engine's running state as plain values.
mod state;
/// Threads: entering and leaving calls.
mod thread;
/// Calls that wait.
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use belljar_collectives::Schedule;
use belljar_networks::{Arrival, LinkLoad, Network, NetworkState};
use belljar_program::{ProcessId, Program, Slot};
use belljar_sim::{Calendar, Time, Timed};
use serde::{Deserialize, Serialize};

use crate::costs::Spans;
use access::Unanswered;
use collective::CollectiveState;
use locks::Locks;
use message::{Channel, MpiMessage};
use scheduled::Scheduled;
use slab::Slab;
pub(crate) use state::EngineState;
use thread::ThreadState;

/// The last time that is played, in picoseconds: half of all that there are, so that no timer of a network comes to their end.
pub(crate) const LAST_PS: u64 = 1 << 63;

/// The number of an operation that is under way.
type OperationId = u32;
/// The number of a message that is under way.
type MessageId = u32;

/// What happens, in its order at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Event {
    /// A message has arrived.
    Arrives(MessageId),
    /// A message's next leg leaves its host.
    Leaves(MessageId),
    /// A thread's call continues after a flush.
    Resumes(u32),
    /// A thread enters its next call.
    Enters(u32),
    /// A thread has left its last call.
    Ends(u32),
    /// A thread whose calls have conditions comes to its next call.
    Comes(u32),
    /// The conditions of a thread's next call hold: it asks for its processor.
    Asks(u32),
    /// A processor of a process has become free.
    Wakes(ProcessId, u32),
}

/// An event with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    time: u64,
    event: Event,
}

impl Timed for Due {
    fn time(&self) -> Time {
        Time::from_ps(self.time)
    }
}

/// How calls' times come about.
pub(crate) enum Timing<'r> {
    /// As in the trace; what calls take beyond what can be explained goes into these, by thread and call, in picoseconds.
    Traced(&'r mut [Vec<i64>]),
    /// By what happens, with these added.
    Replayed(&'r [Vec<i64>]),
}

/// What a process is doing as far as MPI is concerned.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ProcessState {
    /// Its threads that are in a call and do not know until when.
    blocked: u32,
    /// Until when at least one of them is in a call.
    until: u64,
    /// Until when its processor works in MPI.
    cpu: u64,
    /// What waits for it to call MPI.
    deferred: VecDeque<Deferred>,
}

/// What a process does next time it is in MPI.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Deferred {
    /// Sees that a leg of a message has arrived.
    See(MessageId),
    /// Continues its part of a collective operation with what this step received.
    Step(u32, u32, u32),
}

/// Whom the end of something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Party {
    /// An operation of a thread.
    Operation(OperationId),
    /// A step of a member's part of a collective operation: the operation, the member's place, the step.
    Step(u32, u32, u32),
    /// Nobody.
    Nobody,
}

/// An operation of a thread that is under way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct OperationState {
    /// When it was over, once it is.
    ready: Option<u64>,
    /// Picoseconds that whoever waits for it has to work then.
    cost: u64,
    /// The thread and the call that wait for it.
    waiter: Option<(u32, u32)>,
    /// Whether that call does not end it: others may wait for it then.
    stays: bool,
}

/// When a thread was in a call, and how long of that it waited, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallTimes {
    pub(crate) entry: u64,
    pub(crate) exit: u64,
    pub(crate) waited: u64,
}

/// A program that is being played.
pub(crate) struct Engine<'p, 'r, N: Network + ?Sized = dyn Network> {
    program: &'p Program,
    network: Box<N>,
    spans: Spans,
    /// By process.
    hosts: Vec<u32>,
    /// What threads' own work is multiplied by.
    scale: f64,
    timing: Timing<'r>,
    threads: Vec<ThreadState>,
    processes: Vec<ProcessState>,
    channels: Vec<Channel>,
    messages: Slab<MpiMessage>,
    operations: Slab<OperationState>,
    locks: Locks,
    scheduled: Scheduled,
    /// Accesses that were not answered, by origin and target.
    unanswered: BTreeMap<(ProcessId, ProcessId), Unanswered>,
    /// Pairs of processes that have exchanged a large message.
    contacts: BTreeSet<(ProcessId, ProcessId)>,
    /// Partitioned messages that have not left, and how many calls are still to make partitions of them ready.
    unready: BTreeMap<u32, (MessageId, u32)>,
    /// Threads of each job that have not ended.
    left: Vec<u32>,
    /// Jobs that ended, and when.
    over: VecDeque<(u64, u32)>,
    collectives: BTreeMap<u32, CollectiveState>,
    schedules: BTreeMap<u32, Arc<Schedule>>,
    events: Calendar<Due>,
}

/// Threads of each job that do anything.
fn left(program: &Program) -> Vec<u32> {
    let jobs = program.processes.iter().map(|process| process.job + 1);
    let mut left = vec![0; jobs.max().unwrap_or(0) as usize];
    for thread in program.threads.iter().filter(|it| !it.calls.is_empty()) {
        left[program.processes[thread.process as usize].job as usize] += 1;
    }
    left
}

/// What came of playing a program.
pub(crate) struct Played<N: Network + ?Sized = dyn Network> {
    /// By thread, each call's.
    pub(crate) times: Vec<Vec<CallTimes>>,
    /// Threads that never came to their end, with the call that they are in.
    pub(crate) stuck: Vec<(u32, u32)>,
    /// The network, as it was left.
    pub(crate) network: Box<N>,
    /// Messages that were sent, the library's own included.
    pub(crate) messages: u64,
    /// It was broken off: no thread is stuck.
    pub(crate) broken_off: bool,
    /// Something is left to happen after the last time that is played.
    pub(crate) late: bool,
}

impl<'p, 'r, N: Network + ?Sized> Engine<'p, 'r, N> {
    pub(crate) fn new(
        program: &'p Program,
        network: Box<N>,
        spans: Spans,
        (hosts, scale): (&[u32], f64),
        timing: Timing<'r>,
    ) -> Self {
        let threads = program.threads.iter().map(ThreadState::new).collect();
        Self {
            program,
            network,
            spans,
            hosts: hosts.to_vec(),
            scale,
            timing,
            threads,
            processes: vec![ProcessState::default(); program.processes.len()],
            channels: vec![Channel::default(); program.channels.len()],
            messages: Slab::default(),
            operations: Slab::default(),
            locks: Locks::default(),
            scheduled: Scheduled::default(),
            unanswered: BTreeMap::new(),
            contacts: BTreeSet::new(),
            unready: BTreeMap::new(),
            left: left(program),
            over: VecDeque::new(),
            collectives: BTreeMap::new(),
            schedules: BTreeMap::new(),
            events: Calendar::default(),
        }
    }

    /// The same without what each call took, for a program that may be played for as long as anybody likes.
    pub(crate) fn without_times(mut self) -> Self {
        let threads = self.program.threads.iter();
        self.threads = threads.map(ThreadState::without_times).collect();
        self
    }

    /// Plays the program to its end, or as far as it goes. `each` is told of each call of a thread that is entered, and says whether to continue.
    pub(crate) fn play(mut self, mut each: impl FnMut() -> bool) -> Played<N> {
        self.begin_threads(0, 0..self.program.threads.len() as u32);
        let mut arrived = Vec::new();
        loop {
            if self.enters_next() && !each() {
                return self.finish(true);
            }
            if self.stride(LAST_PS, &mut arrived, true).is_none() {
                return self.finish(false);
            }
        }
    }

    /// Whether what happens next is that a thread enters a call.
    fn enters_next(&self) -> bool {
        // The network is asked only where it matters: this is between all events.
        self.events.first().is_some_and(|due| {
            let first = || {
                let there = self.network.next_time().map(Time::as_ps);
                there.is_none_or(|there| there > due.time)
            };
            matches!(due.event, Event::Enters(_)) && first()
        })
    }

    /// When something happens next, if anything does.
    pub(crate) fn next_time(&self) -> Option<u64> {
        let next = self.events.first().map(|due| due.time);
        let there = self.network.next_time().map(Time::as_ps);
        next.into_iter().chain(there).min()
    }

    /// The network.
    pub(crate) fn network(&mut self) -> &mut N {
        &mut self.network
    }

    /// Whether a job has ended that nobody was told of, or nothing happens any more but for what happens in the network.
    pub(crate) fn pauses(&self) -> bool {
        !self.over.is_empty() || self.rests()
    }

    /// Whether nothing happens any more but for what happens in the network.
    pub(crate) fn rests(&self) -> bool {
        self.events.is_empty()
    }

    /// Threads that are in a call for good, if nothing happens any more, with the call.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = (u32, u32)> {
        let threads = self.threads.iter().zip(&self.program.threads);
        (0..)
            .zip(threads)
            .filter(|(_, (state, thread))| state.returned() < thread.calls.len())
            .map(|(number, (state, _))| (number, state.returned() as u32))
    }

    /// Forgets all that was played but for what is under way in the network, which must be nothing.
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

    /// Lets happen what happens next, if that is not after `until`: when that was.
    pub(crate) fn step(&mut self, until: u64, arrived: &mut Vec<Arrival>) -> Option<u64> {
        self.stride(until, arrived, false)
    }

    /// The same; in a `long` stride the network goes on until anything else happens: when it began.
    fn stride(&mut self, until: u64, arrived: &mut Vec<Arrival>, long: bool) -> Option<u64> {
        let next = self.events.first().map(|due| due.time);
        let there = self.network.next_time().map(Time::as_ps);
        let first = match (next, there) {
            (Some(next), Some(there)) => next.min(there),
            (next, there) => next.or(there)?,
        };
        if first > until {
            return None;
        }
        if there == Some(first) {
            match long {
                true => {
                    let limit = next.map_or(until, |next| next.min(until));
                    self.network.advance_to(Time::from_ps(limit), arrived);
                }
                false => self.network.advance(arrived),
            }
        } else if let Some(due) = self.events.pop() {
            self.handle(due.time, due.event);
        }
        for Arrival { time, id } in arrived.drain(..) {
            self.schedule_event(time.as_ps(), Event::Arrives(id));
        }
        Some(first)
    }

    /// The threads of these numbers begin at `now`, each as much later as its program says; their processes, which have these numbers, are on these hosts.
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

    /// The threads of these numbers begin at `now`, each as much later as its program says.
    pub(crate) fn begin_threads(&mut self, now: u64, threads: std::ops::Range<u32>) {
        for number in threads {
            let start = self.program.threads[number as usize].start;
            match self.is_scheduled(number) {
                true => self.schedule_event(now, Event::Comes(number)),
                false => self.schedule_event(now.saturating_add(start), Event::Enters(number)),
            }
        }
    }

    /// All processes are on this host, until they are told another one.
    pub(crate) fn place_all(&mut self, host: u32) {
        self.hosts = vec![host; self.program.processes.len()];
    }

    /// Processes are on these hosts.
    pub(crate) fn place(&mut self, hosts: Vec<u32>) {
        self.hosts = hosts;
    }

    /// By process, its host.
    pub(crate) fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    /// All that changes of the network, where it can be saved.
    pub(crate) fn saved_network(&self) -> Option<NetworkState> {
        self.network.saved()
    }

    /// The job that ended first of those that this was not told yet, and when.
    pub(crate) fn ended(&mut self) -> Option<(u64, u32)> {
        self.over.pop_front()
    }

    /// Plays until a job ends, though not beyond `until`: which, and when, if any does. `None` when it is not known after so many events.
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

    /// What links have carried.
    pub(crate) fn loads(&self) -> Vec<LinkLoad> {
        self.network.loads()
    }

    fn schedule_event(&mut self, time: u64, event: Event) {
        self.events.push(Due { time, event });
    }

    fn handle(&mut self, now: u64, event: Event) {
        match event {
            Event::Arrives(message) => self.arrives(now, message),
            Event::Leaves(message) => self.leaves(now, message),
            Event::Resumes(thread) => self.resume(now, thread),
            Event::Enters(thread) => self.enter(now, thread),
            Event::Comes(thread) => self.come(now, thread),
            Event::Asks(thread) => self.ask(now, thread),
            Event::Wakes(process, processor) => self.wake(now, (process, processor)),
            Event::Ends(thread) => {
                let process = self.program.threads[thread as usize].process;
                let job = self.program.processes[process as usize].job;
                let left = &mut self.left[job as usize];
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.over.push_back((now, job));
                }
            }
        }
    }

    /// Whether a process is in MPI at `now`.
    fn is_in_mpi(&self, process: u32, now: u64) -> bool {
        let process = &self.processes[process as usize];
        process.blocked > 0 || process.until >= now
    }

    /// A process works for so long in MPI, from `now` on or as soon as it is free; when it will be done.
    fn work(&mut self, process: u32, now: u64, span: u64) -> u64 {
        let cpu = &mut self.processes[process as usize].cpu;
        *cpu = (*cpu).max(now).saturating_add(span);
        *cpu
    }

    /// The time at which a process that is in MPI can begin something.
    fn free(&self, process: u32, now: u64) -> u64 {
        self.processes[process as usize].cpu.max(now)
    }

    /// Does what a process put off until its next call, which is now.
    fn do_deferred(&mut self, process: u32, now: u64) {
        while let Some(deferred) = self.processes[process as usize].deferred.pop_front() {
            match deferred {
                Deferred::See(message) => self.see(now, message),
                Deferred::Step(collective, place, step) => {
                    self.step_received(now, collective, place, step)
                }
            }
        }
    }

    /// Something is over at `now`, and has so much work for whoever waits for it.
    fn end(&mut self, now: u64, party: Party, cost: u64) {
        match party {
            Party::Operation(operation) => self.operation_over(now, operation, cost),
            Party::Step(collective, place, step) => self.step_over(now, collective, place, step),
            Party::Nobody => {}
        }
    }

    /// An operation begins, which the slot of the thread stands for.
    fn begin(&mut self, thread: u32, slot: Slot) -> OperationId {
        let operation = self.operations.insert(OperationState {
            ready: None,
            cost: 0,
            waiter: None,
            stays: false,
        });
        if let Some(place) = self.threads[thread as usize].slots.get_mut(slot as usize) {
            *place = Some(operation);
        }
        operation
    }

    fn finish(self, broken_off: bool) -> Played<N> {
        let stuck = match broken_off {
            true => Vec::new(),
            false => self.stuck().collect(),
        };
        Played {
            late: !broken_off && self.next_time().is_some(),
            stuck,
            messages: self.messages.inserted(),
            times: self.threads.into_iter().map(ThreadState::times).collect(),
            network: self.network,
            broken_off,
        }
    }
}
