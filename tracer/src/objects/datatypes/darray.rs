//! A process's share of a distributed grid (`MPI_Type_create_darray`).
//!
//! The share is the product of the shares in the dimensions, over processes in row-major order (MPI-4.0, 5.1.4). Guest data is
//! untrusted: numbers saturate, and lists of runs are limited. Used by `datatypes` for sizes and blocks.

use belljar_trace::{Implementation, standard_abi};

use super::sizes::counts;
use crate::decode::arguments::Arguments;

/// The distribution of a dimension of a grid over processes.
enum Distribution {
    Block,
    Cyclic,
    None,
}

impl Distribution {
    fn of(implementation: Implementation, number: i64) -> Self {
        let [block, cyclic] = match implementation {
            Implementation::Mpich => [121, 122],
            Implementation::OpenMpi => [0, 1],
            Implementation::StandardAbi(_) => [17, 18],
        };
        match number {
            _ if number == block => Self::Block,
            _ if number == cyclic => Self::Cyclic,
            _ => Self::None,
        }
    }
}

/// A process's share in one dimension: blocks of consecutive indices at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DimensionShare {
    /// Indices of the dimension.
    size: u64,
    /// The first index of the first block.
    start: u64,
    /// Most indices in a block.
    block: u64,
    /// Distance between the first indices of blocks.
    round: u64,
}

impl DimensionShare {
    fn elements(self) -> u64 {
        let rounds = self.size / self.round;
        let rest = self.size % self.round;
        let last = self.block.min(rest.saturating_sub(self.start));
        let whole = self.block.min(self.round - self.start.min(self.round));
        rounds.saturating_mul(whole).saturating_add(last)
    }

    /// Returns the runs of indices, each with its first index and its length; `None` if there are more than `most`.
    fn runs(self, most: usize) -> Option<Vec<(u64, u64)>> {
        let mut runs = Vec::new();
        let mut first = self.start;
        while first < self.size {
            if runs.len() >= most {
                return None;
            }
            runs.push((first, self.block.min(self.size - first)));
            first = first.saturating_add(self.round);
        }
        runs.retain(|(_, length)| *length > 0);
        Some(runs)
    }
}

/// A process's share of a distributed grid, by its dimensions in the order of the arguments.
pub(super) struct DistributedGrid {
    shares: Vec<DimensionShare>,
}

impl DistributedGrid {
    /// Reads the arguments; `None` if they cannot be read.
    pub(super) fn of(arguments: &mut Arguments<'_>) -> Option<Self> {
        let sizes = counts(arguments, "array_of_gsizes", "ndims")?;
        let processes = counts(arguments, "array_of_psizes", "ndims")?;
        let dimensions = sizes.len() as u64;
        let distributions = arguments.integers("array_of_distribs", dimensions)?;
        let chunks = arguments.integers("array_of_dargs", dimensions)?;
        // Negative in both MPICH and Open MPI.
        let default = match arguments.implementation {
            Implementation::StandardAbi(_) => standard_abi::DISTRIBUTE_DEFAULT,
            Implementation::Mpich | Implementation::OpenMpi => -1,
        };
        let mut rank = arguments.count("rank")?;
        let rows = sizes
            .iter()
            .zip(&processes)
            .zip(distributions.iter().zip(&chunks));
        // The last dimension's coordinate changes fastest with the rank.
        let shares = rows
            .rev()
            .map(|((&size, &processes), (&distribution, &chunk))| {
                let processes = processes.max(1);
                let position = rank % processes;
                rank /= processes;
                let chunk = u64::try_from(chunk).ok().filter(|_| chunk != default);
                let (block, round) = match Distribution::of(arguments.implementation, distribution)
                {
                    // A process has one block.
                    Distribution::Block => {
                        let block = chunk.unwrap_or(size.div_ceil(processes));
                        (block, u64::MAX)
                    }
                    Distribution::Cyclic => {
                        let block = chunk.unwrap_or(1).max(1);
                        (block, processes.saturating_mul(block))
                    }
                    Distribution::None => (size, u64::MAX),
                };
                let start = match Distribution::of(arguments.implementation, distribution) {
                    Distribution::None => 0,
                    _ => position.saturating_mul(block),
                };
                DimensionShare {
                    size,
                    start,
                    block,
                    round,
                }
            });
        let mut shares: Vec<DimensionShare> = shares.collect();
        shares.reverse();
        Some(Self { shares })
    }

    /// Returns the number of elements.
    pub(super) fn elements(&self) -> u64 {
        let shares = self.shares.iter().map(|share| share.elements());
        shares.fold(1, u64::saturating_mul)
    }

    /// Returns runs of adjacent elements in memory, each with the index of its first element in the grid and its length, in the
    /// order of memory. The last dimension is contiguous, or the first one in Fortran's order. `None` if there are more than `most`.
    pub(super) fn runs(mut self, is_fortran: bool, most: usize) -> Option<Vec<(u64, u64)>> {
        if is_fortran {
            self.shares.reverse();
        }
        let mut all = vec![(0_u64, 1_u64)];
        for share in &self.shares {
            let own = share.runs(most)?;
            if own.is_empty() {
                return Some(Vec::new());
            }
            let mut next: Vec<(u64, u64)> = Vec::new();
            for (first, length) in all {
                for index in first..first.checked_add(length)? {
                    if next.len() > most {
                        return None;
                    }
                    let start = index.checked_mul(share.size)?;
                    for (at, length) in &own {
                        next.push((start.checked_add(*at)?, *length));
                    }
                }
            }
            all = next;
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indices of a share, by dealing out blocks one after another.
    fn dealt(size: u64, processes: u64, position: u64, block: u64) -> Vec<u64> {
        let owner = |index: u64| index / block % processes;
        (0..size)
            .filter(|index| owner(*index) == position)
            .collect()
    }

    #[test]
    fn cyclic_shares_are_those_of_blocks_that_are_dealt_out() {
        for size in 0..20 {
            for processes in 1..5 {
                for block in 1..5 {
                    for position in 0..processes {
                        let share = DimensionShare {
                            size,
                            start: position * block,
                            block,
                            round: processes * block,
                        };
                        let expected = dealt(size, processes, position, block);
                        assert_eq!(share.elements(), expected.len() as u64, "{share:?}");
                        let runs = share.runs(100).unwrap();
                        let indices = runs.iter().flat_map(|(at, length)| *at..at + length);
                        assert_eq!(indices.collect::<Vec<u64>>(), expected, "{share:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn runs_of_a_grid_are_in_the_order_of_memory() {
        let grid = || DistributedGrid {
            shares: vec![
                DimensionShare {
                    size: 4,
                    start: 1,
                    block: 1,
                    round: 2,
                },
                DimensionShare {
                    size: 6,
                    start: 2,
                    block: 3,
                    round: u64::MAX,
                },
            ],
        };
        assert_eq!(grid().elements(), 6);
        assert_eq!(grid().runs(false, 100), Some(vec![(8, 3), (20, 3)]));
        // In Fortran's order, rows 1 and 3 of columns 2 to 4.
        let columns = vec![(9, 1), (11, 1), (13, 1), (15, 1), (17, 1), (19, 1)];
        assert_eq!(grid().runs(true, 100), Some(columns));
        assert_eq!(grid().runs(true, 3), None);
    }

    #[test]
    fn hostile_shares_have_limited_runs() {
        let share = DimensionShare {
            size: u64::MAX,
            start: 0,
            block: u64::MAX,
            round: u64::MAX,
        };
        let grid = DistributedGrid {
            shares: vec![share; 8],
        };
        assert_eq!(grid.elements(), u64::MAX);
        assert_eq!(grid.runs(false, 10), None);
    }
}
