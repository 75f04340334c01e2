//! A node's state and the host's state that belongs to it, saved and taken over.
//!
//! All of a runner but its node's RAM, which goes into packs of pages. A runner that is resumed does what
//! the saved one would have done. Called by the coordinator for checkpoints.

use std::collections::VecDeque;
use std::io;

use belljar_sim::Time;
use belljar_trace::StateError;
use belljar_tracer::{NodeTracer, Selection};
use belljar_vmm::{Node, NodeError, NodeStop};
use serde::{Deserialize, Serialize};

use super::profile::ProfilerState;
use super::{Lengths, Logs, Runner};
use crate::observe::watch::{STATE_FOLDER, StateLog, StateLogState, Watch};
use crate::results::run_directory::{RunDirectory, RunDirectoryError};
use crate::results::stream::Stream;
use crate::run::stopwatch::Stopwatch;

/// All of a runner but its node's RAM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunnerState {
    pub(crate) node: Vec<u8>,
    tracer: Option<Vec<u8>>,
    /// Bytes of the files of its outputs.
    pub(crate) lengths: Lengths,
    tail: VecDeque<String>,
    line: String,
    control: Vec<u8>,
    states: Option<StateLogState>,
    ended: Option<NodeStop>,
    ready: Option<Time>,
    sent: u64,
    out_of_memory: Option<String>,
    refused_memory: Option<String>,
    panicked: Option<String>,
    profile: Option<ProfilerState>,
}

impl RunnerState {
    /// Of a node that did nothing but write so many bytes to its console.
    pub(crate) fn with_console(console: u64) -> Self {
        Self {
            lengths: [console, 0, 0, 0],
            ..Self::default()
        }
    }

    /// The files in the run directory of node `index`, whose runner this is, and how long they are.
    pub(crate) fn files(&self, index: u32) -> Vec<(String, u64)> {
        let profiled = self.profile.is_some();
        let outputs = Stream::ALL.into_iter().zip(self.lengths);
        let outputs = outputs.filter(|(stream, _)| stream.is_of(profiled));
        let outputs = outputs.filter_map(|(stream, length)| Some((stream.file(index)?, length)));
        let states = self.states.iter();
        let states = states.map(|state| (Runner::states_file(index), state.length));
        outputs.chain(states).collect()
    }

    /// Takes what it takes to continue the node's profile, if it has one.
    pub(crate) fn profile(&self) -> Option<ProfilerState> {
        self.profile.clone()
    }

    /// What is known of the calls of node `index`, with `selection` as it was, if there was one.
    pub(crate) fn tracer(
        &self,
        index: u32,
        selection: Option<&Selection>,
    ) -> Result<Option<NodeTracer>, KeepError> {
        let (Some(selection), Some(state)) = (selection, &self.tracer) else {
            return Ok(None);
        };
        let tracer = NodeTracer::restore(index, selection, state);
        tracer.map(Some).map_err(|source| KeepError::Tracer {
            node: index,
            source,
        })
    }
}

impl Runner {
    /// The file of the hashes of a node's states in a run directory.
    pub(crate) fn states_file(index: u32) -> String {
        format!("{STATE_FOLDER}/node{index}.txt")
    }

    /// All of it but its node's RAM, its files having everything that it wrote to them.
    pub(crate) fn save(&mut self) -> Result<RunnerState, KeepError> {
        let node = self.index;
        let failed = |file: String| move |source| KeepError::Write { file, source };
        // What is buffered would be lost with this process.
        let flushed = self.logs.flush();
        flushed.map_err(failed(format!("an output of node {node}")))?;
        let lengths = self.logs.lengths();
        let tracer = self.tracer.as_ref().map(NodeTracer::save).transpose();
        let states = match &mut self.watch {
            Some(Watch::Log(log)) => Some(log.keep()),
            _ => None,
        };
        Ok(RunnerState {
            node: self
                .node
                .save()
                .map_err(|source| KeepError::Node { node, source })?,
            tracer: tracer.map_err(|source| KeepError::Tracer { node, source })?,
            lengths,
            tail: self.tail.clone(),
            line: self.line.clone(),
            control: self.control.clone(),
            states: states
                .transpose()
                .map_err(failed(Self::states_file(node)))?,
            ended: self.ended,
            ready: self.ready,
            sent: self.sent,
            out_of_memory: self.out_of_memory.clone(),
            refused_memory: self.refused_memory.clone(),
            panicked: self.panicked.clone(),
            profile: self.save_profile(),
        })
    }

    /// The runner of node `index` that continues where another one was [saved](Self::save),
    /// with that node and what is known of its calls restored. Without `directory`
    /// another host has the node's files.
    pub(crate) fn resume(
        index: u32,
        node: Node,
        tracer: Option<NodeTracer>,
        directory: Option<&RunDirectory>,
        saved: RunnerState,
    ) -> Result<Self, KeepError> {
        let logs = Logs::resume(index, saved.profile.is_some(), directory, saved.lengths)?;
        let states = directory.zip(saved.states).map(|(directory, state)| {
            let file = directory.resume_file(&Self::states_file(index), state.length)?;
            Ok::<_, RunDirectoryError>(StateLog::resume(state, file))
        });
        let mut runner = Self {
            profiler: None,
            limit: Time::ZERO,
            before: node.retired(),
            booting: Default::default(),
            index,
            node,
            tracer,
            logs,
            tail: saved.tail,
            line: saved.line,
            control: saved.control,
            watch: None,
            ended: saved.ended,
            ready: saved.ready,
            sent: saved.sent,
            out_of_memory: saved.out_of_memory,
            refused_memory: saved.refused_memory,
            panicked: saved.panicked,
            busy: Stopwatch::default(),
        };
        if let Some(log) = states.transpose()? {
            runner.watch(Watch::Log(log));
        }
        Ok(runner)
    }
}

/// Why a node cannot be kept, or not resumed.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The node itself.
    #[error("node {node}: {source}")]
    Node {
        /// Which.
        node: u32,
        /// Why.
        source: NodeError,
    },
    /// What is known of its calls.
    #[error("node {node}: {source}")]
    Tracer {
        /// Which.
        node: u32,
        /// Why.
        source: StateError,
    },
    /// Its profile cannot be continued.
    #[error("node {node}: its profile in the checkpoint is not that of such a node")]
    Profile {
        /// Which.
        node: u32,
    },
    /// What it wrote so far cannot be written.
    #[error("cannot write {file}: {source}")]
    Write {
        /// The file in the run directory.
        file: String,
        /// The host's reason.
        source: io::Error,
    },
    /// One of its files cannot be continued.
    #[error(transparent)]
    File(#[from] RunDirectoryError),
}
