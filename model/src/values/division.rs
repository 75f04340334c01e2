//! Values that depend on the division of data among the ranks of a grid.
//!
//! Programs divide a number of points along dimensions of a grid, and the first ranks have one more if the division is uneven. Values then depend on lengths of
//! dimensions, which are not powers of the number of ranks, and on a rank's position. Such a value is a unit times a few factors, plus an offset. A division is only
//! accepted if it reproduces each sample exactly. Used by `values`.

/// Divisions that explain samples.
mod search;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::relation::{Grid, RelationArguments};

pub(super) use search::find;

/// Most factors.
pub(super) const MOST_FACTORS: usize = 4;

/// A factor of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Factor {
    /// The length of a dimension.
    Length(u8),
    /// One over the length of a dimension.
    PerLength(u8),
    /// The length of a dimension minus one.
    Gaps(u8),
    /// The number of doublings from one to the length of a dimension.
    Doublings(u8),
    /// A rank's part of all points along a dimension, plus a number.
    Part {
        /// The dimension.
        dimension: u8,
        /// The number added to the part.
        more: i8,
        /// The rounding of the part.
        rounding: Rounding,
    },
}

/// A part of points that cannot be divided evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// One more for the first ranks.
    First,
    /// The smallest part for all.
    Down,
    /// The largest part for all.
    Up,
}

/// A value as a unit times factors, plus an offset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Division {
    /// The grid of the ranks; one dimension contains all of them.
    pub grid: Grid,
    /// The factors.
    pub factors: Vec<Factor>,
    /// Points along each dimension, by the size of the problem.
    pub points: Vec<(f64, u32)>,
    /// The value where all factors are one, without the offset.
    pub unit: f64,
    /// A summand.
    pub offset: f64,
    /// True if the runs do not distinguish it from another division.
    pub unsure: bool,
}

/// Lengths of a grid's dimensions and a rank's position along each.
pub(super) type Lie = Vec<(u32, u32)>;

impl Factor {
    /// Returns its value; `None` for a dimension that the grid lacks.
    pub(super) fn at(self, lie: &[(u32, u32)], points: u32) -> Option<f64> {
        let of = |dimension: u8| lie.get(usize::from(dimension)).copied();
        Some(match self {
            Self::Length(dimension) => f64::from(of(dimension)?.0),
            Self::PerLength(dimension) => 1.0 / f64::from(of(dimension)?.0.max(1)),
            Self::Gaps(dimension) => f64::from(of(dimension)?.0.saturating_sub(1)),
            Self::Doublings(dimension) => f64::from(of(dimension)?.0.max(1)).log2(),
            Self::Part {
                dimension,
                more,
                rounding,
            } => {
                let (length, at) = of(dimension)?;
                let (whole, rest) = (points / length.max(1), points % length.max(1));
                let one = match rounding {
                    Rounding::First => at < rest,
                    Rounding::Down => false,
                    Rounding::Up => rest > 0,
                };
                f64::from(whole) + f64::from(u8::from(one)) + f64::from(more)
            }
        })
    }

    fn dimension(self) -> u8 {
        match self {
            Self::Length(dimension)
            | Self::PerLength(dimension)
            | Self::Gaps(dimension)
            | Self::Doublings(dimension)
            | Self::Part { dimension, .. } => dimension,
        }
    }
}

impl Division {
    /// Returns the value of a rank, not negative.
    pub(crate) fn at(&self, place: RelationArguments, size: f64) -> f64 {
        self.value(&self.grid.lie(place), self.points_of(size))
    }

    fn value(&self, lie: &[(u32, u32)], points: u32) -> f64 {
        let factors = self.factors.iter();
        let product = factors.fold(1.0, |product, it| {
            product * it.at(lie, points).unwrap_or(0.0)
        });
        (self.unit * product + self.offset).max(0.0)
    }

    /// Returns the points for this size, or for the nearest known one.
    fn points_of(&self, size: f64) -> u32 {
        let far = |it: &&(f64, u32)| (it.0 - size).abs();
        let mut all = self.points.iter();
        let first = all.next();
        let nearest = all.fold(first, |best, it| match best {
            Some(best) if far(&best) <= far(&it) => Some(best),
            _ => Some(it),
        });
        nearest.map_or(0, |it| it.1)
    }

    /// True if it depends on the size, and no run has this one.
    pub(crate) fn lacks(&self, size: f64) -> bool {
        !self.points.is_empty() && self.points.iter().all(|it| it.0 != size)
    }

    /// True for dimensions that its grid has.
    pub(crate) fn is_sound(&self) -> bool {
        let numbers = self.unit.is_finite() && self.offset.is_finite();
        let of = |it: &Factor| it.dimension() < self.grid.dimensions;
        let grid = (1..=4).contains(&self.grid.dimensions);
        grid && numbers && self.factors.len() <= MOST_FACTORS && self.factors.iter().all(of)
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(dimension) => write!(to, "length {dimension}"),
            Self::PerLength(dimension) => write!(to, "1 / length {dimension}"),
            Self::Gaps(dimension) => write!(to, "(length {dimension} - 1)"),
            Self::Doublings(dimension) => write!(to, "log2(length {dimension})"),
            Self::Part {
                dimension,
                more: 0,
                rounding: _,
            } => write!(to, "part {dimension}"),
            Self::Part {
                dimension, more, ..
            } => write!(to, "(part {dimension} + {more})"),
        }
    }
}

impl fmt::Display for Division {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.unit)?;
        for factor in &self.factors {
            write!(to, " * {factor}")?;
        }
        if self.offset != 0.0 {
            write!(to, " + {}", self.offset)?;
        }
        if let [(_, points)] = self.points.as_slice() {
            write!(to, ", {points} points")?;
        }
        match self.grid.dimensions {
            1 => write!(to, " over all ranks"),
            more => write!(to, " over a grid of {more} dimensions"),
        }
    }
}
