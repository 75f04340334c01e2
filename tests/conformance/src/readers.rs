//! Readers compared with the truth.
//!
//! A reader passes if it has each match as it was, or counts it as unknown where the trace leaves it open.

/// Completions of the program's operations.
mod completions;
/// Records of `belljar_formats`.
mod export;
/// Bytes by pairs of ranks.
mod matrix;
/// Steps of the critical path.
mod path;
/// Channels of `belljar_program`.
mod program;
/// Sends and receives of TI and GOAL.
mod schedules;
/// Counts and waits of `WaitCollector`.
mod wait;

use std::path::Path;

use belljar_collectives::{Operation, Tables};
use belljar_program::{Algorithms, extract};
use belljar_trace::TraceError;

use crate::job::Collective;
use crate::kinds::Kinds;
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
pub(crate) fn differences(
    truth: &Truth,
    kinds: &Kinds,
    path: &Path,
) -> Result<Vec<Difference>, TraceError> {
    let tables = Tables::open_mpi();
    let (program, _) = extract(path, Algorithms::By(&tables))?;
    let mut all = export::check(truth, path)?;
    all.extend(program::check(truth, &program));
    all.extend(schedules::check(truth, &program));
    all.extend(wait::check(truth, kinds, path)?);
    all.extend(matrix::check(truth, kinds, path)?);
    if kinds.critical_path {
        all.extend(path::check(truth, path)?);
    }
    Ok(all)
}

/// True if a reader's operation is this one.
fn is(expected: Collective, found: Operation) -> bool {
    let expected = match expected {
        Collective::Barrier => Operation::Barrier,
        Collective::Bcast => Operation::Broadcast,
        Collective::Reduce => Operation::Reduce,
        Collective::Allreduce => Operation::Allreduce,
        Collective::Gather => Operation::Gather,
        Collective::Scatter => Operation::Scatter,
        Collective::Allgather => Operation::Allgather,
        Collective::Alltoall => Operation::Alltoall,
        Collective::ReduceScatterBlock => Operation::ReduceScatterBlock,
        Collective::Scan => Operation::Scan,
        Collective::Exscan => Operation::Exscan,
        Collective::Gatherv => Operation::Gatherv,
        Collective::Scatterv => Operation::Scatterv,
        Collective::Allgatherv => Operation::Allgatherv,
        Collective::Alltoallv => Operation::Alltoallv,
        Collective::Alltoallw => Operation::Alltoallw,
        Collective::NeighborAllgather => Operation::NeighborAllgather,
        Collective::NeighborAllgatherv => Operation::NeighborAllgatherv,
        Collective::NeighborAlltoall => Operation::NeighborAlltoall,
        Collective::NeighborAlltoallv => Operation::NeighborAlltoallv,
        Collective::NeighborAlltoallw => Operation::NeighborAlltoallw,
        Collective::ReduceScatter => Operation::ReduceScatter,
    };
    expected == found
}
