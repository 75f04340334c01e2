//! The communicators and groups of a process, as far as the process alone determines them.
//!
//! Properties that depend on other processes' arguments are computed when the trace is read. Numbers are the process's
//! own, in the order of creation. Used by `process` when a constructor or a query returns.

/// Creation of groups.
mod groups;
/// Connections to other processes: spawned processes, ports, sessions.
mod meetings;
/// Creation of communicators, and their immediately known properties.
mod shapes;

use belljar_trace::{Fact, GroupMembers, Making, NewCommunicator, Peer, SELF, WORLD};
use bincode::{Decode, Encode};

use crate::decode::arguments::Arguments;
use crate::decode::implementation::MPICH_COMM_NULL;
use crate::objects::registry::Registry;

/// Most members assumed for a communicator when even the world's size is unknown.
const MOST_MEMBERS: u32 = 1 << 10;

/// The number of entries in an array with one for each member or neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Reach {
    /// Exactly this number.
    Exactly(u32),
    /// At most this number; true if the array must exist.
    UpTo(u32, bool),
    /// The array is not significant here.
    Nothing,
}

/// A communicator of a process.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(crate) struct Communicator {
    /// The process's own number for it.
    pub(crate) number: u32,
    /// Members of the (local) group, if known.
    size: Option<u32>,
    /// The process's rank in it, if known.
    pub(crate) rank: Option<u32>,
    /// `Some` if there is a remote group, with its size if known.
    remote: Option<Option<u32>>,
    /// Neighbours to receive from and to send to, if it has a topology and their numbers are known.
    pub(crate) neighbors: Option<(Reach, Reach)>,
    /// Dimensions of its grid, if it has one.
    dimensions: Option<Vec<u32>>,
    /// Communicators created from it so far.
    made: u32,
    /// True if it leads to the processes that spawned this one.
    is_parent: bool,
}

impl Communicator {
    /// Returns the size of the process's own group.
    pub(crate) fn size(&self) -> Option<u32> {
        self.size
    }

    /// Returns the number of processes with which a collective operation on it exchanges data.
    pub(crate) fn partners(&self) -> Option<u32> {
        self.remote.unwrap_or(self.size)
    }

    /// True if `root` is this process, as far as known.
    pub(crate) fn is_me(&self, root: Peer) -> bool {
        match root {
            Peer::Rank(root) => self.remote.is_none() && self.rank == Some(root),
            Peer::Root => true,
            _ => false,
        }
    }
}

/// A group of a process.
#[derive(Clone, Copy, Debug, Encode, Decode)]
struct MpiGroup {
    number: u32,
    size: Option<u32>,
}

/// Communicators and groups by handle.
#[derive(Debug, Encode, Decode)]
pub(crate) struct Communicators {
    communicators: Registry<Communicator>,
    groups: Registry<MpiGroup>,
    /// The handle of the null communicator.
    null: u64,
    next_communicator: u32,
    next_group: u32,
    world_size: Option<u32>,
}

impl Communicators {
    pub(crate) fn new() -> Self {
        Self {
            communicators: Registry::default(),
            groups: Registry::default(),
            null: MPICH_COMM_NULL,
            next_communicator: SELF + 1,
            next_group: 0,
            world_size: None,
        }
    }

    /// Registers the predefined communicators by their handles.
    pub(crate) fn learn_predefined(
        &mut self,
        world: u64,
        alone: u64,
        null: u64,
        rank: Option<u32>,
    ) {
        let of_world = Communicator {
            number: WORLD,
            size: self.world_size,
            rank,
            ..Communicator::default()
        };
        let of_self = Communicator {
            number: SELF,
            size: Some(1),
            rank: Some(0),
            ..Communicator::default()
        };
        self.communicators.insert(world, of_world);
        self.communicators.insert(alone, of_self);
        self.null = null;
    }

    pub(crate) fn get(&self, handle: u64) -> Option<&Communicator> {
        self.communicators.get(handle)
    }

    /// Records the world's size, as set by the launcher.
    pub(crate) fn learn_world_size(&mut self, size: u32) {
        self.world_size = Some(size);
        let world = self.communicators.iter_mut();
        for world in world.filter(|it| it.number == WORLD) {
            world.size = Some(size);
        }
    }

    /// Returns the largest possible size of a communicator of unknown size.
    pub(crate) fn most_members(&self) -> u32 {
        self.world_size.unwrap_or(MOST_MEMBERS)
    }

    pub(crate) fn free(&mut self, handle: u64) {
        let predefined = self.get(handle).is_some_and(|known| known.number <= SELF);
        if !predefined {
            self.communicators.remove(handle);
        }
    }

    /// Returns the process's own number of a group.
    pub(crate) fn group(&self, handle: u64) -> Option<u32> {
        self.groups.get(handle).map(|group| group.number)
    }

    pub(crate) fn free_group(&mut self, handle: u64) {
        self.groups.remove(handle);
    }

    pub(crate) fn take_forgotten(&mut self) -> u64 {
        self.communicators.take_forgotten() + self.groups.take_forgotten()
    }

    /// Handles a query of a communicator, and returns the answer if it was unknown.
    pub(crate) fn ask(&mut self, handle: u64, arguments: &mut Arguments<'_>) -> Option<Fact> {
        let answer = |arguments: &mut Arguments<'_>, name| {
            let value = arguments.integer(name)?;
            u32::try_from(value).ok()
        };
        let known = self.communicators.get_mut(handle)?;
        match arguments.base() {
            "Comm_size" => {
                let size = answer(arguments, "size")?;
                let news = known.size.replace(size) != Some(size);
                if known.number == WORLD {
                    self.world_size = Some(size);
                }
                news.then_some(Fact::Size {
                    communicator: known.number,
                    size,
                })
            }
            "Comm_rank" => {
                let rank = answer(arguments, "rank")?;
                let news = known.rank.replace(rank) != Some(rank);
                news.then_some(Fact::Rank {
                    communicator: known.number,
                    rank,
                })
            }
            "Comm_remote_size" => {
                known.remote = Some(answer(arguments, "size"));
                None
            }
            "Dist_graph_neighbors_count" => {
                let sources = answer(arguments, "indegree");
                let both = sources.zip(answer(arguments, "outdegree"));
                known.neighbors =
                    both.map(|(sources, out)| (Reach::Exactly(sources), Reach::Exactly(out)));
                None
            }
            _ => None,
        }
    }

    /// Handles a constructor that returned `handle` for the new communicator.
    pub(crate) fn make(
        &mut self,
        parent: Option<u64>,
        handle: u64,
        arguments: &mut Arguments<'_>,
    ) -> NewCommunicator {
        let (how, shape) = self.making(parent, arguments);
        if how == Making::Parent
            && let Some(known) = self.get(handle).filter(|known| known.is_parent)
        {
            // A repeated query returned the same communicator.
            return NewCommunicator {
                number: Some(known.number),
                parent: None,
                sequence: 0,
                how,
            };
        }
        let parent = parent.and_then(|parent| self.communicators.get_mut(parent));
        // `MPI_Comm_create_group` does not involve all members, so it must not count.
        let counts = !matches!(
            how,
            Making::CreateGroup { .. } | Making::IntercommGroups { .. }
        );
        let of_groups = matches!(
            arguments.base(),
            "Comm_create_from_group" | "Intercomm_create_from_groups"
        );
        let sequence = parent.as_ref().map_or(0, |parent| parent.made);
        let mut new = NewCommunicator {
            number: None,
            parent: parent.as_ref().map(|parent| parent.number),
            sequence,
            how,
        };
        if let Some(parent) = parent.filter(|_| counts) {
            parent.made = parent.made.wrapping_add(1);
        }
        if of_groups {
            // Its members are those of the job, even if the program has no world communicator.
            new.parent = Some(WORLD);
        }
        if handle != self.null && handle != 0 {
            let number = self.next_communicator;
            self.next_communicator = self.next_communicator.wrapping_add(1);
            self.communicators
                .insert(handle, Communicator { number, ..shape });
            new.number = Some(number);
        }
        new
    }

    /// Returns the operation of a constructor, and the known properties of the new communicator.
    fn making(&self, parent: Option<u64>, arguments: &mut Arguments<'_>) -> (Making, Communicator) {
        let parent = parent.and_then(|parent| self.get(parent));
        let plain = Communicator::default;
        match arguments.base() {
            "Comm_dup" | "Comm_dup_with_info" => {
                let copy = parent.cloned().unwrap_or_default();
                (Making::Duplicate, Communicator { made: 0, ..copy })
            }
            "Dist_graph_create" => shapes::dist_graph(parent, arguments),
            "Dist_graph_create_adjacent" => shapes::adjacent(parent, arguments),
            "Comm_split" => (shapes::split(arguments), plain()),
            "Comm_split_type" => (shapes::split_type(arguments), plain()),
            "Comm_create" | "Comm_create_group" => self.create(arguments),
            "Cart_create" => shapes::cart(arguments),
            "Cart_sub" => shapes::cart_sub(parent, arguments),
            "Graph_create" => shapes::graph(arguments),
            "Intercomm_create" => (self.intercomm(arguments), meetings::sides(parent)),
            "Intercomm_merge" => {
                let high = arguments.int("high").unwrap_or(0) != 0;
                (Making::Merge { high }, plain())
            }
            "Comm_spawn" | "Comm_spawn_multiple" => meetings::spawn(parent, arguments),
            "Comm_get_parent" => (Making::Parent, self.to_parent()),
            "Comm_accept" | "Comm_connect" => meetings::meet(parent, arguments),
            "Intercomm_create_from_groups" => self.intercomm_of_groups(arguments),
            "Comm_create_from_group" => self.create_from_group(arguments),
            _ => {
                let remote = Communicator {
                    remote: Some(None),
                    ..plain()
                };
                (Making::Unknown, remote)
            }
        }
    }

    fn create(&self, arguments: &Arguments<'_>) -> (Making, Communicator) {
        let group = arguments
            .word("group")
            .and_then(|handle| self.groups.get(handle));
        let shape = Communicator {
            size: group.and_then(|group| group.size),
            ..Communicator::default()
        };
        let group = group.map(|group| group.number);
        let making = match arguments.int("tag") {
            Some(tag) => Making::CreateGroup { group, tag },
            None => Making::Create { group },
        };
        (making, shape)
    }

    /// Handles a constructor that returned `handle` for a new group; `on` is the communicator of the queried window.
    pub(crate) fn make_group(
        &mut self,
        handle: u64,
        on: Option<u32>,
        arguments: &mut Arguments<'_>,
    ) -> Fact {
        let (members, size) = match arguments.base() {
            // A window's group is the group of its communicator (MPI-4.0, 12.2.6).
            "Win_get_group" => (on.map_or(GroupMembers::Unknown, GroupMembers::Of), None),
            _ => self.group_members(arguments),
        };
        let number = self.next_group;
        self.next_group = self.next_group.wrapping_add(1);
        self.groups.insert(handle, MpiGroup { number, size });
        Fact::Group { number, members }
    }
}
