//! Communicators of a job, their groups and their topologies.
//!
//! Ranks are those of `MPI_COMM_WORLD` unless a name says otherwise. Used by the generator, the recorder, the simulation and the truth.

/// A communicator.
#[derive(Clone, Debug)]
pub(crate) struct Communicator {
    /// Ranks of `MPI_COMM_WORLD`, in the order of their ranks here.
    pub(crate) members: Vec<u32>,
    /// The number of the call of all ranks that made it; the parts of one `MPI_Comm_split` share it.
    pub(crate) making: usize,
    /// For an intercommunicator, the number of members in the first group.
    pub(crate) first: Option<usize>,
    /// True for `MPI_COMM_SELF` of every rank, which has no members here.
    pub(crate) own: bool,
    pub(crate) topology: Option<Topology>,
}

/// Neighbours in a communicator of all ranks.
#[derive(Clone, Debug)]
pub(crate) enum Topology {
    /// A grid of these sizes; the last one changes fastest with the rank. True for periodic dimensions.
    Grid(Vec<(u32, bool)>),
    /// A graph's edges, from source to destination.
    Graph(Vec<(u32, u32)>),
}

impl Topology {
    /// The sources and the destinations of a rank, in order; `None` for `MPI_PROC_NULL`.
    pub(crate) fn neighbors(&self, rank: u32) -> [Vec<Option<u32>>; 2] {
        match self {
            Self::Graph(edges) => {
                let sources = edges.iter().filter(|(_, to)| *to == rank);
                let destinations = edges.iter().filter(|(from, _)| *from == rank);
                [
                    sources.map(|(from, _)| Some(*from)).collect(),
                    destinations.map(|(_, to)| Some(*to)).collect(),
                ]
            }
            Self::Grid(sizes) => {
                let mut neighbors = Vec::new();
                let mut stride: u32 = sizes.iter().map(|(size, _)| size).product();
                for (size, goes_round) in sizes {
                    stride /= size;
                    let own = rank / stride % size;
                    for (step, leaves) in [(size - 1, own == 0), (1, own + 1 == *size)] {
                        let there = (own + step) % size;
                        let inside = *goes_round || !leaves;
                        neighbors.push(inside.then(|| rank - own * stride + there * stride));
                    }
                }
                [neighbors.clone(), neighbors]
            }
        }
    }
}

impl Communicator {
    /// The rank here of a rank of `MPI_COMM_WORLD`, in its group.
    pub(crate) fn rank_of(&self, world: u32) -> Option<u32> {
        if self.own {
            return Some(0);
        }
        let place = self.members.iter().position(|member| *member == world)?;
        let first = self.first.unwrap_or(self.members.len());
        let place = if place >= first { place - first } else { place };
        u32::try_from(place).ok()
    }

    /// The sources and the destinations of a rank's neighbourhood; `None` for `MPI_PROC_NULL`.
    pub(crate) fn neighbors(&self, rank: u32) -> [Vec<Option<u32>>; 2] {
        let topology = self.topology.as_ref();
        topology.map_or_else(Default::default, |topology| topology.neighbors(rank))
    }

    /// The ranks of `MPI_COMM_WORLD` that a member exchanges data with in collective operations, in their order: all, or those of the other group.
    pub(crate) fn partners(&self, world: u32) -> &[u32] {
        let Some(first) = self.first else {
            return &self.members;
        };
        let (one, other) = self.members.split_at(first);
        if one.contains(&world) { other } else { one }
    }

    /// True if a message may go from one of these ranks to the other.
    pub(crate) fn joins(&self, ranks: [u32; 2]) -> bool {
        let places = ranks.map(|rank| self.members.iter().position(|member| *member == rank));
        match (places, self.first) {
            ([Some(from), Some(to)], Some(first)) => (from < first) != (to < first),
            ([Some(from), Some(to)], None) => from != to,
            _ => false,
        }
    }
}
