//! Assignment of ranks to classes.
//!
//! Programs treat ranks differently by their position: the first, the last, odd ones, those at borders of grids. The first of these distinctions is selected by which
//! all ranks of a kind do the same; a rank of an unseen kind has no class. Used by `learn` and `generate`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::relation::Grid;

/// The property that distinguishes ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// No property.
    All,
    /// Being the first.
    First,
    /// Being the first or the last.
    Ends,
    /// Being odd.
    Parity,
    /// Both parity and ends.
    ParityAndEnds,
    /// Being at the beginning, in the middle or at the end of each dimension of a grid.
    Borders(Grid),
    /// The same, and being the first.
    BordersAndFirst(Grid),
    /// Being in the first half.
    Half,
    /// Being the first of this many consecutive ranks.
    Multiple(u32),
    /// The exponent of two in it: for trees of doubling distance.
    Level,
    /// The rank itself.
    Rank,
}

/// The class of each kind of rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    /// The property that distinguishes kinds.
    pub role: Role,
    /// Classes by kind.
    classes: BTreeMap<u64, usize>,
}

impl Role {
    /// Returns the kind of a rank.
    pub(crate) fn kind(self, rank: u32, ranks: u32) -> u64 {
        let first = u64::from(rank == 0);
        let ends = first | u64::from(rank + 1 == ranks) << 1;
        let odd = u64::from(rank % 2);
        match self {
            Self::All => 0,
            Self::First => first,
            Self::Ends => ends,
            Self::Parity => odd,
            Self::ParityAndEnds => odd << 2 | ends,
            Self::Borders(grid) => borders(grid, rank, ranks),
            Self::BordersAndFirst(grid) => borders(grid, rank, ranks) << 1 | first,
            Self::Half => u64::from(u64::from(rank) * 2 >= u64::from(ranks)),
            Self::Multiple(of) => u64::from(rank.checked_rem(of) == Some(0)),
            Self::Level => match rank {
                0 => u64::MAX,
                rank => u64::from(rank.trailing_zeros()),
            },
            Self::Rank => u64::from(rank),
        }
    }

    /// Returns the grid whose borders distinguish ranks.
    pub(crate) fn grid(self) -> Option<Grid> {
        match self {
            Self::Borders(grid) | Self::BordersAndFirst(grid) => Some(grid),
            _ => None,
        }
    }

    /// Returns all properties, the simplest first.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![
            Self::All,
            Self::First,
            Self::Ends,
            Self::Parity,
            Self::ParityAndEnds,
            Self::Half,
        ];
        all.extend((3..=16).map(Self::Multiple));
        for with_first in [false, true] {
            for ascending in [false, true] {
                all.extend((2..=4).map(|dimensions| {
                    let grid = Grid {
                        dimensions,
                        ascending,
                    };
                    match with_first {
                        true => Self::BordersAndFirst(grid),
                        false => Self::Borders(grid),
                    }
                }));
            }
        }
        all.extend([Self::Level, Self::Rank]);
        all
    }
}

/// Returns for each dimension whether the rank is at its beginning or at its end.
fn borders(grid: Grid, rank: u32, ranks: u32) -> u64 {
    let lengths = grid.lengths(ranks);
    let mut left = rank;
    let mut kind = 0;
    for length in lengths.iter().rev() {
        let at = left % length;
        left /= length;
        kind = kind << 2 | u64::from(at == 0) | u64::from(at + 1 == *length) << 1;
    }
    kind
}

impl Roles {
    /// Creates it from the class of each kind.
    pub(crate) fn new(role: Role, classes: BTreeMap<u64, usize>) -> Self {
        Self { role, classes }
    }

    /// Returns the class of a rank; `None` for an unseen kind of rank.
    pub fn class(&self, rank: u32, ranks: u32) -> Option<usize> {
        self.classes.get(&self.role.kind(rank, ranks)).copied()
    }

    /// Returns each kind's class.
    pub fn kinds(&self) -> impl Iterator<Item = (u64, usize)> {
        self.classes.iter().map(|(kind, class)| (*kind, *class))
    }

    /// Returns all classes that it names.
    pub(crate) fn classes(&self) -> impl Iterator<Item = usize> {
        self.classes.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the simplest role by which ranks of one kind have one class.
    fn found(of: impl Fn(u32, u32) -> usize) -> Role {
        let tells = |role: &Role| {
            let mut classes = BTreeMap::new();
            [9_u32, 16].into_iter().all(|ranks| {
                (0..ranks).all(|rank| {
                    let class = of(rank, ranks);
                    *classes.entry(role.kind(rank, ranks)).or_insert(class) == class
                })
            })
        };
        Role::all().into_iter().find(tells).unwrap()
    }

    #[test]
    fn kinds_of_ranks_are_told_apart_by_the_simplest_role() {
        assert_eq!(found(|_, _| 0), Role::All);
        assert_eq!(found(|rank, _| usize::from(rank > 0)), Role::First);
        let ends = |rank, ranks| usize::from(rank == 0) + 2 * usize::from(rank + 1 == ranks);
        assert_eq!(found(ends), Role::Ends);
        assert_eq!(found(|rank, _| (rank % 2) as usize), Role::Parity);
        let grid = |rank: u32, ranks: u32| {
            let side = ranks.isqrt();
            let at = |it: u32| usize::from(it == 0) + 2 * usize::from(it + 1 == side);
            4 * at(rank / side) + at(rank % side)
        };
        let role = found(grid);
        assert!(matches!(role, Role::Borders(_)), "{role:?}");
        assert_eq!(role.kind(9, 64), role.kind(18, 64));
        assert_eq!(role.kind(63, 64), role.kind(15, 16));
        assert_ne!(role.kind(63, 64), role.kind(62, 64));
    }
}
