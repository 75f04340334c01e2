//! What was dropped, as a file next to the trace.
//!
//! JSON, with names of functions. What it holds is anybody's: a file that makes no sense is refused, and one of more than
//! `MOST` bytes, too. To be written where a
//! trace ends, and read by commands that read it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::measure::{Dropped, Measure};

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
    /// Cycles between a dropped call and the one before it.
    pub transitions: Vec<Transition>,
}

/// From a call of one function to the next one's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// The function before.
    pub from: String,
    /// That of the dropped call.
    pub to: String,
    /// Cycles from the exit of the first to the entry of the second.
    pub between: Measure,
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
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// What the file next to the trace at `trace` says; `None` where there is none: then nothing was dropped.
    ///
    /// # Errors
    /// [`CollectedError`] when the file cannot be read, or is something else.
    pub fn of_trace(trace: &Path) -> Result<Option<Self>, CollectedError> {
        let path = trace.with_file_name(COLLECTED_FILE);
        let failed = |source| CollectedError::Io {
            action: "read",
            path: path.clone(),
            source,
        };
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut text = Vec::new();
        file.take(MOST + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > MOST {
            let reason = "it is longer than such files can be".to_owned();
            return Err(CollectedError::Malformed { path, reason });
        }
        let malformed = |error: serde_json::Error| error.to_string();
        match serde_json::from_slice(&text).map_err(malformed) {
            Ok(collected) => Ok(Some(collected)),
            Err(reason) => Err(CollectedError::Malformed { path, reason }),
        }
    }

    /// Iterations of main loops of all threads, kept and in all.
    pub fn iterations(&self) -> (u64, u64) {
        let add = |(kept, all): (u64, u64), it: &CollectedThread| {
            let dropped = it.dropped_iterations.min(it.iterations);
            let own = it.iterations - dropped;
            (kept.saturating_add(own), all.saturating_add(it.iterations))
        };
        self.threads.iter().fold((0, 0), add)
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
