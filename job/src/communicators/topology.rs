//! Neighbours of a member of a communicator with a topology in the neighbourhood collectives
//! (MPI-4.0, 8.6).
//!
//! Unrecorded parts of a grid or graph stay unknown. Called when all processes' communicators are
//! resolved.

/// The topology of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    /// A Cartesian grid, with as many periods as dimensions.
    Grid {
        /// Sizes of the dimensions; the last varies fastest with the rank.
        dimensions: Vec<u32>,
        /// True for periodic dimensions.
        periods: Vec<bool>,
    },
    /// A graph: the numbers of neighbours that each member receives from and sends to.
    Degrees(Vec<(u32, u32)>),
}

/// The neighbours of a member, in the order of its buffers' blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Neighbors {
    /// In a grid: two in each dimension; the rank of each, or `None` for `MPI_PROC_NULL`.
    Slots(Vec<Option<u32>>),
    /// In a graph: the numbers of neighbours to receive from and to send to.
    Degrees(u32, u32),
}

impl Topology {
    pub(super) fn grid(dimensions: Vec<u32>, mut periods: Vec<bool>) -> Self {
        periods.resize(dimensions.len(), false);
        Self::Grid {
            dimensions,
            periods,
        }
    }

    /// Work for the neighbours of one member.
    pub(super) fn work(&self) -> usize {
        match self {
            Self::Grid { dimensions, .. } => 2 * dimensions.len(),
            Self::Degrees(_) => 1,
        }
    }

    /// The neighbours of the member with this rank.
    pub(super) fn neighbors(&self, rank: u32) -> Option<Neighbors> {
        match self {
            Self::Degrees(degrees) => {
                let (sources, destinations) = *degrees.get(rank as usize)?;
                Some(Neighbors::Degrees(sources, destinations))
            }
            Self::Grid {
                dimensions,
                periods,
            } => {
                let mut place = rank;
                // Distance in ranks to the next one in the dimension.
                let mut stride = 1u32;
                let mut slots = Vec::with_capacity(2 * dimensions.len());
                for (&size, &goes_round) in dimensions.iter().zip(periods).rev() {
                    let coordinate = place.checked_rem(size)?;
                    place /= size;
                    let at = |there: u32| {
                        let first = rank.checked_sub(coordinate.checked_mul(stride)?)?;
                        first.checked_add(there.checked_mul(stride)?)
                    };
                    let ahead = (coordinate + 1) % size;
                    let behind = coordinate.checked_sub(1).unwrap_or(size - 1);
                    // Reversed below: the one ahead first.
                    for (there, inside) in
                        [(ahead, coordinate + 1 < size), (behind, coordinate > 0)]
                    {
                        slots.push(match goes_round || inside {
                            true => Some(at(there)?),
                            false => None,
                        });
                    }
                    stride = stride.saturating_mul(size);
                }
                slots.reverse();
                Some(Neighbors::Slots(slots))
            }
        }
    }
}

impl Neighbors {
    /// The number of neighbours to receive from, or to send to.
    pub(super) fn count(&self, sources: bool) -> u64 {
        match self {
            Self::Slots(slots) => slots.iter().flatten().count() as u64,
            Self::Degrees(from, _) if sources => u64::from(*from),
            Self::Degrees(_, to) => u64::from(*to),
        }
    }

    /// The sum of the pieces over existing neighbours; `None` if there are too few pieces.
    pub(super) fn sum(&self, pieces: &[u64], sources: bool) -> Option<u64> {
        match self {
            Self::Slots(slots) => {
                let pieces = pieces.get(..slots.len())?.iter().zip(slots);
                let there = pieces.filter(|(_, there)| there.is_some());
                Some(there.fold(0, |sum, (piece, _)| sum.saturating_add(*piece)))
            }
            Self::Degrees(..) => {
                let count = usize::try_from(self.count(sources)).ok()?;
                let pieces = pieces.get(..count)?.iter();
                Some(pieces.fold(0, |sum, piece| sum.saturating_add(*piece)))
            }
        }
    }
}
