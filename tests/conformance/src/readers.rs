//! Readers compared with the truth.
//!
//! A reader passes if it has each match as it was, or counts it as unknown where the trace leaves it open.

/// Records of `belljar_export`.
mod export;
/// Sends and receives of TI and GOAL.
mod interchange;
/// Bytes by pairs of ranks.
mod matrix;
/// Channels of `belljar_program`.
mod program;
/// Counts and waits of `WaitCollector`.
mod wait;

use std::path::Path;

use belljar_collectives::Tables;
use belljar_program::{Algorithms, extract};
use belljar_trace::TraceError;

use crate::truth::Truth;

/// A claim of a reader that contradicts the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The reader.
    pub reader: &'static str,
    /// Expected and found.
    pub text: String,
}

/// The differences of one reader.
struct Differences {
    reader: &'static str,
    all: Vec<Difference>,
}

impl Differences {
    fn new(reader: &'static str) -> Self {
        Self {
            reader,
            all: Vec::new(),
        }
    }

    fn push(&mut self, text: String) {
        self.all.push(Difference {
            reader: self.reader,
            text,
        });
    }

    fn unless(&mut self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.push(text());
        }
    }
}

/// Compares all readers of the trace at `path` with the truth.
pub(crate) fn differences(truth: &Truth, path: &Path) -> Result<Vec<Difference>, TraceError> {
    let tables = Tables::open_mpi();
    let (program, _) = extract(path, Algorithms::By(&tables))?;
    let mut all = export::check(truth, path)?;
    all.extend(program::check(truth, &program));
    all.extend(interchange::check(truth, &program));
    all.extend(wait::check(truth, path)?);
    all.extend(matrix::check(truth, path)?);
    Ok(all)
}
