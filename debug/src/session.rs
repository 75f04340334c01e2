//! A run and its present position.
//!
//! A session repeats the run of a plan with all MPI calls observed. It writes no run directory. Made by `belljar debug`,
//! which passes it to `serve`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use belljar_cluster::host::sandbox::Sandbox;
use belljar_cluster::observe::timeline::{Breakpoint, Moved, Timeline};
use belljar_cluster::plan::Plan;
use belljar_cluster::plan::nodes::code::workload_path;
use belljar_cluster::results::stream::Stream;
use belljar_cluster::run::error::RunError;
use belljar_cluster::scenario::TraceBy;
use belljar_cluster::scenario::engine::Engine;
use belljar_gdb::{Stop, ThreadId, WatchedRange};
use belljar_linux::{Layout, LayoutError};
use belljar_sim::Time;
use belljar_symbols::KernelSymbols;
use belljar_trace::Event;
use belljar_vmm::{KernelError, KernelImage};
use belljar_workload::{GuestRoot, ProgramError};

use crate::libraries::{Copies, LoaderState};
use crate::place::Place;

/// Most ends of processes that are passed on the way back to the last rank.
const MOST_ENDS: u32 = 64;

/// Errors of a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The run needs another engine.
    #[error("a run of engine kvm cannot be repeated; use engine = \"exact\" to debug it")]
    Engine,
    /// The nodes' kernel cannot be read.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The kernel does not describe its structures.
    #[error("{path}: {source}")]
    Layout {
        /// The kernel's file.
        path: String,
        /// The reason.
        source: LayoutError,
    },
    /// The image's files cannot be read.
    #[error(transparent)]
    Files(#[from] ProgramError),
    /// The run cannot continue.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A program or library cannot be copied for the debugger.
    #[error("cannot copy a library for the debugger: {0}")]
    Copy(#[from] std::io::Error),
    /// No rank has started by then.
    #[error("no rank has started by {0}; give a later time, or start, or add --all-processes")]
    NoRanks(Time),
    /// All ranks have ended by then.
    #[error("all ranks have ended by {0}; give an earlier time, or end, or add --all-processes")]
    RanksGone(Time),
    /// A time after the end of the run.
    #[error("{asked} is after the end of the run at {end}; give an earlier time, or end")]
    AfterEnd {
        /// The time.
        asked: Time,
        /// The end.
        end: Time,
    },
    /// A thread does not exist at the present position.
    #[error("thread {0} does not exist here, or its kernel has not saved its registers")]
    NoThread(u64),
    /// A thread cannot step, because its node has stopped for good.
    #[error(
        "node {node} has stopped for good at {at} by a failure of the scenario, so its ranks execute nothing more; go to an earlier position, such as goto \"{at}\", or select a rank of another node"
    )]
    NodeDead {
        /// The node.
        node: u32,
        /// Time of the failure.
        at: Time,
    },
    /// The other side of a message is wanted while no rank is shown.
    #[error("no rank is shown here; select one with inferior N, then repeat the command")]
    NoRank,
    /// The shown rank is at no message, or the run does not reach its other side.
    #[error(
        "rank {rank} is at no call with a message number {number} whose {side} the run has; go to the call first, such as \"rank {rank}, MPI_Recv #1\""
    )]
    NoPartner {
        /// The rank.
        rank: u32,
        /// The wanted side.
        side: &'static str,
        /// The number of the message.
        number: usize,
    },
    /// The run has no such call.
    #[error(
        "rank {rank} has no {function} #{number} in this run; it calls {function} {seen} times"
    )]
    NoCall {
        /// The rank.
        rank: u32,
        /// The function.
        function: String,
        /// The number of the call.
        number: u64,
        /// The number of calls that returned.
        seen: u64,
    },
}

/// A run under a debugger.
pub struct Session {
    pub(crate) timeline: Timeline,
    /// Of each image.
    pub(crate) layouts: Vec<Layout>,
    /// Functions of each image's kernel.
    pub(crate) kernels: Vec<Option<KernelSymbols>>,
    /// Files on nodes of each image.
    roots: Vec<GuestRoot>,
    /// True if processes that are not ranks are shown, too.
    pub(crate) shows_all: bool,
    /// True if the nodes' kernels are shown as processes.
    pub(crate) shows_kernels: bool,
    /// Nodes and page tables of processes that were listed, by their numbers in the debugger.
    pub(crate) spaces: BTreeMap<u64, (u32, u64)>,
    /// Breakpoints of the debugger.
    pub(crate) breakpoints: Vec<Breakpoint>,
    /// Watchpoints of the debugger.
    pub(crate) watched: Vec<WatchedRange>,
    /// A position to which the next movement goes.
    pub(crate) pending: Option<Place>,
    /// A time from which on there are ranks, close to their start.
    pub(crate) ranks_from: Option<Time>,
    /// A time before which no process used MPI, close to the start of the ranks.
    pub(crate) calls_from: Option<Time>,
    /// The largest number of ranks that a launcher has named; 0 before.
    pub(crate) ranks: u64,
    /// The loaders of processes whose libraries the debugger has read.
    pub(crate) loaders: BTreeMap<u64, LoaderState>,
    /// Copies of programs and libraries, if the debugger reads them from a folder.
    pub(crate) copies: Option<Copies>,
    /// A stop that follows those for changed libraries.
    pub(crate) postponed: Option<Stop>,
    pub(crate) output: Vec<u8>,
    pub(crate) shown: Option<ThreadId>,
}

impl Session {
    /// The start of the run of `plan`, on `threads` host threads. With `shows_all`, processes that are not ranks are
    /// shown, too.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn begin(
        plan: Plan,
        threads: usize,
        sandbox: Option<Sandbox>,
        shows_all: bool,
    ) -> Result<Self, SessionError> {
        if plan.engine != Engine::Exact {
            return Err(SessionError::Engine);
        }
        let plan = observed(plan);
        let (mut layouts, mut kernels, mut roots) = (Vec::new(), Vec::new(), Vec::new());
        for image in &plan.images {
            let path = &image.image.kernel;
            let kernel = KernelImage::open(path)?;
            let layout = Layout::of(kernel.contents());
            kernels.push(KernelSymbols::of(kernel.contents()));
            layouts.push(layout.map_err(|source| SessionError::Layout {
                path: path.display().to_string(),
                source,
            })?);
            let mut root = GuestRoot::open(&image.image)?;
            for (name, content) in &plan.files {
                root.add(&workload_path(name), content);
            }
            roots.push(root);
        }
        Ok(Self {
            timeline: Timeline::begin(plan, threads, sandbox)?,
            layouts,
            kernels,
            roots,
            shows_all,
            shows_kernels: false,
            spaces: BTreeMap::new(),
            breakpoints: Vec::new(),
            watched: Vec::new(),
            pending: None,
            ranks_from: None,
            calls_from: None,
            ranks: 0,
            loaders: BTreeMap::new(),
            postponed: None,
            copies: None,
            output: Vec::new(),
            shown: None,
        })
    }

    /// The number of a node's image.
    pub(crate) fn image_of(&self, node: u32) -> usize {
        self.timeline.plan().kind_of(node).image
    }

    /// The content of a file on the nodes, of the first image that has it.
    pub(crate) fn guest_file(&self, path: &str) -> Option<Vec<u8>> {
        self.roots.iter().find_map(|root| root.read(path))
    }

    /// Calls that did not return before the present position.
    pub(crate) fn open_calls(&self) -> Vec<Event> {
        let nodes = 0..self.timeline.plan().nodes;
        let calls = nodes.flat_map(|node| {
            let runner = self.timeline.runner(node);
            let tracer = runner.tracer();
            tracer.map_or_else(Vec::new, |tracer| tracer.open_calls())
        });
        calls.collect()
    }

    /// The present position in words.
    pub fn position_text(&self) -> String {
        let at = self.timeline.position();
        let end = match self.timeline.end() {
            Some((time, ending)) if *time <= at.time => format!("; {ending}"),
            _ => String::new(),
        };
        format!("{} of virtual time, node {}{end}", at.time, at.node)
    }

    /// Brings all nodes to the present position, if `node` is not the one that stopped there.
    pub(crate) fn settle_for(&mut self, node: u32) -> Result<(), SessionError> {
        match self.timeline.position().node == node {
            true => Ok(()),
            false => Ok(self.timeline.settle()?),
        }
    }

    /// The state's hashes, node by node, in words.
    pub(crate) fn hashes(&self) -> String {
        let mut text = format!("{}\n", self.position_text());
        for node in 0..self.timeline.plan().nodes {
            let runner = self.timeline.runner(node);
            let hashes = runner.node().state_hashes();
            text.push_str(&format!(
                "node {node}: {} instructions, processor {:032x}, memory {:032x}\n",
                runner.node().retired(),
                hashes.processor,
                hashes.memory
            ));
        }
        text
    }

    /// Keeps the new output of the workload for the debugger.
    pub(crate) fn hear(&mut self) {
        for piece in self.timeline.take_output() {
            if matches!(piece.stream, Stream::Stdout | Stream::Stderr) {
                self.output.extend(piece.bytes);
            }
        }
    }

    /// A time before which no rank of the debugger's executes anything.
    pub(crate) fn earliest(&self) -> Time {
        let known = self.calls_from.filter(|_| !self.shows_all);
        known.unwrap_or(self.timeline.start())
    }

    /// If the run is over and its ranks are gone, moves back to the last position with a rank.
    pub(crate) fn back_to_ranks(&mut self, moved: Moved) -> Result<Moved, SessionError> {
        if !matches!(moved, Moved::Ended(_)) || !self.rank_processes().is_empty() {
            return Ok(moved);
        }
        self.timeline.forget_stops();
        self.timeline.set_breakpoints(self.exits());
        let stop = AtomicBool::new(false);
        let earliest = self.earliest();
        // Other processes may have the page tables of former ranks.
        for _ in 0..MOST_ENDS {
            let back = self.timeline.backward(earliest, &stop)?;
            if back == Moved::Start || !self.rank_processes().is_empty() {
                break;
            }
        }
        Ok(moved)
    }
}

/// The same run with all MPI calls observed and without other records, none of which the guests notice.
fn observed(mut plan: Plan) -> Plan {
    let trace = &mut plan.trace;
    if !trace.enabled {
        // The preloaded library would change the guests.
        trace.enabled = true;
        trace.by = Some(TraceBy::Probes);
        trace.library = None;
    }
    trace.functions.clear();
    trace.sample.clear();
    (trace.from, trace.until, trace.frames) = (None, None, 0);
    trace.messages = false;
    plan.probes.clear();
    plan.pcap.clear();
    (plan.profile, plan.checkpoint_every) = (None, None);
    plan
}
