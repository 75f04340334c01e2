//! Connections to other processes: intercommunicators, spawned processes, ports, and groups of sessions.
//!
//! Only the process's own arguments are read, so values significant only at the root are unknown elsewhere. Used by the
//! constructors of communicators.

use belljar_trace::{Making, WORLD};

use super::{Communicator, Communicators};
use crate::decode::arguments::Arguments;

/// Most plausible number of commands of an `MPI_Comm_spawn_multiple`.
const MAX_COMMANDS: u64 = 1 << 16;

/// Returns the known properties of an intercommunicator whose local group is the parent's.
pub(super) fn sides(parent: Option<&Communicator>) -> Communicator {
    Communicator {
        size: parent.and_then(|parent| parent.size),
        rank: parent.and_then(|parent| parent.rank),
        remote: Some(None),
        ..Communicator::default()
    }
}

/// Handles a spawn of new processes. Their number is significant only at the root.
pub(super) fn spawn(
    parent: Option<&Communicator>,
    arguments: &mut Arguments<'_>,
) -> (Making, Communicator) {
    let root = rank(arguments, "root");
    let count = match arguments.int("maxprocs") {
        Some(count) => u32::try_from(count).ok(),
        None if may_be(parent, root) => spawned_by_all(arguments),
        None => None,
    };
    (Making::Spawn { root, count }, sides(parent))
}

/// Returns the number of processes that `MPI_Comm_spawn_multiple` is to start.
fn spawned_by_all(arguments: &mut Arguments<'_>) -> Option<u32> {
    let commands = arguments.count("count").filter(|it| *it <= MAX_COMMANDS)?;
    let counts = arguments.integers("array_of_maxprocs", commands)?;
    let mut counts = counts.into_iter();
    counts.try_fold(0u32, |sum, count| {
        sum.checked_add(u32::try_from(count).ok()?)
    })
}

/// Handles a connection through a port, on either side. Its name is significant only at the root.
pub(super) fn meet(
    parent: Option<&Communicator>,
    arguments: &mut Arguments<'_>,
) -> (Making, Communicator) {
    let root = rank(arguments, "root");
    let name = may_be(parent, root).then(|| arguments.text("port_name"));
    let how = Making::Meet {
        accepts: arguments.base() == "Comm_accept",
        root,
        port: name.flatten().map(|name| crc32fast::hash(name.as_bytes())),
    };
    (how, sides(parent))
}

/// True if this process may have that rank in the communicator.
fn may_be(communicator: Option<&Communicator>, rank: u32) -> bool {
    let own = communicator.and_then(|communicator| communicator.rank);
    own.is_none_or(|own| own == rank)
}

fn rank(arguments: &Arguments<'_>, name: &str) -> u32 {
    let rank = arguments.int(name).unwrap_or(0);
    u32::try_from(rank).unwrap_or(u32::MAX)
}

impl Communicators {
    /// Returns the known properties of the communicator to the spawning processes.
    pub(super) fn to_parent(&self) -> Communicator {
        let world = self.communicators.iter().find(|it| it.number == WORLD);
        Communicator {
            is_parent: true,
            ..sides(world)
        }
    }

    /// Handles `MPI_Intercomm_create`.
    pub(super) fn intercomm(&self, arguments: &Arguments<'_>) -> Making {
        let bridge = arguments
            .word("peer_comm")
            .and_then(|handle| self.get(handle));
        Making::Intercomm {
            local_leader: rank(arguments, "local_leader"),
            bridge: bridge.map(|bridge| bridge.number),
            remote_leader: rank(arguments, "remote_leader"),
            tag: arguments.int("tag").unwrap_or(0),
        }
    }

    /// Handles a call like `MPI_Comm_create_group` with a text as tag; its hash suffices to distinguish concurrent
    /// calls.
    pub(super) fn create_from_group(
        &self,
        arguments: &mut Arguments<'_>,
    ) -> (Making, Communicator) {
        let tag = text_tag(arguments);
        let (_, shape) = self.create(arguments);
        let group = self.group_number(arguments, "group");
        (Making::CreateGroup { group, tag }, shape)
    }

    /// Handles the same with two groups, which become two sides.
    pub(super) fn intercomm_of_groups(
        &self,
        arguments: &mut Arguments<'_>,
    ) -> (Making, Communicator) {
        let how = Making::IntercommGroups {
            local: self.group_number(arguments, "local_group"),
            remote: self.group_number(arguments, "remote_group"),
            leader: rank(arguments, "local_leader"),
            tag: text_tag(arguments),
        };
        (how, sides(None))
    }

    fn group_number(&self, arguments: &Arguments<'_>, name: &str) -> Option<u32> {
        let group = self.groups.get(arguments.word(name)?)?;
        Some(group.number)
    }
}

fn text_tag(arguments: &mut Arguments<'_>) -> i32 {
    let text = arguments.text("stringtag").unwrap_or_default();
    crc32fast::hash(text.as_bytes()).cast_signed()
}
