//! What was dropped, as a file next to the trace.
//!
//! JSON, with names of functions. What it holds is anybody's: a file that makes no sense is refused, and one of more than
//! `MOST` bytes, too. Written where a trace begins, with nothing in it, and again where it ends; read by commands that read it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use belljar_files::open_input;
use belljar_trace::TRACE_FILE;
use serde::{Deserialize, Serialize};

use crate::measure::{Both, Dropped, Measure};
use crate::moved::Moved;

/// The file's name in a run's directory.
pub const COLLECTED_FILE: &str = "collected.json";

/// Most bytes of the file.
const MOST: u64 = 256 << 20;

/// What was dropped of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collected {
    /// Iterations that were asked for.
    pub wanted: u64,
    /// Thread by thread.
    pub threads: Vec<CollectedThread>,
}

/// What was dropped of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectedThread {
    /// Its node.
    pub node: u32,
    /// Its process on the node.
    pub process: u32,
    /// Its number in the process.
    pub thread: u32,
    /// The process's rank.
    pub rank: u32,
    /// Iterations of its main loops, from when they were stable.
    pub iterations: u64,
    /// Those of them that were dropped.
    pub dropped_iterations: u64,
    /// By function, in cycles.
    pub functions: BTreeMap<String, Dropped>,
    /// Cycles between calls, by the functions of the one before and of the next.
    pub transitions: Vec<Transition>,
    /// Messages that dropped calls began to send, and to receive.
    #[serde(default, skip_serializing_if = "is_none")]
    pub messages: [u64; 2],
    /// What collective operations of dropped calls moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Moved>,
    /// Cycles between calls one of which was dropped.
    pub intervals: Measure,
    /// From the last call before dropped ones to the first one after them: what the trace has instead of `intervals`.
    pub gaps: Measure,
}

/// From a call of one function to the next one's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// The function before.
    pub from: String,
    /// The next one's.
    pub to: String,
    /// Cycles from the exit of the first to the entry of the second.
    pub between: Both,
}

fn is_none(messages: &[u64; 2]) -> bool {
    *messages == [0; 2]
}

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CollectedError {
    /// The host refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as an infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's own reason.
        source: std::io::Error,
    },
    /// It is something else.
    #[error("{} does not say what was dropped of the trace: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl Collected {
    /// The file's text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// What the file next to the trace at `trace` says; `None` where there is none: then nothing was dropped.
    ///
    /// # Errors
    /// [`CollectedError`] when the file cannot be read, or is something else.
    pub fn of_trace(trace: &Path) -> Result<Option<Self>, CollectedError> {
        if trace.file_name().is_none_or(|name| name != TRACE_FILE) {
            return Ok(None);
        }
        let path = trace.with_file_name(COLLECTED_FILE);
        let failed = |source| CollectedError::Io {
            action: "read",
            path: path.clone(),
            source,
        };
        let file = match open_input(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut text = Vec::new();
        file.take(MOST + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > MOST {
            let reason = "it is longer than such files can be".to_owned();
            return Err(CollectedError::Malformed { path, reason });
        }
        match Self::parse(&text) {
            Ok(collected) => Ok(Some(collected)),
            Err(reason) => Err(CollectedError::Malformed { path, reason }),
        }
    }

    /// What a file says that has this text.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let parsed: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let mut threads = BTreeSet::new();
        for of in &parsed.threads {
            let (node, process, thread) = (of.node, of.process, of.thread);
            if of.dropped_iterations > of.iterations {
                return Err(format!(
                    "thread {thread} of process {process} on node {node} has more iterations that were dropped than in all"
                ));
            }
            if !threads.insert((node, process, thread)) {
                return Err(format!(
                    "it tells twice of thread {thread} of process {process} on node {node}"
                ));
            }
        }
        Ok(parsed)
    }

    /// Iterations of the main loops of the thread that has most of them, kept and in all.
    pub fn iterations(&self) -> (u64, u64) {
        let each = self.threads.iter().map(|it| {
            let dropped = it.dropped_iterations.min(it.iterations);
            (it.iterations - dropped, it.iterations)
        });
        // The first of several that have as many.
        let most = |best: (u64, u64), own: (u64, u64)| if own.1 > best.1 { own } else { best };
        each.fold((0, 0), most)
    }

    /// Calls that the trace has and that it has not, as far as they returned and the program itself made them.
    pub fn calls(&self) -> (u64, u64) {
        let functions = self.functions();
        let count =
            |of: fn(&Dropped) -> u64| functions.values().map(of).fold(0, u64::saturating_add);
        (
            count(|it| it.cycles.kept.count),
            count(|it| it.cycles.dropped.count),
        )
    }

    /// Messages of which the trace has one side and not the other, at least: where threads did not drop the same iterations.
    pub fn halved_messages(&self) -> u64 {
        let add = |[sent, received]: [u64; 2], it: &CollectedThread| {
            let [more, others] = it.messages;
            [sent.saturating_add(more), received.saturating_add(others)]
        };
        let [sent, received] = self.threads.iter().fold([0; 2], add);
        sent.abs_diff(received)
    }

    /// All threads' sums, by the functions of a call and of the next.
    pub fn transitions(&self) -> BTreeMap<(&str, &str), Both> {
        let mut sums: BTreeMap<(&str, &str), Both> = BTreeMap::new();
        for own in self.threads.iter().flat_map(|thread| &thread.transitions) {
            let sum = sums.entry((&own.from, &own.to)).or_default();
            sum.join(&own.between);
        }
        sums
    }

    /// All threads' sums, by function.
    pub fn functions(&self) -> BTreeMap<&str, Dropped> {
        let mut sums: BTreeMap<&str, Dropped> = BTreeMap::new();
        let functions = self.threads.iter().flat_map(|thread| &thread.functions);
        for (name, own) in functions {
            sums.entry(name).or_default().join(own);
        }
        sums
    }
}
