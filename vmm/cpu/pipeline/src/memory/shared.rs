//! Paths from farther caches and memory that the cores of a node share.
//!
//! Each core counts the lines that it moves over each path. At the end of a span of virtual time, all cores get the
//! counts, and a line costs more in the next span if the lines of the last one did not fit on the path. The
//! cost is the same for all cores of a path, so cores that move few lines hardly wait. Cores that share a level share
//! its path; all cores of a node share the others. `DataMemory` counts; the owner of the cores passes the counts on.

use serde::{Deserialize, Serialize};

use crate::TICKS_PER_CYCLE;
use crate::processor::{LineCost, MemoryParameters};

/// The nearest level whose path is shared: the third one.
const FIRST: usize = 2;
/// Number of paths: from two further levels, and from memory.
pub const SHARED_PATHS: usize = 3;
/// The highest cost of a line, in ticks.
const MOST_TICKS: u64 = 1_000_000;

/// Lines that were moved over each path, from the third level on; the one after the last level is memory's.
pub type MovedLines = [u64; SHARED_PATHS];

/// Lines that were moved over the paths of core number `core`, by all cores that share them. `moved` has each core's.
pub(super) fn totals(parameters: &MemoryParameters, core: u32, moved: &[MovedLines]) -> MovedLines {
    let mut totals = MovedLines::default();
    for (path, total) in totals.iter_mut().enumerate() {
        let level = parameters.levels.get(FIRST + path);
        let group = level
            .and_then(|level| level.cores)
            .unwrap_or(u32::MAX)
            .max(1);
        let of_group = moved.iter().zip(0_u32..);
        let of_group = of_group.filter(|(_, other)| other / group == core / group);
        *total = of_group
            .map(|(lines, _)| lines[path])
            .fold(0, u64::saturating_add);
    }
    totals
}

/// A core's use of shared paths, and the cost of lines on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SharedPaths {
    /// Cycle at which the span began.
    pub(super) since: u64,
    /// Lines since then.
    pub(super) lines: MovedLines,
    /// Ticks of a line for each path, if they are more than the core's own.
    ticks: MovedLines,
}

impl SharedPaths {
    /// Counts `lines` lines from `level`.
    #[inline]
    pub(super) fn count(&mut self, level: usize, lines: u32) {
        let path = level.checked_sub(FIRST);
        if let Some(counted) = path.and_then(|path| self.lines.get_mut(path)) {
            *counted += u64::from(lines);
        }
    }

    /// The cost of a line from `level`, which the core alone has for `own`.
    #[inline]
    pub(super) fn cost(&self, level: usize, own: LineCost) -> LineCost {
        let path = level.checked_sub(FIRST);
        let least = path.and_then(|path| self.ticks.get(path)).copied();
        let least = least.unwrap_or(0);
        LineCost {
            line_ticks: own.line_ticks.max(least),
            miss_ticks: own.miss_ticks.max(least),
            ..own
        }
    }

    /// Begins the next span at cycle `now`, after one in which `total` lines were moved over its paths.
    pub(super) fn renew(&mut self, parameters: &MemoryParameters, now: u64, total: &MovedLines) {
        let span = now.saturating_sub(self.since);
        if span == 0 {
            return;
        }
        for (path, ticks) in self.ticks.iter_mut().enumerate() {
            let own = parameters.cost_of(FIRST + path);
            let busy = u128::from(total[path]) * u128::from(own.shared_ticks);
            let before = u128::from((*ticks).max(own.line_ticks));
            let after = before * busy / (u128::from(span) * u128::from(TICKS_PER_CYCLE));
            let after = u64::try_from(after).map_or(MOST_TICKS, |after| after.min(MOST_TICKS));
            *ticks = if after > own.line_ticks { after } else { 0 };
        }
        (self.since, self.lines) = (now, MovedLines::default());
    }

    /// The highest cost of a line at present, in ticks.
    pub(super) fn dearest(&self) -> u64 {
        self.ticks.iter().copied().max().unwrap_or(0)
    }

    /// A word that changes with later costs.
    pub(super) fn digest(&self) -> u64 {
        let words = self.ticks.iter().chain(&self.lines).chain([&self.since]);
        words.fold(0, |digest, word| {
            (digest ^ word)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::Processor;

    /// Two cores share a third level and its path. All cores share the path of memory.
    #[test]
    fn cores_of_a_shared_level_share_its_path() {
        let mut parameters = Processor::built_in("zen5").unwrap().caches;
        parameters.levels[2].cores = Some(2);
        parameters.levels[3].cores = None;
        let moved = [[1, 10, 100], [2, 20, 200], [4, 40, 400], [8, 80, 800]];
        let of = |core| totals(&parameters, core, &moved);
        assert_eq!(of(0), [3, 150, 1500]);
        assert_eq!(of(1), of(0));
        assert_eq!(of(2), [12, 150, 1500]);
    }
}
