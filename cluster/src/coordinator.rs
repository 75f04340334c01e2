//! The run: rounds of virtual time in which all nodes run side by side.
//!
//! Within a round no node can hear of what another does in it: the round is no
//! longer than the shortest way between two hosts (conservative lookahead, after
//! Chandy and Misra). The host's threads only decide who computes a node's round;
//! what is collected, is collected in the order of node numbers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::capture::{CaptureError, Captures};
use crate::crew::Crew;
use crate::parts::{Parts, PartsError};
use crate::plan::Plan;
use crate::progress::{Progress, Snapshot};
use crate::run_directory::{RunDirectory, RunDirectoryError};
use crate::runner::{Runner, Word};
use crate::sandbox::{Sandbox, SandboxError};
use crate::watch::{Probe, STATE_FOLDER, Sample, StateLog, Watch};
use belljar_fabric::Fabric;
use belljar_sim::{Span, Time};
use belljar_tracer::{
    Event, NodeTracer, Selection, SelectionError, TraceError, TraceHeader, TraceSummary,
    TraceWriter, Window,
};
use belljar_vmm::{NodeError, NodeStop};

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// What the nodes are made of is not usable.
    #[error(transparent)]
    Parts(#[from] PartsError),
    /// A node cannot be built or cannot go on.
    #[error("node {node}: {source}")]
    Node {
        /// Which.
        node: u32,
        /// Why.
        source: NodeError,
    },
    /// The run directory cannot be written.
    #[error(transparent)]
    Directory(#[from] RunDirectoryError),
    /// A console file cannot be written.
    #[error("cannot write the console of node {node}: {source}")]
    Console {
        /// Which.
        node: u32,
        /// The host's reason.
        source: io::Error,
    },
    /// The scenario's choice of calls makes no sense.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A thread cannot be kept from what it must not do.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A capture cannot be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The workload ended with this exit code.
    Workload(i32),
    /// It was stopped by the user.
    Interrupted,
    /// A node ended before the workload did.
    NodeEnded {
        /// Which.
        node: u32,
        /// How, in words.
        how: String,
        /// The end of its console.
        last_words: String,
    },
    /// The virtual time limit was reached.
    Limit,
    /// No node has anything left to do, and no frame is on its way.
    Deadlock,
}

/// A run in progress.
pub struct Run<'a> {
    plan: &'a Plan,
    crew: Crew,
    fabric: Fabric,
    captures: Captures,
    trace: Option<TraceWriter>,
    now: Time,
    /// MPI calls recorded.
    pub events: u64,
    /// Rounds so far.
    pub rounds: u64,
    exit_code: Option<i32>,
}

/// What is to come.
struct Outlook {
    /// When anything happens next.
    start: Time,
    /// The one node that has anything to do for longer than a round, and until when:
    /// before then no other node wakes and no frame is on its way. It need not stop
    /// for others unless it sends a frame.
    alone: Option<(usize, Time)>,
}

/// How far a node runs by itself before the host looks after it again.
const ALONE_AT_MOST: Span = Span::from_ms(2);

impl<'a> Run<'a> {
    /// Builds all nodes, to be run by `threads` host threads, those beside the caller's
    /// in `sandbox`, and opens all files. With `sandbox` the process starts no more
    /// programs and makes no more connections.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn prepare(
        plan: &'a Plan,
        directory: &RunDirectory,
        threads: usize,
        sandbox: Option<&Sandbox>,
    ) -> Result<Self, RunError> {
        let mut fabric = Fabric::new(plan.topology.clone());
        let captures = Captures::start(directory, &mut fabric, &plan.pcap)?;
        let parts = Parts::load(plan)?;
        let selection = selection(plan);
        selection.check()?;
        let mut runners = Vec::new();
        for index in 0..plan.nodes {
            let node = parts.node(plan, index).map_err(|source| RunError::Node {
                node: index,
                source,
            })?;
            let tracer = plan
                .trace
                .enabled
                .then(|| NodeTracer::new(index, &selection));
            let console = directory.file(&format!("console/node{index}.log"))?;
            runners.push(Runner::new(index, node, tracer, console));
        }
        let trace = if plan.trace.enabled {
            let path = directory.path().join(belljar_tracer::TRACE_FILE);
            let create = if plan.timing.is_some() {
                TraceWriter::create_accounted
            } else {
                TraceWriter::create
            };
            Some(create(&path, &header(plan))?)
        } else {
            None
        };
        // Before any thread has a filter of its own, which would be in the way.
        sandbox.map_or(Ok(()), Sandbox::close_process)?;
        Ok(Self {
            plan,
            crew: Crew::new(runners, threads, sandbox)?,
            fabric,
            captures,
            trace,
            now: Time::ZERO,
            events: 0,
            rounds: 0,
            exit_code: None,
        })
    }

    /// Has every node write hashes of its state into a file of its own in `directory`,
    /// every `every` instructions and at the end.
    ///
    /// # Errors
    /// When the host refuses the files.
    pub fn log_states(&mut self, directory: &RunDirectory, every: u64) -> Result<(), RunError> {
        directory.folder(STATE_FOLDER)?;
        for mut runner in self.crew.runners() {
            let file = directory.file(&format!("{STATE_FOLDER}/node{}.txt", runner.index))?;
            runner.watch(Watch::Log(StateLog::new(every, file)));
        }
        Ok(())
    }

    /// Has a node looked at, and the run ended behind the last place.
    pub fn probe(&mut self, node: u32, probe: Probe) {
        if (node as usize) < self.crew.len() {
            self.crew.runner(node as usize).watch(Watch::Probe(probe));
        }
    }

    /// What [`probe`](Self::probe) found at that node.
    pub fn take_samples(&mut self, node: u32) -> Vec<Sample> {
        if (node as usize) < self.crew.len() {
            self.crew.runner(node as usize).take_samples()
        } else {
            Vec::new()
        }
    }

    /// Virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The nodes.
    pub fn crew(&self) -> &Crew {
        &self.crew
    }

    /// The network.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Runs to the end, or until `stop` is set, in a thread of its own in `sandbox`.
    ///
    /// # Errors
    /// See [`RunError`]; what was traced so far is kept.
    pub fn go_in(
        &mut self,
        sandbox: Option<&Sandbox>,
        stop: &AtomicBool,
        progress: &mut Progress,
    ) -> Result<Ending, RunError> {
        let Some(sandbox) = sandbox else {
            return self.go(stop, progress);
        };
        let ending = thread::scope(|scope| {
            let work = scope.spawn(|| {
                sandbox.enter()?;
                self.go(stop, progress)
            });
            work.join()
        });
        ending.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs to the end, or until `stop` is set.
    ///
    /// # Errors
    /// See [`RunError`]; what was traced so far is kept.
    pub fn go(&mut self, stop: &AtomicBool, progress: &mut Progress) -> Result<Ending, RunError> {
        let ending = loop {
            if stop.load(Ordering::Relaxed) {
                break Ending::Interrupted;
            }
            let Some(outlook) = self.outlook() else {
                break Ending::Deadlock;
            };
            self.now = self.now.max(outlook.start);
            if self.now >= self.plan.limit {
                break Ending::Limit;
            }
            match outlook.alone {
                Some((node, end)) => self.run_alone(node, end)?,
                None => self.round()?,
            }
            if progress.is_due(self.rounds) {
                progress.show(&self.snapshot());
            }
            if let Some(ending) = self.ending() {
                break ending;
            }
        };
        self.finish(&ending)?;
        Ok(ending)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            now: self.now,
            nodes: self.crew.len(),
            ready: self
                .crew
                .runners()
                .filter(|runner| runner.ready.is_some())
                .count(),
            events: self.events,
        }
    }

    /// What is to come, from one look at every node; `None` when nothing is.
    fn outlook(&self) -> Option<Outlook> {
        let frames = self.fabric.next_time().unwrap_or(Time::MAX);
        let mut first = (usize::MAX, Time::MAX);
        let mut others = frames;
        for (index, runner) in self.crew.runners().enumerate() {
            let next = runner.node().next_event().unwrap_or(Time::MAX);
            if next < first.1 {
                others = others.min(first.1);
                first = (index, next);
            } else {
                others = others.min(next);
            }
        }
        let (node, next) = first;
        let start = next.min(frames);
        if start == Time::MAX {
            return None;
        }
        let end = others.min(next + ALONE_AT_MOST);
        let alone = (end > next + self.fabric.lookahead()).then_some((node, end));
        Some(Outlook { start, alone })
    }

    fn run_alone(&mut self, node: usize, end: Time) -> Result<(), RunError> {
        let now = {
            let mut runner = self.crew.runner(node);
            runner
                .run_until_frame(end)
                .map_err(|source| RunError::Node {
                    node: runner.index,
                    source,
                })?;
            runner.node().now()
        };
        self.collect()?;
        self.now = self.now.max(now);
        Ok(())
    }

    /// Takes in what nodes sent, called, and wrote.
    fn collect(&mut self) -> Result<(), RunError> {
        self.collect_frames();
        self.collect_events()?;
        self.collect_words()?;
        self.rounds += 1;
        Ok(())
    }

    /// One round, from `now` to `now` plus the lookahead. The fabric first runs
    /// ahead by one hop, after which all that can arrive within the round is known.
    fn round(&mut self) -> Result<(), RunError> {
        let end = self.now + self.fabric.lookahead();
        for delivery in self.fabric.advance(self.now + self.fabric.hop()) {
            let mut runner = self.crew.runner(delivery.host as usize);
            runner
                .node_mut()
                .deliver_frame(delivery.time, delivery.frame.to_vec());
        }
        self.captures.write(self.fabric.take_captured(), self.now)?;
        self.crew
            .round(end)
            .map_err(|(node, source)| RunError::Node { node, source })?;
        self.collect()?;
        self.now = end;
        Ok(())
    }

    fn collect_frames(&mut self) {
        for mut runner in self.crew.runners() {
            for (time, frame) in runner.node_mut().take_frames() {
                let sequence = runner.sent;
                runner.sent += 1;
                self.fabric
                    .send(time, runner.index, sequence, Arc::from(frame));
            }
        }
    }

    fn collect_events(&mut self) -> Result<(), RunError> {
        let Some(trace) = &mut self.trace else {
            return Ok(());
        };
        let mut events: Vec<Event> = self
            .crew
            .runners()
            .flat_map(|mut runner| runner.take_events())
            .collect();
        if events.is_empty() {
            return Ok(());
        }
        events.sort_by_key(|event| (event.exit, event.node));
        self.events += events.len() as u64;
        trace.append(&events)?;
        Ok(())
    }

    fn collect_words(&mut self) -> Result<(), RunError> {
        for mut runner in self.crew.runners() {
            let words = runner
                .collect_output()
                .map_err(|source| RunError::Console {
                    node: runner.index,
                    source,
                })?;
            for word in words {
                if let (Word::Exit(code), 0) = (word, runner.index) {
                    self.exit_code.get_or_insert(code);
                }
            }
        }
        Ok(())
    }

    fn ending(&self) -> Option<Ending> {
        if let Some(code) = self.exit_code {
            return Some(Ending::Workload(code));
        }
        self.crew.runners().find_map(|runner| {
            let stop = runner.ended?;
            Some(Ending::NodeEnded {
                node: runner.index,
                how: describe_stop(stop, &runner),
                last_words: runner.last_words(),
            })
        })
    }

    fn finish(&mut self, ending: &Ending) -> Result<(), RunError> {
        self.captures
            .write(self.fabric.take_captured(), Time::MAX)?;
        for mut runner in self.crew.runners() {
            runner.finish().map_err(|source| RunError::Console {
                node: runner.index,
                source,
            })?;
        }
        if let Some(mut trace) = self.trace.take() {
            let mut open: Vec<Event> = Vec::new();
            for runner in self.crew.runners() {
                open.extend(
                    runner
                        .tracer()
                        .map_or_else(Vec::new, NodeTracer::open_calls),
                );
            }
            trace.append(&open)?;
            let summary = TraceSummary {
                nodes: self
                    .crew
                    .runners()
                    .filter_map(|runner| runner.trace_summary())
                    .collect(),
                ending: ending.to_string(),
            };
            if matches!(ending, Ending::Workload(_)) {
                trace.finish(&summary)?;
            } else {
                trace.flush()?;
            }
        }
        Ok(())
    }
}

fn selection(plan: &Plan) -> Selection {
    let cycle = |time: Span| plan.clock.cycle_at(Time::ZERO + time);
    Selection {
        functions: plan.trace.functions.clone(),
        window: (plan.trace.from.is_some() || plan.trace.until.is_some()).then(|| Window {
            start: plan.trace.from.map_or(0, |from| cycle(from.0)),
            end: plan.trace.until.map_or(u64::MAX, |until| cycle(until.0)),
        }),
        sampling: plan.trace.sample.clone(),
    }
}

fn header(plan: &Plan) -> TraceHeader {
    TraceHeader::new(&plan.name, &vec![plan.clock; plan.nodes as usize])
}

fn describe_stop(stop: NodeStop, runner: &Runner) -> String {
    match stop {
        NodeStop::Reset => match &runner.panicked {
            Some(words) => format!("its kernel panicked: {words}"),
            None => "it reset itself".into(),
        },
        NodeStop::PoweredOff => "it switched itself off".into(),
        NodeStop::Exited(value) => format!("it ended through the exit device with {value}"),
        NodeStop::Hung => "it halted with interrupts off".into(),
        NodeStop::Shutdown(cause) => format!("its processor shut down ({cause:?})"),
        NodeStop::Paused => "it was stopped to be looked at".into(),
        NodeStop::Limit | NodeStop::Magic { .. } => "it stopped".into(),
    }
}
