//! The job of a process, as its launcher names it.
//!
//! Read by the tracer from a process's environment, and recorded with its first event. Analyses use it to distinguish
//! jobs.

use bincode::{Decode, Encode};

/// A job, as described by the launcher that started one of its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Launch {
    /// The job's unique name, if the launcher provides one.
    pub name: Option<String>,
    /// The number of processes in `MPI_COMM_WORLD`, if the launcher provides it.
    pub size: Option<u32>,
}

impl Launch {
    /// True if nothing is known of the job.
    pub fn is_empty(&self) -> bool {
        self.name.is_none() && self.size.is_none()
    }

    /// True if, judging by the names, another job of this job's launcher may have spawned it.
    pub fn may_be_of(&self, other: &Self) -> bool {
        match (self.family(), other.family()) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => true,
        }
    }

    /// Returns the common part of the names of all jobs that one launcher starts. Hydra's names begin with its
    /// process's number (`kvs_PID_JOB_...`). Open MPI's are numbers with the job in the lower half.
    fn family(&self) -> Option<u64> {
        let name = self.name.as_deref()?;
        match name.strip_prefix("kvs_") {
            Some(rest) => rest.split('_').next()?.parse().ok(),
            None => Some(name.parse::<u64>().ok()? >> 16),
        }
    }
}
