//! The job of a process, in the words of the launcher that started it.
//!
//! Found by the tracer in a process's environment, and told with its first event. Jobs are told apart by it
//! when a trace is analysed.

use bincode::{Decode, Encode};

/// A job, in the words of the launcher that started one of its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Launch {
    /// The job's name, which tells it from all others, if the launcher gives one.
    pub name: Option<String>,
    /// How many processes `MPI_COMM_WORLD` has, if the launcher tells.
    pub size: Option<u32>,
}

impl Launch {
    /// Whether it tells nothing.
    pub fn is_empty(&self) -> bool {
        self.name.is_none() && self.size.is_none()
    }

    /// Whether one of this job's launcher's other jobs may have spawned it: as far as names tell.
    pub fn may_be_of(&self, other: &Self) -> bool {
        match (self.family(), other.family()) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => true,
        }
    }

    /// What the names of all jobs have in common that one launcher starts: Hydra's, which begin
    /// with its process's number (`kvs_PID_JOB_...`), and Open MPI's, which are numbers with the
    /// job in the lower half.
    fn family(&self) -> Option<u64> {
        let name = self.name.as_deref()?;
        match name.strip_prefix("kvs_") {
            Some(rest) => rest.split('_').next()?.parse().ok(),
            None => Some(name.parse::<u64>().ok()? >> 16),
        }
    }
}
