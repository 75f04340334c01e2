//! Data caches, translation buffers and prefetchers of a processor, and the time of misses.
//!
//! The model is called for every line that is accessed, except for lines of the first level that were used since their
//! last mark was cleared: using such a line again changes nothing. Its state is a function of these accesses alone.
//! `exact` calls it for guests' accesses; `time` turns misses into ticks.

use crate::processor::{LineCost, MemoryParameters};

/// Levels of caches.
mod levels;
/// Prefetchers.
mod prefetch;
/// The state as it is saved.
mod saved;
/// Sets of lines or pages.
mod sets;
/// Paths that the cores of a node share.
mod shared;
/// The time of misses.
mod time;

pub use levels::SharedCaches;
pub use saved::SavedMemory;
pub use shared::{MovedLines, SHARED_PATHS};
pub use time::{MissMoment, MissTime, TimeSpent};

use levels::Level;
use prefetch::Prefetchers;
use sets::Sets;
use shared::SharedPaths;

/// Bytes of a line.
pub const LINE_BYTES: u64 = 64;

/// A line that an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAccess {
    /// Its linear address, which trains prefetchers.
    pub linear: u64,
    /// Its guest-physical address, which determines its places in caches.
    pub physical: u64,
    /// Bytes of the page of the guest's tables that contains it.
    pub page_bytes: u64,
    /// Address of the instruction that trains prefetchers; `None` for string instructions, which train none.
    pub site: Option<u64>,
}

impl LineAccess {
    fn line(&self) -> u64 {
        self.physical / LINE_BYTES
    }
}

/// The result of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineFound {
    /// Number of the level that had the line, from 0; the number of levels for memory. A line that a prefetcher
    /// expects is in the second level.
    pub level: usize,
    /// Cycles of the translation of its address, beyond a hit in the first buffer.
    pub translation: u32,
    /// Ticks for which the line and prefetched ones occupied the paths from farther levels and memory.
    pub moved: u64,
    /// Number of the line's place in the first level.
    pub place: usize,
    /// The places of the same set whose lines are no longer marked as used, as a mask of ways.
    pub cleared: u64,
}

/// The state of a processor's caches.
#[derive(Debug)]
pub struct DataMemory {
    parameters: MemoryParameters,
    /// The core's number in its node.
    core: u32,
    /// The first level.
    first: Sets,
    /// The levels after it.
    farther: Vec<Level>,
    translations: [Sets; 2],
    prefetchers: Prefetchers,
    shared: SharedPaths,
    /// The page that was translated last: translating it again changes nothing.
    last_page: Option<u64>,
    /// A digest of all misses of the first level.
    history: u64,
}

impl DataMemory {
    /// Empty caches of the only core of a node.
    pub fn new(parameters: &MemoryParameters) -> Self {
        Self::joined(parameters, &mut SharedCaches::default())
    }

    /// Empty caches of the next core of a node. All cores of the node must have the same parameters, and run one after
    /// another.
    pub fn joined(parameters: &MemoryParameters, shared: &mut SharedCaches) -> Self {
        let (core, farther) = shared.join(parameters);
        let buffers = &parameters.translations;
        let first = parameters.levels.first();
        Self {
            core,
            first: first.map_or_else(|| Sets::new(1, 1), Sets::of),
            farther,
            translations: [
                Sets::new(buffers.first, buffers.first),
                Sets::new(buffers.second, buffers.second_ways),
            ],
            prefetchers: Prefetchers::new(&parameters.prefetch, parameters.sample > 1),
            shared: SharedPaths::default(),
            parameters: parameters.clone(),
            last_page: None,
            history: 0,
        }
    }

    /// Number of places in the first level.
    pub fn first_places(&self) -> usize {
        self.first.places()
    }

    /// Number of the first place of the set that contains `place` of the first level.
    #[inline]
    pub fn first_of_set(&self, place: usize) -> usize {
        let ways = self.parameters.levels.first().map_or(1, |level| level.ways);
        place - place % ways as usize
    }

    /// True if the first level has the line at this guest-physical address. Changes nothing.
    pub fn is_near(&self, physical: u64) -> bool {
        self.first.find(physical / LINE_BYTES).is_some()
    }

    /// The place of the line at this guest-physical address, if the first level has it marked as used.
    pub fn used_place(&self, physical: u64) -> Option<usize> {
        self.first.find_used(physical / LINE_BYTES)
    }

    /// True if the page at this guest-physical address is modelled: all are, unless one of several is. Lines of other
    /// pages must not be accessed; they take no time.
    #[inline]
    pub fn models(&self, physical: u64) -> bool {
        let sample = self.parameters.sample;
        sample == 1
            || ((physical >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32)
                .is_multiple_of(sample.into())
    }

    /// Accesses a line.
    pub fn access(&mut self, access: &LineAccess) -> LineFound {
        let line = access.line();
        if let Some(place) = self.first.touch(line) {
            return LineFound {
                place,
                ..LineFound::default()
            };
        }
        let filled = self.first.insert(line);
        let farther = &mut self.farther;
        let found = farther
            .iter_mut()
            .position(|level| level.touch(line).is_some());
        let level = found.map_or(farther.len() + 1, |at| at + 1);
        for nearer in &mut farther[..level - 1] {
            nearer.insert(line);
        }
        let translation = self.translate(access);
        let (expected, moved) = self.prefetch(access, level);
        self.history = (self.history ^ line ^ (level as u64) << 56)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
        LineFound {
            level: if expected { 1 } else { level },
            translation: if expected { 0 } else { translation },
            moved,
            place: filled.place,
            cleared: filled.cleared,
        }
    }

    /// Cycles to translate the address.
    fn translate(&mut self, access: &LineAccess) -> u32 {
        let number = access.physical / access.page_bytes.max(1);
        // The size is apart from all numbers of pages below 1 TiB.
        let size = access.page_bytes.max(1).ilog2().saturating_sub(12) / 9;
        let page = number ^ u64::from(size) << 28;
        if self.last_page.replace(page) == Some(page) {
            return 0;
        }
        let [first, second] = &mut self.translations;
        if first.touch(page).is_some() {
            return 0;
        }
        first.insert(page);
        let buffers = &self.parameters.translations;
        if second.touch(page).is_some() {
            return buffers.latency;
        }
        second.insert(page);
        buffers.walk
    }

    /// Trains the prefetchers with a miss that `level` had. Returns true if the line was expected, and the ticks for
    /// which all moved lines occupied paths.
    fn prefetch(&mut self, access: &LineAccess, level: usize) -> (bool, u64) {
        let cost = self.shared.cost(level, self.parameters.cost_of(level));
        self.shared.count(level, self.parameters.sample);
        let Some(site) = access.site else {
            // The rate of string instructions includes the second level.
            return (false, if level > 1 { cost.line_ticks } else { 0 });
        };
        let wanted = self.prefetchers.train(access, site);
        let mut moved = match wanted.expected {
            true => cost.line_ticks,
            false => cost.miss_ticks,
        };
        for line in wanted.streamed() {
            moved += self.fetch(line).line_ticks;
        }
        for line in wanted.strided() {
            let cost = self.fetch(line);
            moved += (cost.line_ticks + cost.miss_ticks) / 2;
        }
        (wanted.expected, moved)
    }

    /// Prefetches a line into the second level; returns the cost of moving it there.
    fn fetch(&mut self, line: u64) -> LineCost {
        if !self.models(line * LINE_BYTES) {
            return LineCost::default();
        }
        let farther = &mut self.farther;
        let found = farther.iter().position(|level| level.holds(line));
        let level = found.unwrap_or(farther.len());
        if level == 0 {
            return LineCost::default();
        }
        for nearer in &mut farther[..level] {
            nearer.insert(line);
        }
        self.shared.count(level + 1, self.parameters.sample);
        self.shared
            .cost(level + 1, self.parameters.cost_of(level + 1))
    }

    /// The cycle at which the present span of shared paths began, and the lines moved over them since.
    pub fn moved_lines(&self) -> (u64, MovedLines) {
        (self.shared.since, self.shared.lines)
    }

    /// Begins the next span of shared paths at cycle `now`. `moved` has the lines that each of the node's cores moved in
    /// the last one.
    pub fn share_paths(&mut self, now: u64, moved: &[MovedLines]) {
        let total = shared::totals(&self.parameters, self.core, moved);
        self.shared.renew(&self.parameters, now, &total);
    }

    /// The most ticks that an access to a line can take at present.
    pub fn worst(&self) -> u64 {
        self.parameters.worst(self.shared.dearest())
    }

    /// A digest of all misses so far, and of the cost of shared paths.
    pub fn history(&self) -> u64 {
        self.history ^ self.shared.digest()
    }
}

#[cfg(test)]
mod tests;
