//! Numbers as functions of a rank: peers, roots, colours.
//!
//! What a program computes from its rank is found among the relations that programs have: fixed ranks, shifts around a ring, neighbours in grids and hypercubes, steps of
//! doubling distance, transposes, trees. A relation is only taken where it holds for all that was seen, of all sizes. Called by models of runs.

/// Relations that a sample may be of.
mod candidates;
/// Grids of ranks.
mod grid;
/// Relations in words.
mod words;

use serde::{Deserialize, Serialize};

pub use grid::Grid;
use grid::{along, number, transposed};

/// Where a number is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The rank in the communicator.
    pub rank: u32,
    /// How many there are.
    pub ranks: u32,
    /// Which turn of the innermost loop it is.
    pub turn: u32,
}

/// A number as a function of a rank. Those that end up outside are of nobody (`MPI_PROC_NULL`), or go round where they wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Nobody.
    Nobody,
    /// The same for all.
    Fixed(u32),
    /// So many before the last, which is 0.
    FromEnd(u32),
    /// So many ranks on.
    Shift {
        /// How many; back if below zero.
        by: i64,
        /// Whether the first is after the last.
        wraps: bool,
    },
    /// A neighbour in a grid.
    Neighbor {
        /// The grid.
        grid: Grid,
        /// Along which dimension.
        dimension: u8,
        /// How many steps.
        by: i32,
        /// Whether the first is after the last.
        wraps: bool,
    },
    /// A neighbour in a grid along several dimensions at once: across an edge or a corner.
    Offset {
        /// The grid.
        grid: Grid,
        /// Steps along each dimension.
        by: [i8; 4],
        /// Whether the first is after the last.
        wraps: bool,
    },
    /// Two to the turn steps on or back along a dimension of a grid.
    DoublingAlong {
        /// The grid.
        grid: Grid,
        /// Along which dimension.
        dimension: u8,
        /// Back.
        back: bool,
        /// Whether the first is after the last.
        wraps: bool,
    },
    /// Another bit of the place along a dimension of a grid: the bit of the turn, or half the length, in the next turn a quarter.
    FlipAlong {
        /// The grid.
        grid: Grid,
        /// Along which dimension.
        dimension: u8,
        /// From half the length down.
        halves: bool,
    },
    /// Two to the turn ranks on or back.
    Doubling {
        /// Back.
        back: bool,
        /// Whether the first is after the last.
        wraps: bool,
    },
    /// As many ranks on or back as the turn says, and so many more.
    Stepping {
        /// Back.
        back: bool,
        /// More.
        from: u32,
        /// Whether the first is after the last.
        wraps: bool,
    },
    /// The bits that differ.
    Flip(u32),
    /// The bit of the turn differs.
    FlipTurn,
    /// The bits of half the ranks differ, in the next turn of a quarter.
    FlipHalves,
    /// The bits of the turn's number differ, counted from this one.
    FlipStep(u32),
    /// Half of all ranks on.
    Half,
    /// A share of all ranks on or back: one of so many parts.
    Share {
        /// Number of parts of all ranks.
        parts: u32,
        /// Back.
        back: bool,
    },
    /// The bits of all ranks divided by two to this power differ.
    FlipShare(u32),
    /// The other side of a square grid's diagonal; in two squares side by side, by pairs of ranks.
    Transpose,
    /// The rank's place along a dimension of a grid.
    Coordinate {
        /// The grid.
        grid: Grid,
        /// Which dimension.
        dimension: u8,
    },
    /// The rank's place in a grid without a dimension.
    Others {
        /// The grid.
        grid: Grid,
        /// Which dimension is left out.
        dimension: u8,
    },
    /// The rank divided by a number.
    Quotient(u32),
    /// What remains of that.
    Remainder(u32),
    /// The first of so many that follow one another.
    Floor(u32),
    /// The first along a dimension of a grid, in all others where the rank is.
    Along {
        /// The grid.
        grid: Grid,
        /// Which dimension.
        dimension: u8,
    },
    /// The first of the part in which the rank is, of so many equal parts of all.
    PartStart(u32),
    /// That part.
    Part(u32),
    /// Above in a tree with so many children each, counted level by level.
    Parent(u32),
    /// A child there.
    Child {
        /// How many children each has.
        of: u32,
        /// Which, from 1.
        which: u32,
    },
    /// The turn, and so many more, modulo all ranks.
    Turn(u32),
    /// So many less the turn, modulo all ranks.
    TurnBack(u32),
    /// The turn, and so many more, around all ranks but the first.
    TurnOfOthers(u32),
}

fn shifted(place: Place, by: i64, wraps: bool) -> Option<u32> {
    let to = i64::from(place.rank).checked_add(by)?;
    let ranks = i64::from(place.ranks);
    let to = if wraps {
        to.rem_euclid(ranks.max(1))
    } else {
        to
    };
    u32::try_from(to).ok().filter(|to| *to < place.ranks)
}

/// So many on, or back.
fn sign(back: bool, by: i64) -> i64 {
    if back { -by } else { by }
}

/// Half of so many, in the next turn a quarter; after one comes half again, as where exchanges follow one another.
fn half(of: u32, turn: u32) -> u32 {
    of.checked_shr(turn % of.max(2).ilog2() + 1).unwrap_or(0)
}

fn within(place: Place, to: u32) -> Option<u32> {
    (to < place.ranks).then_some(to)
}

impl Relation {
    /// The number there; `None` for nobody.
    pub fn at(&self, place: Place) -> Option<u32> {
        let Place { rank, ranks, turn } = place;
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

    /// The number of a relation that has a grid.
    fn in_grid(&self, place: Place) -> Option<u32> {
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
                    let along = Place {
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
                    // After the last bit comes the first one again: exchanges that follow one another.
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

    /// The grid in which it is a neighbour.
    pub(crate) fn grid(&self) -> Option<Grid> {
        match *self {
            Self::Neighbor { grid, .. }
            | Self::Offset { grid, .. }
            | Self::DoublingAlong { grid, .. }
            | Self::FlipAlong { grid, .. } => Some(grid),
            _ => None,
        }
    }

    /// The simplest relation that holds for all of these; `None` if no known one does.
    pub fn find(samples: &[(Place, Option<u32>)], prefer: Preference) -> Option<Self> {
        Self::holding(samples, prefer).next()
    }

    /// Relations that hold for all of these, the simplest first.
    fn holding(samples: &[(Place, Option<u32>)], prefer: Preference) -> impl Iterator<Item = Self> {
        let known = samples
            .iter()
            .filter_map(|(place, to)| Some((*place, (*to)?)));
        // Of the most ranks: in small grids both directions are one.
        let seed = known.reduce(|a, b| if b.0.ranks > a.0.ranks { b } else { a });
        let all = match seed {
            Some((place, to)) => candidates::candidates(place, to, prefer),
            None => vec![Self::Nobody],
        };
        let holds = |relation: &Self| samples.iter().all(|(place, to)| relation.at(*place) == *to);
        all.into_iter().filter(holds)
    }

    /// Another relation that holds for all of these and differs at a place of more ranks; `None` where the runs tell.
    pub(crate) fn rival(
        &self,
        samples: &[(Place, Option<u32>)],
        prefer: Preference,
    ) -> Option<Self> {
        let most = samples.iter().map(|(place, _)| place.ranks).max()?;
        let turns = samples.iter().map(|(place, _)| place.turn).max()?;
        let places = [most.saturating_mul(2), most.saturating_mul(4)].into_iter();
        let mut places = places.flat_map(|ranks| {
            (0..ranks.min(MOST_PROBES)).flat_map(move |rank| {
                (0..=turns.min(4)).map(move |turn| Place { rank, ranks, turn })
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

/// Ranks at which relations are compared, at most.
const MOST_PROBES: u32 = 64;

/// Relations that come first where the runs do not tell them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// Neighbours in grids before shares of all ranks: for programs that ask MPI for a grid.
    pub grids: bool,
    /// The grid that other calls of the program have.
    pub grid: Option<Grid>,
    /// Back before on, for receives: they mirror sends.
    pub back: bool,
}

#[cfg(test)]
mod tests;
