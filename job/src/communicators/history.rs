//! One process's communicators as its own events describe them.
//!
//! Filled by the collector event by event; read by the resolver once all events are known.

use std::collections::{BTreeMap, BTreeSet};

use belljar_sim::Time;
use belljar_trace::{GroupMembers, Launch, NewCommunicator};

/// One process's recorded calls.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) rank: u32,
    pub(super) start: Time,
    pub(super) world_size: u32,
    /// True if MPI returned a world of one process, and the launcher had started several.
    pub(super) is_singleton: bool,
    pub(super) launch: Launch,
    /// Communicators in order of creation, by parent and sequence number.
    pub(super) made: BTreeMap<(u32, u32), NewCommunicator>,
    /// Communicators of `MPI_Comm_create_group` and of sessions' groups, in order of creation.
    pub(super) apart: Vec<NewCommunicator>,
    /// Calls of `MPI_Intercomm_create`, in order.
    pub(super) intercomms: Vec<NewCommunicator>,
    pub(super) groups: BTreeMap<u32, GroupMembers>,
    /// Groups with which the process began epochs on windows.
    pub(super) epochs: BTreeSet<u32>,
    /// Its ranks in communicators, as MPI returned them.
    pub(super) ranks: BTreeMap<u32, u32>,
    /// Spawns, accepts and connects, with entry and return.
    pub(super) meetings: Vec<(NewCommunicator, [Time; 2])>,
    /// Known if the process asked for its parent: `None` if it was not spawned, otherwise its
    /// number of the intercommunicator to the parent.
    pub(super) parent: Option<Option<u32>>,
}
