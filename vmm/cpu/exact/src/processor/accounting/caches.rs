//! Caches: set associative, true LRU, filled on reads and writes alike.
//!
//! A level is only accessed after misses in all earlier levels, and is filled then. Levels are
//! independent of each other, nothing is written back, and devices do not affect the caches.

use belljar_translate::prices::timing::{CacheModel, LINE_BYTES, TICKS_PER_CYCLE};

/// An invalid line number.
const EMPTY: u64 = u64::MAX;

/// A level: its sets in order, each with its lines from the most to the least recently used one.
struct LevelSets {
    lines: Box<[u64]>,
    ways: usize,
    set_mask: u64,
    latency: u32,
}

/// The place in which an access found its line, with its cost in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineLocation {
    /// In the first level.
    Nearest,
    /// In a level further from the processor.
    Cache(u32),
    /// In no level.
    Memory(u32),
}

impl LineLocation {
    pub(crate) fn cycles(self) -> u32 {
        match self {
            Self::Nearest => 0,
            Self::Cache(cycles) | Self::Memory(cycles) => cycles,
        }
    }
}

/// The line numbers in caches, level by level.
pub(crate) type Contents = Vec<Vec<u64>>;

/// A processor's data caches.
pub(crate) struct Caches {
    levels: Box<[LevelSets]>,
    memory: u32,
    /// Ticks of the most expensive access to a line.
    worst: i64,
}

impl Caches {
    /// The caches' contents.
    pub(crate) fn contents(&self) -> Contents {
        self.levels
            .iter()
            .map(|level| level.lines.to_vec())
            .collect()
    }

    /// Fills them with the contents of other caches of the same model; false if the model differs.
    pub(crate) fn fill(&mut self, contents: &Contents) -> bool {
        let fits = contents.len() == self.levels.len()
            && contents
                .iter()
                .zip(&self.levels)
                .all(|(from, to)| from.len() == to.lines.len());
        if fits {
            for (from, to) in contents.iter().zip(&mut self.levels) {
                to.lines.copy_from_slice(from);
            }
        }
        fits
    }

    /// Empty caches; `model` must be [checked](CacheModel::check).
    pub(crate) fn new(model: &CacheModel) -> Self {
        let level = |level: &belljar_translate::prices::timing::CacheLevel| LevelSets {
            lines: vec![EMPTY; (level.bytes / LINE_BYTES) as usize].into(),
            ways: level.ways as usize,
            set_mask: level.sets() - 1,
            latency: level.latency,
        };
        let latencies = model.levels.iter().map(|level| level.latency);
        let worst = latencies.chain([model.memory]).max().unwrap_or(0);
        Self {
            levels: model.levels.iter().map(level).collect(),
            memory: model.memory,
            worst: i64::from(worst) * i64::from(TICKS_PER_CYCLE),
        }
    }

    /// The highest cost of an access to a line, in ticks.
    pub(crate) fn worst(&self) -> i64 {
        self.worst
    }

    /// The place in which an access to line number `line` would find it. Changes nothing.
    pub(crate) fn probe(&self, line: u64) -> LineLocation {
        let found = self
            .levels
            .iter()
            .position(|level| level.set(line).contains(&line));
        self.found(found)
    }

    /// Accesses line number `line`; also returns the previously last used line of the first level's
    /// set, if it was another one.
    pub(crate) fn access(&mut self, line: u64) -> (LineLocation, Option<u64>) {
        let before = self.levels.first().map(|level| level.set(line)[0]);
        let found = self.levels.iter_mut().position(|level| level.touch(line));
        (
            self.found(found),
            before.filter(|&before| before != line && before != EMPTY),
        )
    }

    fn found(&self, level: Option<usize>) -> LineLocation {
        match level {
            Some(0) => LineLocation::Nearest,
            Some(level) => LineLocation::Cache(self.levels[level].latency),
            None => LineLocation::Memory(self.memory),
        }
    }
}

impl LevelSets {
    fn set(&self, line: u64) -> &[u64] {
        let start = (line & self.set_mask) as usize * self.ways;
        &self.lines[start..start + self.ways]
    }

    /// Makes `line` the last used one; returns true if it was present.
    fn touch(&mut self, line: u64) -> bool {
        let start = (line & self.set_mask) as usize * self.ways;
        let set = &mut self.lines[start..start + self.ways];
        // Each line moves down by one, up to the old position of `line`.
        let mut carried = line;
        for known in set {
            std::mem::swap(known, &mut carried);
            if carried == line {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_translate::prices::timing::CacheLevel;

    #[test]
    fn the_line_used_longest_ago_makes_room() {
        let level = |bytes, ways, latency| CacheLevel {
            bytes,
            ways,
            latency,
        };
        let mut caches = Caches::new(&CacheModel {
            levels: vec![level(256, 2, 0), level(1024, 4, 14)],
            memory: 200,
        });
        // Lines 0, 2, 4, ... share a set of the first level, 0, 4, 8, ... of the second.
        let mut go = |line| {
            let probed = caches.probe(line);
            let (found, before) = caches.access(line);
            assert_eq!(probed, found);
            (found, before)
        };
        assert_eq!(go(0), (LineLocation::Memory(200), None));
        assert_eq!(go(0), (LineLocation::Nearest, None));
        assert_eq!(go(2), (LineLocation::Memory(200), Some(0)));
        assert_eq!(go(0), (LineLocation::Nearest, Some(2)));
        assert_eq!(go(4), (LineLocation::Memory(200), Some(0)));
        assert_eq!(go(0), (LineLocation::Nearest, Some(4)));
        assert_eq!(go(2), (LineLocation::Cache(14), Some(0)));
        assert_eq!(go(4), (LineLocation::Cache(14), Some(2)));
        assert_eq!(go(1), (LineLocation::Memory(200), None));
    }
}
