//! What one process's events tell of its communicators, before others are heard.
//!
//! Filled by the collector event by event; read by the resolver when all of them are there.

use std::collections::{BTreeMap, BTreeSet};

use belljar_sim::Time;
use belljar_trace::{GroupMembers, Launch, NewCommunicator};

/// What one process's events tell.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) rank: u32,
    pub(super) start: Time,
    pub(super) world_size: u32,
    pub(super) launch: Launch,
    /// Communicators in the order of making, by parent and sequence number.
    pub(super) made: BTreeMap<(u32, u32), NewCommunicator>,
    /// Those of `MPI_Comm_create_group` and of sessions' groups, in order of making.
    pub(super) apart: Vec<NewCommunicator>,
    /// `MPI_Intercomm_create`s in the order of making.
    pub(super) intercomms: Vec<NewCommunicator>,
    pub(super) groups: BTreeMap<u32, GroupMembers>,
    /// Groups with which it began epochs on windows.
    pub(super) epochs: BTreeSet<u32>,
    /// Its ranks in communicators, as it was told them.
    pub(super) ranks: BTreeMap<u32, u32>,
    /// Spawns, accepts and connects: from when to when.
    pub(super) meetings: Vec<(NewCommunicator, [Time; 2])>,
    /// Whether others spawned it, and its number of the way to them.
    pub(super) parent: Option<Option<u32>>,
}
