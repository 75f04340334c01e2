//! A run as a debugger sees it: any position can be reached, forwards and backwards.
//!
//! A position is defined by the scenario alone, so that a run arrives at the same state however it gets there.
//! Instants in memory, taken on the way, make the way back short: the run continues from the last one before
//! the position. Nodes of a round run past one another's arrivals at breakpoints. So after an arrival, other
//! nodes may be ahead of the position, by less than a message takes to them; [`Timeline::settle`](timeline::Timeline::settle) brings them
//! back before they are examined, and a movement forwards continues without that.

/// Breakpoints of nodes, and arrivals at them.
mod arrivals;
/// Movements to given positions.
mod goto;
/// States from which movements continue.
mod instants;

use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use belljar_cpu::Watchpoint;
use belljar_sim::{Span, Time};
use belljar_trace::Event;

use crate::host::sandbox::Sandbox;
use crate::plan::Plan;
use crate::results::stream::Stream;
use crate::run::coordinator::{Advance, Ending, Instant, Origin, OutputPiece, Run};
use crate::run::error::RunError;
use crate::run::runner::Runner;
use crate::run::stopwatch::Stopwatch;
use arrivals::Counted;

pub use crate::run::runner::{BreakFilter, WatchedAccess};

/// A state of a run: one node has retired this number of instructions, and all others have reached its time, or
/// the last end of a slice before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The clock of the node.
    pub time: Time,
    /// Its number.
    pub node: u32,
    /// Instructions that it has retired.
    pub instructions: u64,
}

/// A breakpoint of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breakpoint {
    /// The node.
    pub node: u32,
    /// The linear address of an instruction.
    pub address: u64,
    /// The process and the thread in which it counts.
    pub filter: BreakFilter,
}

/// A watchpoint of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeWatchpoint {
    /// The node.
    pub node: u32,
    /// The watched range, and the accesses that count.
    pub watchpoint: Watchpoint,
}

/// The end of a movement along the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// A node is at a breakpoint with this address.
    Hit(u64),
    /// Forwards: after an access to a watched range. Backwards: before it.
    Accessed {
        /// The linear address of the first watched byte.
        address: u64,
        /// The access.
        access: WatchedAccess,
    },
    /// At the end of the run.
    Ended(Ending),
    /// At the start of the run.
    Start,
    /// At the requested position or time.
    Reached,
    /// At some position, as another thread asked for a stop.
    Interrupted,
}

/// A run, at one of its positions.
pub struct Timeline {
    origin: Origin,
    run: Option<Run>,
    sandbox: Option<Sandbox>,
    at: Position,
    instants: BTreeMap<Time, Instant>,
    breakpoints: Vec<Breakpoint>,
    /// Those of the last movement forwards.
    placed: Vec<Breakpoint>,
    watchpoints: Vec<NodeWatchpoint>,
    placed_watchpoints: Vec<NodeWatchpoint>,
    /// True if no node is ahead of the position.
    settled: bool,
    /// Virtual time between instants.
    span: Span,
    /// Host time of the way since the last instant.
    since: Duration,
    end: Option<(Time, Ending)>,
    output: Vec<OutputPiece>,
    /// Bytes of each output that were passed on already.
    heard: BTreeMap<(u32, Stream), u64>,
    calls: Vec<Event>,
}

impl Timeline {
    /// The start of the run of `plan`, on `threads` host threads.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn begin(plan: Plan, threads: usize, sandbox: Option<Sandbox>) -> Result<Self, RunError> {
        let mut origin = Origin::load(plan, threads, sandbox.clone())?;
        let mut run = origin.begin()?;
        let start = run.begun_at();
        let first = origin.save(&mut run, start)?;
        let at = position(&run, start, 0);
        Ok(Self {
            origin,
            run: Some(run),
            sandbox,
            at,
            instants: BTreeMap::from([(start, first)]),
            breakpoints: Vec::new(),
            placed: Vec::new(),
            watchpoints: Vec::new(),
            placed_watchpoints: Vec::new(),
            settled: true,
            span: Span::from_ms(1),
            since: Duration::ZERO,
            end: None,
            output: Vec::new(),
            heard: BTreeMap::new(),
            calls: Vec::new(),
        })
    }

    /// The run's plan.
    pub fn plan(&self) -> &Plan {
        &self.origin.plan
    }

    /// The present position.
    pub fn position(&self) -> Position {
        self.at
    }

    /// The start of the run.
    pub fn start(&self) -> Time {
        self.instants.keys().next().copied().unwrap_or(Time::ZERO)
    }

    /// The end of the run, once it was reached.
    pub fn end(&self) -> Option<&(Time, Ending)> {
        self.end.as_ref()
    }

    /// A node in the present state.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn runner(&self, node: u32) -> MutexGuard<'_, Runner> {
        let run = self.run.as_ref();
        run.expect("a run exists between movements")
            .workers()
            .runner(node)
    }

    /// Outputs of nodes since the last call that were not passed on before.
    pub fn take_output(&mut self) -> Vec<OutputPiece> {
        let mut taken = Vec::new();
        for mut piece in std::mem::take(&mut self.output) {
            // A movement may have passed later positions. Their output follows when they are reached again.
            let lengths = self.runner(piece.node).logs.lengths();
            let known = lengths[piece.stream.number()].saturating_sub(piece.start);
            if known < piece.bytes.len() as u64 {
                let heard = self.heard.entry((piece.node, piece.stream)).or_default();
                *heard = piece.start.saturating_add(known).min(*heard);
                piece.bytes.truncate(known as usize);
            }
            if !piece.bytes.is_empty() {
                taken.push(piece);
            }
        }
        taken
    }

    /// MPI calls that returned in the last movement.
    pub fn take_calls(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.calls)
    }

    /// Replaces all breakpoints.
    pub fn set_breakpoints(&mut self, mut breakpoints: Vec<Breakpoint>) {
        breakpoints.sort_unstable();
        breakpoints.dedup();
        self.breakpoints = breakpoints;
    }

    /// Removes all breakpoints and watchpoints.
    pub fn forget_stops(&mut self) {
        self.set_breakpoints(Vec::new());
        self.set_watchpoints(Vec::new());
    }

    /// Replaces all watchpoints.
    pub fn set_watchpoints(&mut self, mut watchpoints: Vec<NodeWatchpoint>) {
        watchpoints.sort_unstable();
        watchpoints.dedup();
        self.watchpoints = watchpoints;
    }

    /// Moves forwards to the first arrival at a breakpoint, or the first access to a watched range, to `until` at most.
    ///
    /// # Errors
    /// If the host fails the run.
    pub fn forward(&mut self, until: Time, stop: &AtomicBool) -> Result<Moved, RunError> {
        let from = self.at;
        self.calls.clear();
        if self.differs_elsewhere() {
            self.settle()?;
        }
        self.place_breakpoints();
        self.go_on_from(from)?;
        loop {
            let mut watch = Stopwatch::default();
            let since = watch.lap();
            let now = self.at.time;
            let goal = self.run()?.reachable((now + self.span).min(until));
            let advanced = self.confined(|run| run.advance(goal, stop))?;
            if let Some(first) = self.first_arrival() {
                self.hear();
                self.at = first.position;
                self.settled = self.origin.plan.nodes == 1;
                return Ok(first.moved());
            }
            let time = match &advanced {
                Advance::Reached => goal,
                Advance::Interrupted => self.run()?.now().max(now),
                Advance::Ended(_) => self.run()?.now(),
            };
            self.hear();
            self.at = position(self.run()?, time, 0);
            self.settled = true;
            match advanced {
                Advance::Ended(ending) => {
                    self.end = Some((time, ending.clone()));
                    return Ok(Moved::Ended(ending));
                }
                Advance::Interrupted => {
                    // Nodes are at different times; the last time that all have reached is a position.
                    let time = self.run()?.reached();
                    self.goto_time(time.max(from.time))?;
                    return Ok(Moved::Interrupted);
                }
                Advance::Reached => {}
            }
            watch.add(since);
            self.remember(now, watch.total())?;
            if goal >= until {
                return Ok(Moved::Reached);
            }
        }
    }

    /// Moves backwards to the last arrival at a breakpoint before the present position, or to before the last access to a
    /// watched range. Without one since `earliest`, moves to the start of the run.
    ///
    /// # Errors
    /// If the host fails the run.
    pub fn backward(&mut self, earliest: Time, stop: &AtomicBool) -> Result<Moved, RunError> {
        let from = self.at;
        let mut before = from;
        loop {
            let earlier = self.instants.range(..before.time).next_back();
            let earlier = earlier.filter(|_| before.time > earliest);
            let Some(begin) = earlier.map(|(time, _)| *time) else {
                return self.return_to_start();
            };
            self.restore(begin)?;
            self.place_breakpoints();
            self.release(Counted::All, false)?;
            let goal = self.run()?.reachable(before.time + Span::from_ps(1));
            let advanced = self.confined(|run| run.advance(goal, stop))?;
            if let Some(last) = self.last_arrival(before) {
                self.go_before(&last)?;
                return Ok(last.moved());
            }
            if matches!(advanced, Advance::Interrupted) {
                self.goto_time(begin)?;
                return Ok(Moved::Interrupted);
            }
            before = Position {
                time: begin,
                node: 0,
                instructions: 0,
            };
        }
    }

    fn return_to_start(&mut self) -> Result<Moved, RunError> {
        self.goto_time(self.start())?;
        Ok(Moved::Start)
    }

    fn run(&self) -> Result<&Run, RunError> {
        self.run.as_ref().ok_or(RunError::NoPosition {
            node: 0,
            instructions: 0,
        })
    }

    fn run_mut(&mut self) -> Result<&mut Run, RunError> {
        self.run.as_mut().ok_or(RunError::NoPosition {
            node: 0,
            instructions: 0,
        })
    }

    /// Keeps the calls and the new outputs of nodes.
    fn hear(&mut self) {
        let Some(run) = &mut self.run else {
            return;
        };
        self.calls.extend(run.take_calls());
        for mut piece in run.take_output() {
            let heard = self.heard.entry((piece.node, piece.stream)).or_default();
            let end = piece.start + piece.bytes.len() as u64;
            let known = heard
                .saturating_sub(piece.start)
                .min(piece.bytes.len() as u64);
            if *heard >= piece.start && end > *heard {
                piece.bytes.drain(..known as usize);
                piece.start = *heard;
                *heard = end;
                self.output.push(piece);
            }
        }
    }

    /// Runs guests on a thread in the sandbox, if there is one.
    fn confined<T: Send>(
        &mut self,
        work: impl FnOnce(&mut Run) -> Result<T, RunError> + Send,
    ) -> Result<T, RunError> {
        let sandbox = self.sandbox.clone();
        let run = self.run_mut()?;
        let Some(sandbox) = sandbox else {
            return work(run);
        };
        let outcome = thread::scope(|scope| {
            let confined = scope.spawn(|| {
                sandbox.enter()?;
                work(run)
            });
            confined.join()
        });
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The position at `time`, which all nodes have reached.
fn position(run: &Run, time: Time, node: u32) -> Position {
    Position {
        time,
        node,
        instructions: run.workers().runner(node).node().retired(),
    }
}
