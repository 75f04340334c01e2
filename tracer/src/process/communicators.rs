//! The communicators and groups of a process, as far as the process alone can know
//! them. What needs other processes' arguments is worked out afterwards.

use crate::arguments::Arguments;
use crate::event::Peer;
use crate::implementation::{MPICH_COMM_NULL, UNDEFINED};
use crate::object::{Fact, GroupMembers, Making, NewCommunicator, SELF, WORLD};
use crate::process::registry::Registry;

/// Most dimensions of a grid that are believed.
const MAX_DIMENSIONS: u64 = 1 << 10;

/// A communicator of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Communicator {
    /// The process's own number of it.
    pub(crate) number: u32,
    /// Members of the (local) group, if known.
    size: Option<u32>,
    /// The process's rank in it, if known.
    pub(crate) rank: Option<u32>,
    /// Whether there is a remote group, and how many it has, if known.
    remote: Option<Option<u32>>,
    /// Neighbours to receive from and to send to, if it has a topology.
    pub(crate) neighbors: Option<(u32, u32)>,
    /// Dimensions of its grid, if it has one.
    dimensions: Option<Vec<u32>>,
    /// Communicators made from it so far.
    made: u32,
}

impl Communicator {
    /// How many processes a collective operation on it exchanges data with.
    pub(crate) fn partners(&self) -> Option<u32> {
        self.remote.unwrap_or(self.size)
    }

    /// Whether `root` is this process, as far as known.
    pub(crate) fn is_me(&self, root: Peer) -> bool {
        match root {
            Peer::Rank(root) => self.remote.is_none() && self.rank == Some(root),
            Peer::Root => true,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Group {
    number: u32,
    size: Option<u32>,
}

/// Communicators and groups by handle.
#[derive(Debug)]
pub(crate) struct Communicators {
    communicators: Registry<Communicator>,
    groups: Registry<Group>,
    /// The handle of the null communicator.
    null: u64,
    next_communicator: u32,
    next_group: u32,
}

impl Communicators {
    pub(crate) fn new() -> Self {
        Self {
            communicators: Registry::default(),
            groups: Registry::default(),
            null: MPICH_COMM_NULL,
            next_communicator: SELF + 1,
            next_group: 0,
        }
    }

    /// Makes the predefined communicators known by their handles.
    pub(crate) fn learn_predefined(
        &mut self,
        world: u64,
        alone: u64,
        null: u64,
        rank: Option<u32>,
    ) {
        let of_world = Communicator {
            number: WORLD,
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

    pub(crate) fn free(&mut self, handle: u64) {
        let predefined = self.get(handle).is_some_and(|known| known.number <= SELF);
        if !predefined {
            self.communicators.remove(handle);
        }
    }

    pub(crate) fn free_group(&mut self, handle: u64) {
        self.groups.remove(handle);
    }

    pub(crate) fn take_forgotten(&mut self) -> u64 {
        self.communicators.take_forgotten() + self.groups.take_forgotten()
    }

    /// The program asked a communicator for something: what is news in the answer.
    pub(crate) fn ask(&mut self, handle: u64, arguments: &mut Arguments<'_>) -> Option<Fact> {
        let answer = |arguments: &mut Arguments<'_>, name| {
            let value = arguments.integer(name)?;
            u32::try_from(value).ok()
        };
        let known = self.communicators.get_mut(handle)?;
        match arguments.function() {
            "MPI_Comm_size" => {
                let size = answer(arguments, "size")?;
                let news = known.size.replace(size) != Some(size);
                news.then_some(Fact::Size {
                    communicator: known.number,
                    size,
                })
            }
            "MPI_Comm_rank" => {
                let rank = answer(arguments, "rank")?;
                let news = known.rank.replace(rank) != Some(rank);
                news.then_some(Fact::Rank {
                    communicator: known.number,
                    rank,
                })
            }
            "MPI_Comm_remote_size" => {
                known.remote = Some(answer(arguments, "size"));
                None
            }
            "MPI_Dist_graph_neighbors_count" => {
                let sources = answer(arguments, "indegree");
                known.neighbors = sources.zip(answer(arguments, "outdegree"));
                None
            }
            _ => None,
        }
    }

    /// A constructor returned `handle` for the new communicator.
    pub(crate) fn make(
        &mut self,
        parent: Option<u64>,
        handle: u64,
        arguments: &mut Arguments<'_>,
    ) -> NewCommunicator {
        let function = arguments.function();
        let (how, shape) = self.making(parent, arguments);
        let parent = parent.and_then(|parent| self.communicators.get_mut(parent));
        // `MPI_Comm_create_group` does not take all members: it must not count.
        let counts = !matches!(how, Making::CreateGroup { .. });
        let sequence = parent.as_ref().map_or(0, |parent| parent.made);
        let mut new = NewCommunicator {
            number: None,
            parent: parent.as_ref().map(|parent| parent.number),
            sequence,
            how,
        };
        if let Some(parent) = parent.filter(|_| counts && function != "MPI_Comm_get_parent") {
            parent.made = parent.made.wrapping_add(1);
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

    /// How a constructor makes a communicator, and what is known of it besides.
    fn making(&self, parent: Option<u64>, arguments: &mut Arguments<'_>) -> (Making, Communicator) {
        let parent = parent.and_then(|parent| self.get(parent));
        let plain = Communicator::default;
        let name = arguments.function();
        match name.strip_prefix("MPI_").unwrap_or(name) {
            "Comm_dup" | "Comm_dup_with_info" | "Comm_idup" | "Comm_idup_with_info" => {
                let copy = parent.cloned().unwrap_or_default();
                (Making::Duplicate, Communicator { made: 0, ..copy })
            }
            "Dist_graph_create" | "Dist_graph_create_adjacent" => {
                (Making::Duplicate, dist_graph(parent, arguments))
            }
            "Comm_split" => (split(arguments), plain()),
            "Comm_split_type" => (split_type(arguments), plain()),
            "Comm_create" | "Comm_create_group" => self.create(arguments),
            "Cart_create" => cart(arguments),
            "Cart_sub" => cart_sub(parent, arguments),
            "Graph_create" => {
                let nodes = arguments.count("nnodes").unwrap_or(0);
                let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
                let shape = Communicator {
                    size: Some(nodes),
                    ..plain()
                };
                (Making::Graph { nodes }, shape)
            }
            "Intercomm_create" => {
                let shape = Communicator {
                    size: parent.and_then(|parent| parent.size),
                    rank: parent.and_then(|parent| parent.rank),
                    remote: Some(None),
                    ..plain()
                };
                (self.intercomm(arguments), shape)
            }
            "Intercomm_merge" => {
                let high = arguments.int("high").unwrap_or(0) != 0;
                (Making::Merge { high }, plain())
            }
            "Comm_create_from_group" => (Making::Unknown, plain()),
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

    fn intercomm(&self, arguments: &Arguments<'_>) -> Making {
        let rank = |name| {
            let rank = arguments.int(name).unwrap_or(0);
            u32::try_from(rank).unwrap_or(u32::MAX)
        };
        let bridge = arguments
            .word("peer_comm")
            .and_then(|handle| self.get(handle));
        Making::Intercomm {
            local_leader: rank("local_leader"),
            bridge: bridge.map(|bridge| bridge.number),
            remote_leader: rank("remote_leader"),
            tag: arguments.int("tag").unwrap_or(0),
        }
    }

    /// A constructor returned `handle` for a new group.
    pub(crate) fn make_group(&mut self, handle: u64, arguments: &mut Arguments<'_>) -> Fact {
        let (members, size) = self.group_members(arguments);
        let number = self.next_group;
        self.next_group = self.next_group.wrapping_add(1);
        self.groups.insert(handle, Group { number, size });
        Fact::Group { number, members }
    }

    fn group_members(&self, arguments: &mut Arguments<'_>) -> (GroupMembers, Option<u32>) {
        let group = |arguments: &Arguments<'_>, name| {
            let handle = arguments.word(name)?;
            self.groups.get(handle).copied()
        };
        let name = arguments.function();
        let from = group(arguments, "group");
        let origin = from.map(|group| group.number);
        let pair = |arguments: &Arguments<'_>| {
            let number = |name| group(arguments, name).map(|group| group.number);
            (number("group1"), number("group2"))
        };
        match name.strip_prefix("MPI_").unwrap_or(name) {
            "Comm_group" | "Comm_remote_group" => self.group_of_communicator(arguments),
            "Group_incl" => {
                let ranks = ranks(arguments);
                let size = ranks.as_ref().map(|ranks| ranks.len() as u32);
                let members = ranks.map(|ranks| GroupMembers::Include(origin, ranks));
                (members.unwrap_or(GroupMembers::Unknown), size)
            }
            "Group_range_incl" => {
                let ranks = ranges(arguments);
                let size = ranks.as_ref().map(|ranks| ranks.len() as u32);
                let members = ranks.map(|ranks| GroupMembers::Include(origin, ranks));
                (members.unwrap_or(GroupMembers::Unknown), size)
            }
            "Group_excl" => excluding(from, ranks(arguments)),
            "Group_range_excl" => excluding(from, ranges(arguments)),
            "Group_union" => {
                let (first, second) = pair(arguments);
                (GroupMembers::Union(first, second), None)
            }
            "Group_intersection" => {
                let (first, second) = pair(arguments);
                (GroupMembers::Intersection(first, second), None)
            }
            "Group_difference" => {
                let (first, second) = pair(arguments);
                (GroupMembers::Difference(first, second), None)
            }
            _ => (GroupMembers::Unknown, None),
        }
    }

    fn group_of_communicator(&self, arguments: &Arguments<'_>) -> (GroupMembers, Option<u32>) {
        let known = arguments.word("comm").and_then(|handle| self.get(handle));
        let Some(known) = known else {
            return (GroupMembers::Unknown, None);
        };
        if arguments.function() == "MPI_Comm_remote_group" {
            let size = known.remote.flatten();
            (GroupMembers::RemoteOf(known.number), size)
        } else {
            (GroupMembers::Of(known.number), known.size)
        }
    }
}

fn excluding(from: Option<Group>, ranks: Option<Vec<u32>>) -> (GroupMembers, Option<u32>) {
    let Some(ranks) = ranks else {
        return (GroupMembers::Unknown, None);
    };
    let size = from
        .and_then(|from| from.size)
        .and_then(|size| size.checked_sub(ranks.len() as u32));
    let from = from.map(|from| from.number);
    (GroupMembers::Exclude(from, ranks), size)
}

fn split(arguments: &Arguments<'_>) -> Making {
    let color = arguments.int("color").unwrap_or(0);
    Making::Split {
        color: (i64::from(color) != UNDEFINED).then_some(color),
        key: arguments.int("key").unwrap_or(0),
    }
}

fn split_type(arguments: &Arguments<'_>) -> Making {
    use crate::event::Implementation::{Mpich, OpenMpi};
    let kind = arguments.int("split_type").unwrap_or(0);
    let member = i64::from(kind) != UNDEFINED;
    // MPI_COMM_TYPE_SHARED. Other kinds ask for parts of the hardware.
    let by_node = match arguments.implementation {
        Mpich => kind == 1,
        OpenMpi => kind == 0,
    };
    if member && !by_node {
        return Making::Unknown;
    }
    Making::SplitByNode {
        member,
        key: arguments.int("key").unwrap_or(0),
    }
}

fn dist_graph(parent: Option<&Communicator>, arguments: &Arguments<'_>) -> Communicator {
    let degree = |name| u32::try_from(arguments.count(name)?).ok();
    Communicator {
        size: parent.and_then(|parent| parent.size),
        neighbors: degree("indegree").zip(degree("outdegree")),
        ..Communicator::default()
    }
}

fn cart(arguments: &mut Arguments<'_>) -> (Making, Communicator) {
    let count = arguments.count("ndims").unwrap_or(u64::MAX);
    let read = if count <= MAX_DIMENSIONS {
        arguments.integers("dims", count)
    } else {
        None
    };
    let Some(read) = read else {
        return (Making::Unknown, Communicator::default());
    };
    let dimensions: Vec<u32> = read
        .into_iter()
        .map(|size| u32::try_from(size).unwrap_or(0))
        .collect();
    let shape = grid(dimensions.clone());
    (Making::Cart { dimensions }, shape)
}

fn cart_sub(
    parent: Option<&Communicator>,
    arguments: &mut Arguments<'_>,
) -> (Making, Communicator) {
    let dimensions = parent.and_then(|parent| parent.dimensions.clone());
    let remain = dimensions
        .as_ref()
        .and_then(|dimensions| arguments.integers("remain_dims", dimensions.len() as u64));
    let (Some(dimensions), Some(remain)) = (dimensions, remain) else {
        return (Making::Unknown, Communicator::default());
    };
    let remain: Vec<bool> = remain.into_iter().map(|keep| keep != 0).collect();
    let kept = dimensions.iter().zip(&remain).filter(|(_, keep)| **keep);
    let shape = grid(kept.map(|(size, _)| *size).collect());
    (Making::CartSub { remain }, shape)
}

/// A communicator with a grid. Each dimension has two neighbours.
fn grid(dimensions: Vec<u32>) -> Communicator {
    let size = dimensions
        .iter()
        .try_fold(1u32, |product, size| product.checked_mul(*size));
    let neighbors = 2 * dimensions.len() as u32;
    Communicator {
        size,
        neighbors: Some((neighbors, neighbors)),
        dimensions: Some(dimensions),
        ..Communicator::default()
    }
}

/// The argument `ranks` of `n` entries; `None` when it cannot be read whole.
fn ranks(arguments: &mut Arguments<'_>) -> Option<Vec<u32>> {
    let count = arguments.count("n")?;
    let ranks = arguments.integers("ranks", count)?;
    if (ranks.len() as u64) < count {
        return None;
    }
    ranks
        .into_iter()
        .map(|rank| u32::try_from(rank).ok())
        .collect()
}

/// The argument `ranges`, `n` triplets of first, last and stride, written out
/// (MPI-4.0, 7.3.2).
fn ranges(arguments: &mut Arguments<'_>) -> Option<Vec<u32>> {
    const MAX_RANKS: usize = 1 << 16;
    let count = arguments.count("n")?.checked_mul(3)?;
    let words = arguments.integers("ranges", count)?;
    if (words.len() as u64) < count {
        return None;
    }
    let mut ranks = Vec::new();
    for range in words.chunks_exact(3) {
        let (mut rank, last, stride) = (range[0], range[1], range[2]);
        if stride == 0 {
            return None;
        }
        while (stride > 0 && rank <= last) || (stride < 0 && rank >= last) {
            if ranks.len() == MAX_RANKS {
                return None;
            }
            ranks.push(u32::try_from(rank).ok()?);
            rank += stride;
        }
    }
    Some(ranks)
}
