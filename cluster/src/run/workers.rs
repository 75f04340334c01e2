//! Host threads that run nodes in parallel.
//!
//! A round is short, some ten microseconds of work, so threads wait for the next one awake, and only sleep if
//! none comes. A node stays with one thread, whose caches have its state, unless that thread has more work than
//! others. No result depends on the assignment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use belljar_sim::Time;
use belljar_vmm::NodeError;

use crate::host::sandbox::{Sandbox, SandboxError};
use crate::hosts::NetworkKind;
use crate::run::bounds::{Ahead, NodeStep, NullMessage, Turn};
use crate::run::runner::Runner;
use crate::scenario::engine::Engine;

/// State of a node that is shared by the run and its threads.
mod known;
/// Waiting of threads for the next round.
mod pause;

use known::KnownNode;
use pause::pause;

/// Number of nodes from which long-sleeping ones release host memory.
const MANY: usize = 16;
/// Polls of a thread whose node waits for others, some hundred microseconds, after which it assumes that the
/// host has descheduled another thread.
const PATIENCE: u32 = 10_000;
/// Rounds after that without running past ends, so that any running thread can take any turn. With too few
/// processors of the host, a node would stall with the descheduled thread that waits in its turn.
const REST: u32 = 1_000;

/// The nodes of this host, and the state of the present round.
struct WorkerState {
    runners: Vec<Mutex<Runner>>,
    /// Numbers of the nodes.
    numbers: Vec<u32>,
    /// Index of each node in that list, by its number; [`ELSEWHERE`] for others.
    places: Vec<u32>,
    /// State of each node since its last turn, and its next turn.
    known: Vec<KnownNode>,
    /// Null messages of nodes in open rounds.
    null_messages: Vec<NullMessage>,
    /// True if a thread waited too long in such a round.
    lost_patience: AtomicBool,
    /// Number of threads.
    lanes: usize,
    /// True if an idle thread takes turns of others.
    lends: bool,
    call: RoundSignal,
    /// True after a failure.
    failed: AtomicBool,
    failure: Mutex<Option<(u32, NodeError)>>,
}

/// State that all threads poll while they wait, alone in its cache lines.
#[repr(align(128))]
struct RoundSignal {
    /// Number of rounds; wakes waiting threads.
    round: AtomicU64,
    quit: AtomicBool,
}

/// The index of a node that another host runs.
const ELSEWHERE: u32 = u32::MAX;

/// The nodes that this host runs, and the threads that run them.
pub struct Workers {
    shared: Arc<WorkerState>,
    /// Remaining rounds without running past ends.
    rest: u32,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Runs `runners`, in order of their numbers, on `threads` threads, including the caller's; the others first
    /// enter `sandbox`.
    ///
    /// # Errors
    /// If the host refuses the filter of a thread.
    pub fn new(
        runners: Vec<Runner>,
        threads: usize,
        engine: Engine,
        sandbox: Option<&Sandbox>,
    ) -> Result<Self, SandboxError> {
        let shared = Arc::new(WorkerState {
            places: places(&runners),
            known: runners.iter().map(KnownNode::of).collect(),
            null_messages: runners.iter().map(|_| NullMessage::none()).collect(),
            lost_patience: AtomicBool::new(false),
            numbers: runners.iter().map(|runner| runner.index).collect(),
            runners: runners.into_iter().map(Mutex::new).collect(),
            lanes: threads.max(1),
            // KVM delays a change of a processor's thread by milliseconds.
            lends: engine == Engine::Exact,
            call: RoundSignal {
                round: AtomicU64::new(0),
                quit: AtomicBool::new(false),
            },
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        });
        let (tell, hear) = channel();
        let helpers = (1..threads).map(|lane| {
            let (shared, tell, sandbox) = (shared.clone(), tell.clone(), sandbox.cloned());
            thread::spawn(move || {
                let entered = sandbox.map_or(Ok(()), |sandbox| sandbox.enter());
                let may_work = entered.is_ok();
                // The receiver is gone after the refusal of another thread.
                let _ = tell.send(entered);
                // The constructor waits until all senders are dropped.
                drop(tell);
                if may_work {
                    shared.work(lane);
                }
            })
        });
        let workers = Self {
            rest: 0,
            threads: helpers.collect(),
            shared,
        };
        drop(tell);
        hear.iter().collect::<Result<(), _>>()?;
        Ok(workers)
    }

    /// Number of nodes here.
    pub fn len(&self) -> usize {
        self.shared.runners.len()
    }

    /// True if `node` runs here.
    pub fn holds(&self, node: u32) -> bool {
        let place = self.shared.places.get(node as usize);
        place.is_some_and(|place| *place != ELSEWHERE)
    }

    /// True if there are no nodes here.
    pub fn is_empty(&self) -> bool {
        self.shared.runners.is_empty()
    }

    /// True if the next round should be open: nodes run past their ends as far as others let them. Each of them
    /// needs a thread, which waits for the others within the node's turn.
    pub(crate) fn goes_on(&self) -> bool {
        let WorkerState { lends, lanes, .. } = *self.shared;
        lends && lanes > 1 && self.len() <= lanes && self.rest == 0
    }

    /// A node, between rounds.
    ///
    /// # Panics
    /// If it is not [here](Self::holds).
    pub fn runner(&self, node: u32) -> MutexGuard<'_, Runner> {
        lock(&self.shared.runners[self.shared.place(node)])
    }

    /// All nodes here in order, between rounds.
    pub fn runners(&self) -> impl Iterator<Item = MutexGuard<'_, Runner>> {
        self.shared.runners.iter().map(lock)
    }

    /// The numbers of all nodes here, in order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.shared.numbers.iter().copied()
    }

    /// The time of a node's next action.
    pub fn next(&self, node: u32) -> Time {
        self.shared.known(node).next()
    }

    /// True if the node may have had an effect in its last turn.
    pub(crate) fn spoke(&self, node: u32) -> bool {
        self.shared.known(node).spoke()
    }

    /// Delivers a frame or packet to a node at `time`.
    pub(crate) fn deliver(&self, network: NetworkKind, node: u32, time: Time, data: Vec<u8>) {
        let mut runner = self.runner(node);
        match network {
            NetworkKind::Ethernet => runner.node_mut().deliver_frame(time, data),
            NetworkKind::Infiniband => runner.node_mut().deliver_packet(time, data),
        }
        self.shared.note(node, &runner);
    }

    /// Types `bytes` into a node's serial console at `time`.
    pub fn type_in(&self, node: u32, time: Time, bytes: Vec<u8>) {
        let mut runner = self.runner(node);
        runner.node_mut().write_console(time, bytes);
        self.shared.note(node, &runner);
    }

    /// Runs the nodes of `turns`, with one turn at most for each.
    ///
    /// # Errors
    /// The failure of the node with the lowest number, with that number.
    pub(crate) fn round(&mut self, turns: &[Turn]) -> Result<(), (u32, NodeError)> {
        if let Some(alone) = Arc::get_mut(&mut self.shared) {
            return alone.run_all(turns);
        }
        let shared = &*self.shared;
        if let [turn] = turns
            && (shared.lends || shared.lane_of(turn.node) == 0)
        {
            // A single turn is not worth waking threads, and no other node could let it run further.
            let reach = turn.end;
            shared.take(Turn { reach, ..*turn });
        } else {
            shared.offer(turns);
            shared.take_turns(0);
            shared.wait_for(turns);
            self.rest = match shared.lost_patience.swap(false, Ordering::Relaxed) {
                true => REST,
                false => self.rest.saturating_sub(1),
            };
        }
        shared.outcome()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.call.quit.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // The panic has shown as a poisoned node already.
            let _ = thread.join();
        }
    }
}

impl WorkerState {
    fn place(&self, node: u32) -> usize {
        self.places[node as usize] as usize
    }

    fn known(&self, node: u32) -> &KnownNode {
        &self.known[self.place(node)]
    }

    /// The thread of a node.
    fn lane_of(&self, node: u32) -> usize {
        self.place(node) % self.lanes
    }

    /// Starts a round on all threads.
    fn offer(&self, turns: &[Turn]) {
        if turns.iter().any(Turn::goes_on) {
            self.null_messages.iter().for_each(NullMessage::clear);
            for turn in turns {
                let place = self.place(turn.node);
                self.null_messages[place].begin(self.known[place].next(), turn);
            }
        }
        // The others' turns first, as the caller starts with its own lane.
        for turn in turns.iter().rev() {
            self.known(turn.node).offer(turn);
        }
        // No other thread counts. An addition would wait until all stores above are visible.
        let round = self.call.round.load(Ordering::Relaxed);
        self.call.round.store(round + 1, Ordering::Release);
    }

    /// Waits until all `turns` are finished.
    fn wait_for(&self, turns: &[Turn]) {
        let mut waited = 0;
        for turn in turns {
            let known = self.known(turn.node);
            while !known.is_done() {
                pause(&mut waited, false);
            }
        }
    }

    fn work(&self, lane: usize) {
        let mut seen = 0;
        let mut waited = 0;
        while !self.call.quit.load(Ordering::Acquire) {
            let round = self.call.round.load(Ordering::Acquire);
            // The lane's first turn may be visible before the call.
            if round == seen && !self.known.get(lane).is_some_and(KnownNode::waits) {
                pause(&mut waited, true);
                continue;
            }
            seen = round;
            waited = 0;
            self.take_turns(lane);
        }
    }

    /// Executes turns until none is left, first the turns of its own lane. A thread that is late from an earlier
    /// round only finds turns of the present one.
    fn take_turns(&self, lane: usize) {
        for other in 0..if self.lends { self.lanes } else { 1 } {
            let first = (lane + other) % self.lanes;
            for place in (first..self.known.len()).step_by(self.lanes) {
                if let Some(turn) = self.known[place].claim(self.numbers[place]) {
                    self.take(turn);
                }
            }
        }
    }

    fn take(&self, turn: Turn) {
        let place = self.place(turn.node);
        let done = self.known[place].will_be_done();
        let mut runner = lock(&self.runners[place]);
        if let Err(error) = self.run(place, &mut runner, turn) {
            self.fail(turn.node, error);
        }
        drop(runner);
        drop(done);
    }

    /// Runs the node through its turn, and past its end as far as others let it.
    fn run(&self, place: usize, runner: &mut Runner, mut turn: Turn) -> Result<(), NodeError> {
        let (known, is_large) = (&self.known[place], self.is_large());
        let ahead = turn.goes_on();
        let mut ahead = ahead.then(|| Ahead::new(&self.null_messages, place, &turn));
        known.run(runner, turn, is_large)?;
        while let Some(ahead) = &mut ahead
            && !known.spoke()
            && let Some(end) = self.next_end(ahead, known.next())
        {
            turn.end = end;
            known.run(runner, turn, is_large)?;
        }
        Ok(())
    }

    /// Waits until others let a node run further that does nothing before `next`. Returns the bound; `None` if
    /// the round ends first.
    fn next_end(&self, ahead: &mut Ahead<'_>, next: Time) -> Option<Time> {
        for _ in 0..PATIENCE {
            match ahead.step(next) {
                NodeStep::Run(end) => return Some(end),
                NodeStep::Stop => return None,
                NodeStep::Wait => {}
            }
        }
        self.lost_patience.store(true, Ordering::Relaxed);
        None
    }

    /// Runs `turns` on a single thread without locks and atomic counters, which would take a good part of a
    /// short turn.
    fn run_all(&mut self, turns: &[Turn]) -> Result<(), (u32, NodeError)> {
        let is_large = self.is_large();
        for turn in turns {
            let place = self.place(turn.node);
            let runner = self.runners[place].get_mut();
            let runner = runner.unwrap_or_else(|_| panicked());
            if let Err(error) = self.known[place].run(runner, *turn, is_large) {
                self.fail(turn.node, error);
            }
        }
        self.outcome()
    }

    /// The result of the round: the failure of the node with the lowest number.
    fn outcome(&self) -> Result<(), (u32, NodeError)> {
        if !self.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        lock(&self.failure).take().map_or(Ok(()), Err)
    }

    /// True if there are so many nodes that sleeping ones release memory.
    fn is_large(&self) -> bool {
        self.runners.len() >= MANY
    }

    fn note(&self, node: u32, runner: &Runner) {
        self.known(node).note(runner);
    }

    fn fail(&self, node: u32, error: NodeError) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(first, _)| node < *first) {
            *failure = Some((node, error));
        }
        self.failed.store(true, Ordering::Relaxed);
    }
}

fn places(runners: &[Runner]) -> Vec<u32> {
    let numbers = runners.iter().map(|runner| runner.index as usize);
    let mut places = vec![ELSEWHERE; numbers.max().map_or(0, |last| last + 1)];
    for (place, runner) in (0..).zip(runners) {
        places[runner.index as usize] = place;
    }
    places
}

/// A node whose thread panicked cannot continue: the panic is passed on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned: PoisonError<_>| {
        drop(poisoned);
        panicked()
    })
}

fn panicked() -> ! {
    panic!("a host thread panicked while it ran a node")
}
