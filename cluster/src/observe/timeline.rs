//! A run as a debugger sees it: any position can be reached, forwards and backwards.
//!
//! A position is defined by the scenario alone, so that a run arrives at the same state however it gets there.
//! Instants in memory, taken on the way, make the way back short: the run continues from the last one before
//! the position. Nodes of a round run past one another's arrivals at breakpoints. So after an arrival, other
//! nodes may be ahead of the position, by less than a message takes to them; [`Timeline::settle`](timeline::Timeline::settle) brings them
//! back before they are examined, and a movement forwards continues without that.

use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use belljar_sim::{Span, Time};
use belljar_trace::Event;

use crate::host::sandbox::Sandbox;
use crate::plan::Plan;
use crate::results::stream::Stream;
use crate::run::coordinator::{Advance, Ending, Instant, Origin, OutputPiece, Run};
use crate::run::error::RunError;
use crate::run::runner::{Arrival, Runner};
use crate::run::stopwatch::Stopwatch;

pub use crate::run::runner::BreakFilter;

/// Host time between two instants, approximately.
const BETWEEN: Duration = Duration::from_millis(150);
/// Shortest and longest virtual time between two instants.
const SPANS: (Span, Span) = (Span::from_us(50), Span::from_ms(10_000));
/// Most instants; every second one is dropped then.
const MOST: usize = 256;

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

/// The end of a movement along the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// A node is at a breakpoint with this address.
    Hit(u64),
    /// At the end of the run.
    Ended(Ending),
    /// At the start of the run.
    Start,
    /// At the requested position or time.
    Reached,
    /// At some position, as another thread asked for a stop.
    Interrupted,
}

/// The arrivals at breakpoints that a movement records.
#[derive(Clone, Copy, Debug)]
enum Counted {
    All,
    None,
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
        std::mem::take(&mut self.output)
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

    /// Moves forwards to the first arrival at a breakpoint, to `until` at most.
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
            if let Some((first, address)) = self.first_arrival() {
                self.hear();
                self.at = first;
                self.settled = self.origin.plan.nodes == 1;
                return Ok(Moved::Hit(address));
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

    /// Moves backwards to the last arrival at a breakpoint before the present position. Without one since `earliest`,
    /// moves to the start of the run.
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
            if let Some((last, address)) = self.last_arrival(before) {
                self.goto(last)?;
                return Ok(Moved::Hit(address));
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

    /// Moves to a time that all nodes reach without passing it: `time`, or the last such time before it.
    ///
    /// # Errors
    /// If the host fails the run.
    pub fn goto_time(&mut self, time: Time) -> Result<Moved, RunError> {
        let time = self.floor(time.max(self.start()));
        self.come_to(time)?;
        if let Some((end, ending)) = &self.end
            && *end <= time
        {
            return Ok(Moved::Ended(ending.clone()));
        }
        Ok(Moved::Reached)
    }

    /// Moves to the state in which `node` has retired `instructions`, which is before the present one.
    ///
    /// # Errors
    /// As for [`goto`](Self::goto).
    pub fn back_to(&mut self, node: u32, instructions: u64) -> Result<(), RunError> {
        let (now, start) = (self.at.time, self.start());
        let mut back = Span::from_ns(100);
        loop {
            let time = Time::from_ps(now.as_ps().saturating_sub(back.as_ps())).max(start);
            self.come_to(self.floor(time).max(start))?;
            if self.runner(node).node().retired() <= instructions {
                break;
            }
            if time == start {
                return Err(RunError::NoPosition { node, instructions });
            }
            back = Span::from_ps(back.as_ps().saturating_mul(16));
        }
        self.confined(|run| run.advance_one(node, instructions))?;
        let time = self.runner(node).node().now();
        self.goto(Position {
            time,
            node,
            instructions,
        })
    }

    /// Moves forwards until `node` has retired `instructions`, while the others stand still.
    ///
    /// # Errors
    /// As for [`goto`](Self::goto).
    pub fn step_to(&mut self, node: u32, instructions: u64) -> Result<(), RunError> {
        self.runner(node).release(u64::MAX, false);
        if !self.confined(|run| run.advance_one(node, instructions))? {
            return Err(RunError::NoPosition { node, instructions });
        }
        let time = self.runner(node).node().now();
        self.at = Position {
            time,
            node,
            instructions,
        };
        // The others are behind it now, or ahead.
        self.settled = self.origin.plan.nodes == 1;
        Ok(())
    }

    /// Moves to `position`.
    ///
    /// # Errors
    /// If the host fails the run, or [`RunError::NoPosition`] if the run has no such position.
    pub fn goto(&mut self, position: Position) -> Result<(), RunError> {
        self.come_to(self.floor(position.time))?;
        let Position {
            node, instructions, ..
        } = position;
        if !self.confined(|run| run.advance_one(node, instructions))? {
            return Err(RunError::NoPosition { node, instructions });
        }
        let time = self.runner(node).node().now();
        self.at = Position { time, ..position };
        self.settled = true;
        Ok(())
    }

    /// The last time up to `time` that all nodes can reach without passing it.
    fn floor(&self, time: Time) -> Time {
        let plan = &self.origin.plan;
        match plan.has_slices() {
            true => Time::from_ps(time.as_ps() / plan.slice.as_ps() * plan.slice.as_ps()),
            false => time,
        }
    }

    /// Brings all nodes to `time`, from the present state if that is before it and no instant is closer.
    fn come_to(&mut self, time: Time) -> Result<(), RunError> {
        let closest = self.instants.range(..=time).next_back();
        let closest = closest.map_or_else(|| self.start(), |(time, _)| *time);
        let passed = |run: &Run| run.latest() > time;
        let is_before = self.run.as_ref().is_some_and(|run| !passed(run));
        if !is_before || closest > self.at.time {
            self.restore(closest)?;
        }
        self.release(Counted::None, false)?;
        let never = AtomicBool::new(false);
        loop {
            let mut watch = Stopwatch::default();
            let since = watch.lap();
            let now = self.at.time;
            let goal = self.run()?.reachable((now + self.span).min(time)).min(time);
            let advanced = self.confined(|run| run.advance(goal, &never))?;
            let is_over = matches!(advanced, Advance::Ended(_));
            let reached = if is_over { self.run()?.now() } else { goal };
            self.hear();
            self.at = position(self.run()?, reached, 0);
            self.settled = true;
            if let Advance::Ended(ending) = advanced {
                self.end = Some((reached, ending));
                return Ok(());
            }
            if goal >= time {
                return Ok(());
            }
            watch.add(since);
            self.remember(now, watch.total())?;
        }
    }

    /// Takes an instant of the present state, if the way from the last one took long enough, and adapts the span
    /// between instants: `from` is the last position, and `took` the host time since.
    fn remember(&mut self, from: Time, took: Duration) -> Result<(), RunError> {
        let now = self.at.time;
        let ran = now.since(from).as_ps();
        if took < BETWEEN / 2 {
            let longer = self.span.as_ps().saturating_mul(2);
            self.span = Span::from_ps(longer).min(SPANS.1);
        } else if took > BETWEEN * 2 {
            let shorter = u128::from(ran) * BETWEEN.as_nanos() / took.as_nanos();
            self.span = Span::from_ps(shorter as u64).clamp(SPANS.0, SPANS.1);
        }
        self.since += took;
        if self.since < BETWEEN / 2 || self.instants.contains_key(&now) {
            return Ok(());
        }
        self.since = Duration::ZERO;
        let Some(run) = &mut self.run else {
            return Ok(());
        };
        let instant = self.origin.save(run, now)?;
        self.instants.insert(now, instant);
        if self.instants.len() > MOST {
            let mut number = 0;
            self.instants.retain(|_, _| {
                number += 1;
                number % 2 == 1
            });
            self.origin.forget_but(self.instants.values());
        }
        Ok(())
    }

    fn restore(&mut self, time: Time) -> Result<(), RunError> {
        // Its memory is free before the next one takes some.
        self.run = None;
        let Some(instant) = self.instants.get(&time) else {
            return Err(RunError::NoPosition {
                node: 0,
                instructions: 0,
            });
        };
        let run = self.origin.restore(instant)?;
        self.settled = true;
        self.since = Duration::ZERO;
        self.at = position(&run, time, 0);
        self.run = Some(run);
        Ok(())
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

    /// True if nodes that are ahead of the position ran there with other breakpoints.
    fn differs_elsewhere(&self) -> bool {
        let elsewhere = |it: &&Breakpoint| it.node != self.at.node;
        let placed = self.placed.iter().filter(elsewhere);
        !self.settled && !placed.eq(self.breakpoints.iter().filter(elsewhere))
    }

    /// Brings nodes that are ahead of the position back to it.
    ///
    /// # Errors
    /// If the host fails the run.
    pub fn settle(&mut self) -> Result<(), RunError> {
        match self.settled {
            true => Ok(()),
            false => self.goto(self.at),
        }
    }

    /// Releases all nodes but those that are at later arrivals already. Arrivals after `from` halt their nodes.
    fn go_on_from(&mut self, from: Position) -> Result<(), RunError> {
        let settled = self.settled;
        for mut runner in self.run_mut()?.workers().runners() {
            let node = runner.index;
            let at = |time, instructions| Position {
                time,
                node,
                instructions,
            };
            let waiting = runner.arrivals().first();
            let is_later = |it: &Arrival| at(it.time, it.instructions) > from;
            if !settled && waiting.is_some_and(is_later) {
                continue;
            }
            let here = runner.node().retired();
            let is_past = at(runner.node().now(), here) <= from;
            runner.release(here + u64::from(is_past), true);
        }
        Ok(())
    }

    /// Releases all nodes; the `counted` arrivals are recorded, and halt their node with `halts`.
    fn release(&mut self, counted: Counted, halts: bool) -> Result<(), RunError> {
        for mut runner in self.run_mut()?.workers().runners() {
            let here = runner.node().retired();
            let first = match counted {
                Counted::All => here,
                Counted::None => u64::MAX,
            };
            runner.release(first, halts);
        }
        Ok(())
    }

    fn place_breakpoints(&mut self) {
        let Some(run) = &self.run else {
            return;
        };
        for mut runner in run.workers().runners() {
            let mut points: BTreeMap<u64, Vec<BreakFilter>> = BTreeMap::new();
            let own = |it: &&Breakpoint| it.node == runner.index;
            for breakpoint in self.breakpoints.iter().filter(own) {
                let filters = points.entry(breakpoint.address).or_default();
                filters.push(breakpoint.filter);
            }
            runner.set_breakpoints(points);
        }
        self.placed.clone_from(&self.breakpoints);
    }

    fn first_arrival(&self) -> Option<(Position, u64)> {
        self.arrivals().min()
    }

    fn last_arrival(&self, before: Position) -> Option<(Position, u64)> {
        let earlier = self.arrivals().filter(|(position, _)| *position < before);
        earlier.max()
    }

    fn arrivals(&self) -> impl Iterator<Item = (Position, u64)> {
        let runners = self.run.iter().flat_map(|run| run.workers().runners());
        runners.flat_map(|runner| {
            let node = runner.index;
            let of = |arrival: &Arrival| {
                let position = Position {
                    time: arrival.time,
                    node,
                    instructions: arrival.instructions,
                };
                (position, arrival.address)
            };
            runner.arrivals().iter().map(of).collect::<Vec<_>>()
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
