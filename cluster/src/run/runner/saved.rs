//! A node's state and the related state of the host, saved and restored.
//!
//! The state of a runner without its node's RAM, which is stored in packs of pages. A resumed runner
//! behaves as the saved one would have. Called by the coordinator for checkpoints.

use std::collections::VecDeque;
use std::io;

use belljar_sim::Time;
use belljar_trace::StateError;
use belljar_tracer::{NodeTracer, Selection};
use belljar_vmm::{Node, NodeError, NodeStop};
use serde::{Deserialize, Serialize};

use super::profile::ProfilerState;
use super::{Breaks, Lengths, Logs, Restarts, Runner};
use crate::observe::watch::{STATE_FOLDER, StateLog, StateLogState, Watch};
use crate::results::run_directory::{RunDirectory, RunDirectoryError};
use crate::results::stream::Stream;
use crate::run::stopwatch::Stopwatch;

/// The state of a runner without its node's RAM.
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
    sent_packets: u64,
    out_of_memory: Option<String>,
    refused_memory: Option<String>,
    panicked: Option<String>,
    profile: Option<ProfilerState>,
    /// Starts after losses of power.
    restarted: u32,
}

impl RunnerState {
    /// The state of a node that has only written this number of bytes to its console.
    pub(crate) fn with_console(console: u64) -> Self {
        Self {
            lengths: [console, 0, 0, 0],
            ..Self::default()
        }
    }

    /// The files in the run directory of this runner's node, `index`, with their lengths.
    pub(crate) fn files(&self, index: u32) -> Vec<(String, u64)> {
        let profiled = self.profile.is_some();
        let outputs = Stream::ALL.into_iter().zip(self.lengths);
        let outputs = outputs.filter(|(stream, _)| stream.is_of(profiled));
        let outputs = outputs.filter_map(|(stream, length)| Some((stream.file(index)?, length)));
        let states = self.states.iter();
        let states = states.map(|state| (Runner::states_file(index), state.length));
        outputs.chain(states).collect()
    }

    /// Starts of the node after losses of power so far.
    pub(crate) fn restarted(&self) -> usize {
        self.restarted as usize
    }

    /// Takes the saved state of the node's profile, if it has one.
    pub(crate) fn profile(&self) -> Option<ProfilerState> {
        self.profile.clone()
    }

    /// Restores the tracer of node `index`, with the same `selection`, if there was one.
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

    /// Saves the state without the node's RAM, after a flush of its files.
    pub(crate) fn save(&mut self) -> Result<RunnerState, KeepError> {
        let node = self.index;
        let failed = |file: String| move |source| KeepError::Write { file, source };
        // Buffered data would be lost with this process.
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
            sent_packets: self.sent_packets,
            out_of_memory: self.out_of_memory.clone(),
            refused_memory: self.refused_memory.clone(),
            panicked: self.panicked.clone(),
            profile: self.save_profile(),
            restarted: self.restarts.done,
        })
    }

    /// The runner of node `index` that continues from a [saved](Self::save) state, with the restored node
    /// and tracer. Without `directory` another host has the node's files.
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
            breaks: Breaks::default(),
            restarts: Restarts::new(Vec::new(), saved.restarted),
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
            sent_packets: saved.sent_packets,
            out_of_memory: saved.out_of_memory,
            refused_memory: saved.refused_memory,
            panicked: saved.panicked,
            kills: Vec::new(),
            busy: Stopwatch::default(),
        };
        if let Some(log) = states.transpose()? {
            runner.watch(Watch::Log(log));
        }
        Ok(runner)
    }
}

/// Errors of saving or resuming a node.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The node itself.
    #[error("node {node}: {source}")]
    Node {
        /// Number of the node.
        node: u32,
        /// The reason.
        source: NodeError,
    },
    /// The tracer.
    #[error("node {node}: {source}")]
    Tracer {
        /// Number of the node.
        node: u32,
        /// The reason.
        source: StateError,
    },
    /// Its profile cannot be continued.
    #[error("node {node}: its profile in the checkpoint is of another kind of node")]
    Profile {
        /// Number of the node.
        node: u32,
    },
    /// Its outputs cannot be written.
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
