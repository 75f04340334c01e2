//! The summary of dropped calls, as a file next to the trace.
//!
//! JSON, with names of functions. The file is untrusted: invalid contents and files of more than `MOST` bytes are refused. It
//! is written empty at the beginning of a trace, and again at its end; commands that read the trace read it, too.

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

/// Sums of a trace's dropped calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collected {
    /// The requested number of iterations.
    pub wanted: u64,
    /// Sums by thread.
    pub threads: Vec<CollectedThread>,
}

/// Sums of a thread's dropped calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectedThread {
    /// Its node.
    pub node: u32,
    /// Its process's number on the node.
    pub process: u32,
    /// Its number in the process.
    pub thread: u32,
    /// The process's rank.
    pub rank: u32,
    /// Iterations of its main loops, counted from when they were stable.
    pub iterations: u64,
    /// The number of dropped iterations.
    pub dropped_iterations: u64,
    /// Cycles by function.
    pub functions: BTreeMap<String, Dropped>,
    /// Cycles between calls, by the functions of both calls.
    pub transitions: Vec<Transition>,
    /// Messages that dropped calls began to send and to receive.
    #[serde(default, skip_serializing_if = "is_none")]
    pub messages: [u64; 2],
    /// The data moved by collective operations of dropped calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Moved>,
    /// Cycles between two calls, at least one of them dropped.
    pub intervals: Measure,
    /// Cycles from the last kept call before dropped calls to the first one after them, which the trace has instead of
    /// `intervals`.
    pub gaps: Measure,
}

/// From a call of one function to a call of the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// The function of the first call.
    pub from: String,
    /// The function of the second call.
    pub to: String,
    /// Cycles from the exit of the first to the entry of the second.
    pub between: Both,
}

fn is_none(messages: &[u64; 2]) -> bool {
    *messages == [0; 2]
}

/// An error in reading or writing the file.
#[derive(Debug, thiserror::Error)]
pub enum CollectedError {
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action, as an infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// It is not such a file.
    #[error("{} does not say what was dropped of the trace: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
}

impl Collected {
    /// Returns the file's text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Reads the file next to the trace at `trace`; `None` if it does not exist, so that no calls were dropped.
    ///
    /// # Errors
    /// Returns [`CollectedError`] if the file cannot be read, or is invalid.
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

    /// Parses the file's text.
    ///
    /// # Errors
    /// Returns the fault, in words.
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

    /// Returns the iterations of the main loops, kept and in total, of the thread that has the most of them.
    pub fn iterations(&self) -> (u64, u64) {
        let each = self.threads.iter().map(|it| {
            let dropped = it.dropped_iterations.min(it.iterations);
            (it.iterations - dropped, it.iterations)
        });
        // The first one if several threads have the same number.
        let most = |best: (u64, u64), own: (u64, u64)| if own.1 > best.1 { own } else { best };
        each.fold((0, 0), most)
    }

    /// Returns the numbers of kept and of dropped calls, as far as they returned and the program itself made them.
    pub fn calls(&self) -> (u64, u64) {
        let functions = self.functions();
        let count =
            |of: fn(&Dropped) -> u64| functions.values().map(of).fold(0, u64::saturating_add);
        (
            count(|it| it.cycles.kept.count),
            count(|it| it.cycles.dropped.count),
        )
    }

    /// Returns a lower bound of the number of messages with only one side in the trace, because threads did not drop the same
    /// iterations.
    pub fn halved_messages(&self) -> u64 {
        let add = |[sent, received]: [u64; 2], it: &CollectedThread| {
            let [more, others] = it.messages;
            [sent.saturating_add(more), received.saturating_add(others)]
        };
        let [sent, received] = self.threads.iter().fold([0; 2], add);
        sent.abs_diff(received)
    }

    /// Returns all threads' sums, by the functions of both calls.
    pub fn transitions(&self) -> BTreeMap<(&str, &str), Both> {
        let mut sums: BTreeMap<(&str, &str), Both> = BTreeMap::new();
        for own in self.threads.iter().flat_map(|thread| &thread.transitions) {
            let sum = sums.entry((&own.from, &own.to)).or_default();
            sum.join(&own.between);
        }
        sums
    }

    /// Returns all threads' sums, by function.
    pub fn functions(&self) -> BTreeMap<&str, Dropped> {
        let mut sums: BTreeMap<&str, Dropped> = BTreeMap::new();
        let functions = self.threads.iter().flat_map(|thread| &thread.functions);
        for (name, own) in functions {
            sums.entry(name).or_default().join(own);
        }
        sums
    }
}
