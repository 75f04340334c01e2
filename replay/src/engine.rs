//! Plays a program on a network.
//!
//! Threads make their calls in the order of time, and at one time in the order of kinds and numbers. A replay is therefore a function of its program, its
//! network and its costs. A thread is only processed where it calls MPI and where something arrives for it. MPI libraries are inactive while a process
//! computes: arrivals then wait for its next call. Used by `replay`.
//!
//! From top to bottom: `thread` enters and leaves calls; it begins `message`s, `collective` operations and `access`es, whose ends are reported through
//! `Engine::end`.

/// Accesses to other processes' memory, flushes and locks.
mod access;
/// Collective operations.
mod collective;
/// Jobs that begin on request.
mod jobs;
/// Locks of windows.
mod locks;
/// Messages, from the call that sends one to the call that receives it.
mod message;
/// Messages in partitions.
mod partitioned;
/// Threads of schedules, whose calls have conditions.
mod scheduled;
/// The operations of a call, one after the other.
mod sequence;
/// Reusable numbers.
mod slab;
/// An engine's running state as plain values.
mod state;
/// Threads: entering and leaving calls.
mod thread;
/// Waiting calls.
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use belljar_collectives::Schedule;
use belljar_networks::{Arrival, Network};
use belljar_program::{ProcessId, Program, Slot};
use belljar_sim::{Calendar, Time, Timed};
use serde::{Deserialize, Serialize};

use crate::costs::Spans;
use access::Unanswered;
use collective::CollectiveState;
use jobs::left;
use locks::Locks;
use message::{Channel, MpiMessage};
use scheduled::Scheduled;
use slab::Slab;
pub(crate) use state::EngineState;
use thread::ThreadState;

/// The last time that is played, in picoseconds: half of the range, so that no timer of a network overflows.
pub(crate) const LAST_PS: u64 = 1 << 63;

/// The number of an operation in progress.
type OperationId = u32;
/// The number of a message in flight.
type MessageId = u32;

/// Events, in their order at one time.
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
    /// A thread whose calls have conditions reaches its next call.
    Comes(u32),
    /// The conditions of a thread's next call hold: it requests its processor.
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

/// The source of calls' times.
pub(crate) enum Timing<'r> {
    /// The trace's times; unexplained time of calls is stored here, by thread and call, in picoseconds.
    Traced(&'r mut [Vec<i64>]),
    /// The simulated times, plus these residuals.
    Replayed(&'r [Vec<i64>]),
}

/// A process's state in MPI.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ProcessState {
    /// Number of its threads in a call with an unknown end.
    blocked: u32,
    /// The time until which at least one of them is in a call.
    until: u64,
    /// The time until which its processor works in MPI.
    cpu: u64,
    /// Events that wait until it calls MPI.
    deferred: VecDeque<Deferred>,
}

/// Deferred work of a process until it is next in MPI.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Deferred {
    /// Handles an arrived leg of a message.
    See(MessageId),
    /// Continues its part of a collective operation with the data received by this step.
    Step(u32, u32, u32),
}

/// The receiver of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Party {
    /// An operation of a thread.
    Operation(OperationId),
    /// A step of a member's part of a collective operation: the operation, the member's position, the step.
    Step(u32, u32, u32),
    /// No receiver.
    Nobody,
}

/// An operation of a thread in progress.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct OperationState {
    /// The time of its completion, once complete.
    ready: Option<u64>,
    /// Picoseconds of work for the waiting thread after the completion.
    cost: u64,
    /// The thread and the call that wait for it.
    waiter: Option<(u32, u32)>,
    /// True if that call does not end it, so that others may wait for it later.
    stays: bool,
}

/// A call's times, and its waiting, in picoseconds.
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
    /// Hosts by process.
    hosts: Vec<u32>,
    /// The factor of threads' own work.
    scale: f64,
    timing: Timing<'r>,
    threads: Vec<ThreadState>,
    processes: Vec<ProcessState>,
    channels: Vec<Channel>,
    messages: Slab<MpiMessage>,
    operations: Slab<OperationState>,
    locks: Locks,
    scheduled: Scheduled,
    /// Unanswered accesses, by origin and target.
    unanswered: BTreeMap<(ProcessId, ProcessId), Unanswered>,
    /// Pairs of processes that have exchanged a large message.
    contacts: BTreeSet<(ProcessId, ProcessId)>,
    /// Partitioned messages that have not left, and the number of calls that still have to mark partitions ready.
    unready: BTreeMap<u32, (MessageId, u32)>,
    /// Number of threads of each job that have not ended.
    left: Vec<u32>,
    /// Jobs that ended, with their times.
    over: VecDeque<(u64, u32)>,
    collectives: BTreeMap<u32, CollectiveState>,
    schedules: BTreeMap<u32, Arc<Schedule>>,
    events: Calendar<Due>,
    /// The time until which everything has been played.
    clock: Time,
}

/// The result of playing a program.
pub(crate) struct Played<N: Network + ?Sized = dyn Network> {
    /// Times of each call, by thread.
    pub(crate) times: Vec<Vec<CallTimes>>,
    /// Threads that never ended, with their current call.
    pub(crate) stuck: Vec<(u32, u32)>,
    /// The network at the end.
    pub(crate) network: Box<N>,
    /// Number of messages sent, including the library's own.
    pub(crate) messages: u64,
    /// True if it was interrupted, so that no thread is stuck.
    pub(crate) broken_off: bool,
    /// True if events remain after the last time that is played.
    pub(crate) late: bool,
    /// The time until which it was played.
    pub(crate) until: Time,
}

impl<'p, 'r, N: Network + ?Sized> Engine<'p, 'r, N> {
    pub(crate) fn new(
        program: &'p Program,
        network: Box<N>,
        spans: Spans,
        hosts: &[u32],
        scale: f64,
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
            clock: Time::ZERO,
        }
    }

    /// Plays the program to its end, or as far as it can. `each` is called at each entry of a call by a thread, and returns whether to continue.
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

    /// True if the next event is a thread's entry of a call.
    fn enters_next(&self) -> bool {
        // The network is only queried if it matters, as this runs between all events.
        self.events.first().is_some_and(|due| {
            let first = || {
                let there = self.network.next_time().map(Time::as_ps);
                there.is_none_or(|there| there > due.time)
            };
            matches!(due.event, Event::Enters(_)) && first()
        })
    }

    /// Handles the next event, if it is not after `until`; in a `long` stride the network continues until any other event. Returns the time of the beginning.
    fn stride(&mut self, until: u64, arrived: &mut Vec<Arrival>, long: bool) -> Option<u64> {
        let next = self.events.first().map(|due| due.time);
        let there = self.network.next_time().map(Time::as_ps);
        let first = match (next, there) {
            (Some(next), Some(there)) => next.min(there),
            (next, there) => next.or(there)?,
        };
        if first > until {
            self.clock = Time::from_ps(until);
            return None;
        }
        self.clock = Time::from_ps(first);
        if there == Some(first) {
            match long {
                true => {
                    let limit = next.map_or(until, |next| next.min(until));
                    self.network.advance_to(Time::from_ps(limit), arrived);
                    let reached = arrived.last().map_or(limit, |it| it.time.as_ps());
                    self.clock = Time::from_ps(reached.max(first));
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

    /// True if a process is in MPI at `now`.
    fn is_in_mpi(&self, process: u32, now: u64) -> bool {
        let process = &self.processes[process as usize];
        process.blocked > 0 || process.until >= now
    }

    /// Adds work of a process in MPI, from `now` on or as soon as it is free, and returns its end.
    fn work(&mut self, process: u32, now: u64, span: u64) -> u64 {
        let cpu = &mut self.processes[process as usize].cpu;
        *cpu = (*cpu).max(now).saturating_add(span);
        *cpu
    }

    /// Returns the time at which a process that is in MPI can begin something.
    fn free(&self, process: u32, now: u64) -> u64 {
        self.processes[process as usize].cpu.max(now)
    }

    /// Does the work that a process deferred until its next call, which is now.
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

    /// Handles a completion at `now`, with this much work for the waiting party.
    fn end(&mut self, now: u64, party: Party, cost: u64) {
        match party {
            Party::Operation(operation) => self.operation_over(now, operation, cost),
            Party::Step(collective, place, step) => self.step_over(now, collective, place, step),
            Party::Nobody => {}
        }
    }

    /// Begins an operation with this slot of the thread.
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
            until: match broken_off {
                true => self.clock,
                false => Time::MAX,
            },
            late: !broken_off && self.next_time().is_some(),
            stuck,
            messages: self.messages.inserted(),
            times: self.threads.into_iter().map(ThreadState::times).collect(),
            network: self.network,
            broken_off,
        }
    }
}
