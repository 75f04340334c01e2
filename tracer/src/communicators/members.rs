//! An ordered set of ranks.

use std::sync::Arc;

/// The members of a communicator: world ranks, by their ranks in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Members {
    /// All of the world, in order: as many.
    World(u32),
    /// These.
    List(Arc<[u32]>),
}

impl Members {
    /// How many they are.
    pub fn len(&self) -> u32 {
        match self {
            Self::World(size) => *size,
            Self::List(ranks) => ranks.len() as u32,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The world rank of the member with this rank.
    pub fn get(&self, rank: u32) -> Option<u32> {
        match self {
            Self::World(size) => (rank < *size).then_some(rank),
            Self::List(ranks) => ranks.get(rank as usize).copied(),
        }
    }

    /// The rank of the member with this world rank. Takes time in the number of members.
    pub fn position(&self, world_rank: u32) -> Option<u32> {
        match self {
            Self::World(size) => (world_rank < *size).then_some(world_rank),
            Self::List(ranks) => ranks
                .iter()
                .position(|rank| *rank == world_rank)
                .map(|position| position as u32),
        }
    }

    /// World ranks in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.len()).filter_map(|rank| self.get(rank))
    }
}

impl FromIterator<u32> for Members {
    fn from_iter<I: IntoIterator<Item = u32>>(ranks: I) -> Self {
        Self::List(ranks.into_iter().collect())
    }
}
