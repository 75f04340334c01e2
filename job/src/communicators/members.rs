//! An ordered set of processes, by their jobs and ranks.
//!
//! The position of a process is its rank in the communicator. The world of a job is stored without a
//! list, for any size. Used by all code that names ranks of communicators.

use std::sync::Arc;

/// A process as MPI identifies it: its job, and its rank in that job's `MPI_COMM_WORLD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The job, counted from 0 in the order of their starts.
    pub job: u32,
    /// The rank.
    pub rank: u32,
}

/// The members of a communicator, by their ranks in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Members {
    /// All of a job's world, in order.
    World {
        /// The job.
        job: u32,
        /// Number of processes.
        size: u32,
    },
    /// A list of processes. They belong to several jobs if a job spawned another, or two connected.
    List(Arc<[Member]>),
}

impl Members {
    /// The number of members.
    pub fn len(&self) -> u32 {
        match self {
            Self::World { size, .. } => *size,
            Self::List(members) => members.len() as u32,
        }
    }

    /// True if there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The member with this rank.
    pub fn get(&self, rank: u32) -> Option<Member> {
        match self {
            Self::World { job, size } => (rank < *size).then_some(Member { job: *job, rank }),
            Self::List(members) => members.get(rank as usize).copied(),
        }
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = Member> {
        (0..self.len()).filter_map(|rank| self.get(rank))
    }
}

impl FromIterator<Member> for Members {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> Self {
        Self::List(members.into_iter().collect())
    }
}
