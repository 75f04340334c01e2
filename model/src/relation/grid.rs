//! Grids of ranks.
//!
//! Used by `relation`, and for values that depend on a grid.

use serde::{Deserialize, Serialize};

use super::RelationArguments;

/// A grid of all ranks, in row-major order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Grid {
    /// The number of dimensions: 2 to 4.
    pub dimensions: u8,
    /// True if later dimensions are longer; otherwise, the dimensions of `MPI_Dims_create`.
    pub ascending: bool,
}

/// Returns the dimensions of a grid as in `MPI_Dims_create`: as equal as possible, in descending order.
pub(super) fn dimensions(ranks: u32, count: u8) -> Vec<u32> {
    fn best(left: u32, count: u8, most: u32) -> Option<Vec<u32>> {
        if count <= 1 {
            return (left <= most).then(|| vec![left]);
        }
        // Starts with the smallest first dimension, which is at least the root.
        let least = (1..=left).find(|it| u64::from(*it).pow(u32::from(count)) >= u64::from(left));
        (least.unwrap_or(1)..=left.min(most))
            .filter(|first| left.is_multiple_of(*first))
            .find_map(|first| {
                let mut rest = best(left / first, count - 1, first)?;
                rest.insert(0, first);
                Some(rest)
            })
    }
    best(ranks.max(1), count.clamp(1, 4), u32::MAX).unwrap_or_else(|| vec![ranks])
}

impl Grid {
    /// Returns its dimensions for this number of ranks.
    pub fn lengths(self, ranks: u32) -> Vec<u32> {
        let mut all = dimensions(ranks, self.dimensions);
        if self.ascending {
            all.reverse();
        }
        all
    }

    pub(super) fn coordinates(self, place: RelationArguments) -> (Vec<u32>, Vec<u32>) {
        let lengths = self.lengths(place.ranks);
        let mut left = place.rank;
        let mut at: Vec<u32> = lengths
            .iter()
            .rev()
            .map(|length| {
                let own = left % length;
                left /= length;
                own
            })
            .collect();
        at.reverse();
        (lengths, at)
    }
}

impl Grid {
    /// Returns the length of each dimension, and a rank's position along it.
    pub(crate) fn lie(self, place: RelationArguments) -> Vec<(u32, u32)> {
        let (lengths, at) = self.coordinates(place);
        lengths.into_iter().zip(at).collect()
    }
}

/// Returns the rank at these coordinates of a grid.
pub(super) fn number(at: &[u32], lengths: &[u32]) -> u32 {
    let both = at.iter().zip(lengths);
    both.fold(0, |sum, (at, length)| sum * length + at)
}

/// Returns the rank at another position along a dimension of a grid, which `of` returns.
pub(super) fn along(
    place: RelationArguments,
    grid: Grid,
    dimension: u8,
    of: impl Fn(RelationArguments) -> Option<u32>,
) -> Option<u32> {
    let (lengths, mut at) = grid.coordinates(place);
    let dimension = usize::from(dimension);
    let own = RelationArguments {
        rank: *at.get(dimension)?,
        ranks: lengths[dimension],
        turn: place.turn,
    };
    at[dimension] = of(own)?;
    Some(number(&at, &lengths))
}

/// Returns the other side of the diagonal of a square of ranks, or of a square of pairs.
pub(super) fn transposed(rank: u32, ranks: u32) -> Option<u32> {
    let square = |count: u32| {
        let side = count.isqrt();
        (side > 0 && side.checked_mul(side) == Some(count)).then_some(side)
    };
    let turned = |rank: u32, side: u32| rank % side * side + rank / side;
    match square(ranks) {
        Some(side) => Some(turned(rank, side)),
        None => {
            let side = square(ranks / 2).filter(|_| ranks.is_multiple_of(2))?;
            Some(2 * turned(rank / 2, side) + rank % 2)
        }
    }
}
