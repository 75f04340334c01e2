//! Numbers as functions of a rank: peers, roots, colours.
//!
//! A value computed from the rank is searched for among common relations: fixed ranks, shifts around a ring, neighbours in grids and hypercubes, steps of doubling
//! distance, transposes, trees. A relation is only accepted if it holds for all samples, of all sizes. Used by models of runs.

/// Candidate relations of a sample.
mod candidates;
/// Grids of ranks.
mod grid;
/// Relations in words.
mod words;

use serde::{Deserialize, Serialize};

pub use grid::Grid;
use grid::{along, number, transposed};

/// The arguments of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelationArguments {
    /// The rank in the communicator.
    pub rank: u32,
    /// The number of ranks.
    pub ranks: u32,
    /// The turn of the innermost loop.
    pub turn: u32,
}

/// A number as a function of a rank. Values outside are `MPI_PROC_NULL`, or wrap around if `wraps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// No peer.
    Nobody,
    /// The same rank for all.
    Fixed(u32),
    /// This number before the last rank, which is 0.
    FromEnd(u32),
    /// A shift by a number of ranks.
    Shift {
        /// The distance; negative for backwards.
        by: i64,
        /// True if the first follows the last.
        wraps: bool,
    },
    /// A neighbour in a grid.
    Neighbor {
        /// The grid.
        grid: Grid,
        /// The dimension.
        dimension: u8,
        /// The number of steps.
        by: i32,
        /// True if the first follows the last.
        wraps: bool,
    },
    /// A neighbour in a grid along several dimensions at once: across an edge or a corner.
    Offset {
        /// The grid.
        grid: Grid,
        /// Steps along each dimension.
        by: [i8; 4],
        /// True if the first follows the last.
        wraps: bool,
    },
    /// Two to the turn steps forward or backward along a dimension of a grid.
    DoublingAlong {
        /// The grid.
        grid: Grid,
        /// The dimension.
        dimension: u8,
        /// True for backward.
        back: bool,
        /// True if the first follows the last.
        wraps: bool,
    },
    /// A flipped bit of the position along a dimension of a grid: the bit of the turn, or half the length, then a quarter in the next turn.
    FlipAlong {
        /// The grid.
        grid: Grid,
        /// The dimension.
        dimension: u8,
        /// True to start with half the length.
        halves: bool,
    },
    /// Two to the turn ranks forward or backward.
    Doubling {
        /// True for backward.
        back: bool,
        /// True if the first follows the last.
        wraps: bool,
    },
    /// As many ranks forward or backward as the turn, plus a number.
    Stepping {
        /// True for backward.
        back: bool,
        /// The additional number.
        from: u32,
        /// True if the first follows the last.
        wraps: bool,
    },
    /// These bits flipped.
    Flip(u32),
    /// The bit of the turn flipped.
    FlipTurn,
    /// The bits of half the ranks flipped, in the next turn of a quarter.
    FlipHalves,
    /// The bits of the turn's number flipped, counted from this one.
    FlipStep(u32),
    /// Half of all ranks forward.
    Half,
    /// A share of all ranks forward or backward.
    Share {
        /// Number of parts of all ranks.
        parts: u32,
        /// True for backward.
        back: bool,
    },
    /// The bits of all ranks divided by two to this power flipped.
    FlipShare(u32),
    /// The other side of a square grid's diagonal; in two adjacent squares, by pairs of ranks.
    Transpose,
    /// The rank's position along a dimension of a grid.
    Coordinate {
        /// The grid.
        grid: Grid,
        /// The dimension.
        dimension: u8,
    },
    /// The rank's position in a grid without a dimension.
    Others {
        /// The grid.
        grid: Grid,
        /// The omitted dimension.
        dimension: u8,
    },
    /// The rank divided by a number.
    Quotient(u32),
    /// The remainder of the rank by a number.
    Remainder(u32),
    /// The first of this many consecutive ranks.
    Floor(u32),
    /// The first along a dimension of a grid, with the rank's position in all others.
    Along {
        /// The grid.
        grid: Grid,
        /// The dimension.
        dimension: u8,
    },
    /// The first of the rank's part, of this many equal parts of all.
    PartStart(u32),
    /// The rank's part.
    Part(u32),
    /// The parent in a tree with this many children each, counted level by level.
    Parent(u32),
    /// A child in such a tree.
    Child {
        /// The number of children of each.
        of: u32,
        /// The child, from 1.
        which: u32,
    },
    /// The turn, plus a number, modulo all ranks.
    Turn(u32),
    /// A number minus the turn, modulo all ranks.
    TurnBack(u32),
    /// The turn, plus a number, around all ranks except the first.
    TurnOfOthers(u32),
}

fn shifted(place: RelationArguments, by: i64, wraps: bool) -> Option<u32> {
    let to = i64::from(place.rank).checked_add(by)?;
    let ranks = i64::from(place.ranks);
    let to = if wraps {
        to.rem_euclid(ranks.max(1))
    } else {
        to
    };
    u32::try_from(to).ok().filter(|to| *to < place.ranks)
}

/// Returns this distance forward, or backward.
fn sign(back: bool, by: i64) -> i64 {
    if back { -by } else { by }
}

/// Returns half of the number, then a quarter in the next turn; after one it restarts with half, as in consecutive exchanges.
fn half(of: u32, turn: u32) -> u32 {
    of.checked_shr(turn % of.max(2).ilog2() + 1).unwrap_or(0)
}

fn within(place: RelationArguments, to: u32) -> Option<u32> {
    (to < place.ranks).then_some(to)
}

impl Relation {
    /// Returns the number there; `None` for no peer.
    pub fn at(&self, place: RelationArguments) -> Option<u32> {
        let RelationArguments { rank, ranks, turn } = place;
        match *self {
            Self::Nobody => None,
            Self::Fixed(rank) => Some(rank),
            Self::FromEnd(by) => ranks.checked_sub(by)?.checked_sub(1),
            Self::Shift { by, wraps } => shifted(place, by, wraps),
            Self::Neighbor { .. }
            | Self::Offset { .. }
            | Self::DoublingAlong { .. }
            | Self::FlipAlong { .. }
            | Self::Coordinate { .. }
            | Self::Others { .. }
            | Self::Along { .. } => self.in_grid(place),
            Self::Doubling { back, wraps } => {
                shifted(place, sign(back, 1_i64.checked_shl(turn.min(40))?), wraps)
            }
            Self::Stepping { back, from, wraps } => {
                shifted(place, sign(back, i64::from(turn) + i64::from(from)), wraps)
            }
            Self::Flip(bits) => within(place, rank ^ bits),
            Self::FlipTurn => within(place, rank ^ 1_u32.checked_shl(turn)?),
            Self::FlipHalves => within(place, rank ^ half(ranks, turn)),
            Self::FlipStep(from) => within(place, rank ^ turn.checked_add(from)?),
            Self::Half => shifted(place, i64::from(ranks / 2), true),
            Self::Share { parts, back } => {
                let by = i64::from(ranks.checked_div(parts)?);
                shifted(place, sign(back, by), true)
            }
            Self::FlipShare(by) => within(place, rank ^ ranks.checked_shr(by)?),
            Self::Transpose => transposed(rank, ranks),
            Self::Quotient(by) => rank.checked_div(by),
            Self::Remainder(by) => rank.checked_rem(by),
            Self::Floor(of) => Some(rank - rank.checked_rem(of)?),
            Self::PartStart(parts) => {
                let part = u64::from(Self::Part(parts).at(place)?);
                let ranks_before = part * u64::from(ranks);
                let first = (parts > 0).then(|| ranks_before.div_ceil(u64::from(parts)))?;
                u32::try_from(first).ok()
            }
            Self::Part(parts) => {
                let part = u64::from(rank) * u64::from(parts);
                part.checked_div(u64::from(ranks)).map(|part| part as u32)
            }
            Self::Parent(of) => rank.checked_sub(1)?.checked_div(of),
            Self::Child { of, which } => within(place, rank.checked_mul(of)?.checked_add(which)?),
            Self::Turn(from) => turn.checked_add(from)?.checked_rem(ranks),
            Self::TurnBack(from) => {
                let to = i64::from(from) - i64::from(turn);
                Some(to.rem_euclid(i64::from(ranks.max(1))) as u32)
            }
            Self::TurnOfOthers(from) => {
                let others = ranks.checked_sub(1)?;
                Some(1 + turn.checked_add(from)?.checked_rem(others)?)
            }
        }
    }

    /// Returns the number of a relation with a grid.
    fn in_grid(&self, place: RelationArguments) -> Option<u32> {
        let turn = place.turn;
        match *self {
            Self::Neighbor {
                grid,
                dimension,
                by,
                wraps,
            } => along(place, grid, dimension, |own| {
                shifted(own, i64::from(by), wraps)
            }),
            Self::Offset { grid, by, wraps } => {
                let (lengths, mut at) = grid.coordinates(place);
                for ((at, length), by) in at.iter_mut().zip(&lengths).zip(by) {
                    let along = RelationArguments {
                        rank: *at,
                        ranks: *length,
                        turn,
                    };
                    *at = shifted(along, i64::from(by), wraps)?;
                }
                Some(number(&at, &lengths))
            }
            Self::DoublingAlong {
                grid,
                dimension,
                back,
                wraps,
            } => along(place, grid, dimension, |own| {
                shifted(own, sign(back, 1_i64.checked_shl(turn.min(40))?), wraps)
            }),
            Self::FlipAlong {
                grid,
                dimension,
                halves,
            } => along(place, grid, dimension, |own| {
                let bits = match halves {
                    true => half(own.ranks, turn),
                    // After the last bit comes the first one again, as in consecutive exchanges.
                    false => 1_u32.checked_shl(turn % own.ranks.max(2).ilog2())?,
                };
                within(own, own.rank ^ bits)
            }),
            Self::Coordinate { grid, dimension } => grid
                .coordinates(place)
                .1
                .get(usize::from(dimension))
                .copied(),
            Self::Others { grid, dimension } => {
                let (lengths, at) = grid.coordinates(place);
                let others = lengths.iter().zip(&at).enumerate();
                let others = others.filter(|(index, _)| *index != usize::from(dimension));
                Some(others.fold(0, |sum, (_, (length, at))| sum * length + at))
            }
            Self::Along { grid, dimension } => {
                let (lengths, mut at) = grid.coordinates(place);
                *at.get_mut(usize::from(dimension))? = 0;
                Some(number(&at, &lengths))
            }
            _ => None,
        }
    }

    /// Returns the grid in which it is a neighbour.
    pub(crate) fn grid(&self) -> Option<Grid> {
        match *self {
            Self::Neighbor { grid, .. }
            | Self::Offset { grid, .. }
            | Self::DoublingAlong { grid, .. }
            | Self::FlipAlong { grid, .. } => Some(grid),
            _ => None,
        }
    }

    /// Returns the simplest relation that holds for all of these; `None` if no known one does.
    pub fn find(samples: &[(RelationArguments, Option<u32>)], prefer: Preference) -> Option<Self> {
        Self::holding(samples, prefer).next()
    }

    /// Returns relations that hold for all of these, the simplest first.
    fn holding(
        samples: &[(RelationArguments, Option<u32>)],
        prefer: Preference,
    ) -> impl Iterator<Item = Self> {
        let known = samples
            .iter()
            .filter_map(|(place, to)| Some((*place, (*to)?)));
        // The one with the most ranks: in small grids both directions coincide.
        let seed = known.reduce(|a, b| if b.0.ranks > a.0.ranks { b } else { a });
        let all = match seed {
            Some((place, to)) => candidates::candidates(place, to, prefer),
            None => vec![Self::Nobody],
        };
        let holds = |relation: &Self| samples.iter().all(|(place, to)| relation.at(*place) == *to);
        all.into_iter().filter(holds)
    }

    /// Returns another relation that holds for all of these and differs at a position with more ranks; `None` if the runs are unambiguous.
    pub(crate) fn rival(
        &self,
        samples: &[(RelationArguments, Option<u32>)],
        prefer: Preference,
    ) -> Option<Self> {
        let most = samples.iter().map(|(place, _)| place.ranks).max()?;
        let turns = samples.iter().map(|(place, _)| place.turn).max()?;
        let places = [most.saturating_mul(2), most.saturating_mul(4)].into_iter();
        let mut places = places.flat_map(|ranks| {
            (0..ranks.min(MOST_PROBES)).flat_map(move |rank| {
                (0..=turns.min(4)).map(move |turn| RelationArguments { rank, ranks, turn })
            })
        });
        let differs = |other: &Self| {
            places
                .clone()
                .any(|place| other.at(place) != self.at(place))
        };
        let found = Self::holding(samples, prefer).find(differs);
        places.next()?;
        found
    }
}

/// Most ranks at which relations are compared.
const MOST_PROBES: u32 = 64;

/// Relations that take precedence if the runs do not distinguish them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// True for neighbours in grids before shares of all ranks, for programs that create an MPI grid.
    pub grids: bool,
    /// The grid of other calls of the program.
    pub grid: Option<Grid>,
    /// True for backward before forward, for receives, which mirror sends.
    pub back: bool,
}

#[cfg(test)]
mod tests;
