//! Numbers as functions of a rank: peers, roots, colours.
//!
//! What a program computes from its rank is found among the relations that programs have: fixed ranks, shifts around a ring, neighbours in grids and hypercubes, steps of
//! doubling distance, transposes, trees. A relation is only taken where it holds for all that was seen, of all sizes. Called by models of runs.

use serde::{Deserialize, Serialize};

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

/// A grid of all ranks, rows first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// How many dimensions it has: 2 to 4.
    pub dimensions: u8,
    /// Whether later dimensions are the longer ones; else those of `MPI_Dims_create`.
    pub ascending: bool,
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
    /// The other side of a square grid's diagonal.
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
}

/// Numbers of ranks by the dimensions of a grid, none of which is longer than the one before: those of `MPI_Dims_create`, as equal as possible.
pub(crate) fn dimensions(ranks: u32, count: u8) -> Vec<u32> {
    fn best(left: u32, count: u8, most: u32) -> Option<Vec<u32>> {
        if count <= 1 {
            return (left <= most).then(|| vec![left]);
        }
        // From the smallest first dimension on: it is at least the root.
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
    /// Its dimensions for so many ranks.
    pub fn of(self, ranks: u32) -> Vec<u32> {
        let mut all = dimensions(ranks, self.dimensions);
        if self.ascending {
            all.reverse();
        }
        all
    }

    fn coordinates(self, place: Place) -> (Vec<u32>, Vec<u32>) {
        let lengths = self.of(place.ranks);
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

/// The rank at these coordinates of a grid.
fn number(at: &[u32], lengths: &[u32]) -> u32 {
    let both = at.iter().zip(lengths);
    both.fold(0, |sum, (at, length)| sum * length + at)
}

fn within(place: Place, to: u32) -> Option<u32> {
    (to < place.ranks).then_some(to)
}

impl Relation {
    /// The number there; `None` for nobody.
    pub fn at(&self, place: Place) -> Option<u32> {
        let Place { rank, ranks, turn } = place;
        let sign = |back: bool, by: i64| if back { -by } else { by };
        match *self {
            Self::Nobody => None,
            Self::Fixed(rank) => Some(rank),
            Self::FromEnd(by) => ranks.checked_sub(by)?.checked_sub(1),
            Self::Shift { by, wraps } => shifted(place, by, wraps),
            Self::Neighbor {
                grid,
                dimension,
                by,
                wraps,
            } => {
                let (lengths, mut at) = grid.coordinates(place);
                let dimension = usize::from(dimension);
                let along = Place {
                    rank: *at.get(dimension)?,
                    ranks: lengths[dimension],
                    turn,
                };
                at[dimension] = shifted(along, i64::from(by), wraps)?;
                Some(number(&at, &lengths))
            }
            Self::Doubling { back, wraps } => {
                shifted(place, sign(back, 1_i64.checked_shl(turn.min(40))?), wraps)
            }
            Self::Stepping { back, from, wraps } => {
                shifted(place, sign(back, i64::from(turn) + i64::from(from)), wraps)
            }
            Self::Flip(bits) => within(place, rank ^ bits),
            Self::FlipTurn => within(place, rank ^ 1_u32.checked_shl(turn)?),
            Self::FlipHalves => within(place, rank ^ ranks.checked_shr(turn + 1)?),
            Self::FlipStep(from) => within(place, rank ^ turn.checked_add(from)?),
            Self::Half => shifted(place, i64::from(ranks / 2), true),
            Self::Transpose => {
                let side = ranks.isqrt();
                let square = side.checked_mul(side) == Some(ranks);
                square.then(|| rank % side * side + rank / side)
            }
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
            Self::Quotient(by) => rank.checked_div(by),
            Self::Remainder(by) => rank.checked_rem(by),
            Self::Floor(of) => Some(rank - rank.checked_rem(of)?),
            Self::Along { grid, dimension } => {
                let (lengths, mut at) = grid.coordinates(place);
                *at.get_mut(usize::from(dimension))? = 0;
                Some(number(&at, &lengths))
            }
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
        }
    }

    /// The simplest relation that holds for all of these; `None` if no known one does.
    pub fn find(samples: &[(Place, Option<u32>)]) -> Option<Self> {
        let Some((place, Some(first))) = samples.iter().find(|(_, to)| to.is_some()) else {
            return Some(Self::Nobody);
        };
        let holds = |relation: &Self| samples.iter().all(|(place, to)| relation.at(*place) == *to);
        candidates(*place, *first).into_iter().find(holds)
    }
}

/// Relations that give `to` at a place or might, the simplest first.
fn candidates(place: Place, to: u32) -> Vec<Relation> {
    let by = i64::from(to) - i64::from(place.rank);
    let ranks = i64::from(place.ranks);
    let ways = [false, true];
    let mut all = vec![Relation::Fixed(to)];
    all.extend((place.ranks.checked_sub(to + 1)).map(Relation::FromEnd));
    let turned = if by > 0 { by - ranks } else { by + ranks };
    for by in [by, turned] {
        all.extend(ways.map(|wraps| Relation::Shift { by, wraps }));
    }
    all.push(Relation::Transpose);
    let grids = ways.into_iter().flat_map(|ascending| {
        (2..=4).map(move |dimensions| Grid {
            dimensions,
            ascending,
        })
    });
    let grids: Vec<Grid> = grids.collect();
    for grid in &grids {
        for dimension in 0..grid.dimensions {
            for by in [-1, 1, -2, 2] {
                all.extend(ways.map(|wraps| Relation::Neighbor {
                    grid: *grid,
                    dimension,
                    by,
                    wraps,
                }));
            }
        }
    }
    all.extend([
        Relation::Flip(place.rank ^ to),
        Relation::FlipTurn,
        Relation::FlipHalves,
    ]);
    for wraps in ways {
        all.extend(ways.map(|back| Relation::Doubling { back, wraps }));
        for from in 0..3 {
            all.extend(ways.map(|back| Relation::Stepping { back, from, wraps }));
        }
    }
    all.extend((0..2).map(Relation::FlipStep));
    all.push(Relation::Half);
    for grid in &grids {
        for dimension in 0..grid.dimensions {
            let grid = *grid;
            all.push(Relation::Coordinate { grid, dimension });
            all.push(Relation::Others { grid, dimension });
        }
    }
    all.extend((2..=64).map(Relation::Quotient));
    all.extend((2..=64).map(Relation::Remainder));
    for of in 1..=4 {
        all.push(Relation::Parent(of));
        all.extend((1..=of).map(|which| Relation::Child { of, which }));
    }
    all.extend((0..2).map(Relation::Turn));
    for grid in &grids {
        let along = |dimension| Relation::Along {
            grid: *grid,
            dimension,
        };
        all.extend((0..grid.dimensions).map(along));
    }
    for of in 2..=64 {
        all.extend([
            Relation::Floor(of),
            Relation::PartStart(of),
            Relation::Part(of),
        ]);
    }
    all
}

#[cfg(test)]
mod tests;
