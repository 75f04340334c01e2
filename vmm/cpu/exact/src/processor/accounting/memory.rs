//! Caches and memory of a processor model, with the lines that translated code may access directly.
//!
//! A line is in the tables of translated code only while the first level has it marked as used: another use then
//! changes nothing. For each place of the first level, the model knows the entries that its line has, so that they are
//! cleared with the mark. `memory::misses` calls this.

use belljar_cpu::PAGE_SIZE;
use belljar_pipeline::memory::{
    DataMemory, LINE_BYTES, LineAccess, LineFound, MissMoment, MissTime, MovedLines, SavedMemory,
    SharedCaches, TimeSpent,
};
use belljar_pipeline::processor::MemoryParameters;
use belljar_translate::context::{LineFilter, WideLines};
use serde::{Deserialize, Serialize};

/// The tables of translated code: by privilege level, then for reads and for writes.
type Tables = [[WideLines; 2]; 2];
const TABLES: usize = 4;

/// The state of a vCPU's caches and memory as it is saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedMisses {
    memory: SavedMemory,
    time: MissTime,
    spent: TimeSpent,
}

/// Ticks as they are compared with a budget.
fn bounded(ticks: u64) -> i64 {
    ticks.min(i64::MAX as u64 / 4) as i64
}

/// A vCPU's caches and memory.
pub(crate) struct MemoryModel {
    parameters: MemoryParameters,
    memory: DataMemory,
    time: MissTime,
    /// Ticks that misses took so far.
    pub spent: TimeSpent,
    /// The most ticks that an access to a line takes.
    worst: i64,
    /// For each place of the first level and each table, the index of the line's entry plus one.
    entries: Box<[[u16; TABLES]]>,
    /// For each table, the places of pages that are not modelled and whose lines it has, as a mask.
    pages: [[u64; WORDS]; TABLES],
}

/// Lines of a page, and pages of a table.
const PAGE_LINES: usize = 64;
const WORDS: usize = LineFilter::Wide.entries() / PAGE_LINES / 64;

impl MemoryModel {
    /// The model of the next core of a node.
    pub(crate) fn new(parameters: &MemoryParameters, shared: &mut SharedCaches) -> Self {
        let memory = DataMemory::joined(parameters, shared);
        Self {
            time: MissTime::default(),
            spent: TimeSpent::default(),
            worst: bounded(memory.worst()),
            entries: vec![[0; TABLES]; memory.first_places()].into(),
            pages: [[0; WORDS]; TABLES],
            parameters: parameters.clone(),
            memory,
        }
    }

    /// The most ticks that an access to any line takes.
    #[inline]
    pub(crate) fn worst(&self) -> i64 {
        self.worst
    }

    /// True if the page at this guest-physical address is modelled.
    #[inline]
    pub(crate) fn models(&self, physical: u64) -> bool {
        self.memory.models(physical)
    }

    /// The most ticks that an access to the line at this guest-physical address takes. Changes nothing.
    pub(crate) fn most(&self, physical: u64) -> i64 {
        match !self.models(physical) || self.memory.is_near(physical) {
            true => 0,
            false => self.worst,
        }
    }

    /// The place of a line that the first level has marked as used.
    pub(crate) fn place(&self, physical: u64) -> Option<usize> {
        self.models(physical)
            .then(|| self.memory.used_place(physical))?
    }

    /// Accesses a line, and clears the entries of lines that are no longer marked. Returns the line's place, and the
    /// ticks that it takes.
    pub(crate) fn access(
        &mut self,
        access: &LineAccess,
        moment: &MissMoment,
        tables: &mut Tables,
    ) -> (usize, u64) {
        let found = self.memory.access(access);
        self.clear(&found, tables);
        let spent = self.time.spend(&self.parameters, &found, moment);
        self.spent += spent;
        (found.place, spent.total())
    }

    fn clear(&mut self, found: &LineFound, tables: &mut Tables) {
        let first = self.memory.first_of_set(found.place);
        let mut left = found.cleared;
        while left != 0 {
            let place = first + left.trailing_zeros() as usize;
            left &= left - 1;
            let Some(entries) = self.entries.get_mut(place) else {
                continue;
            };
            for (table, entry) in tables.as_flattened_mut().iter_mut().zip(entries) {
                if let Some(index) = std::mem::take(entry).checked_sub(1) {
                    table.forget(index.into());
                }
            }
        }
    }

    /// Lets translated code access the line at `linear`, at host address `host`, which is in `place` of the first
    /// level.
    pub(crate) fn show(
        &mut self,
        place: usize,
        linear: u64,
        host: u64,
        user: bool,
        write: bool,
        tables: &mut Tables,
    ) {
        let number = usize::from(user) * 2 + usize::from(write);
        let Some(entry) = self.entries.get_mut(place).map(|each| &mut each[number]) else {
            return;
        };
        let table = &mut tables.as_flattened_mut()[number];
        let index = LineFilter::Wide.index(linear);
        let known = std::mem::replace(entry, index as u16 + 1);
        if known != 0 && usize::from(known) != index + 1 {
            table.forget(usize::from(known) - 1);
        }
        table.fill(linear, host);
    }

    /// Lets translated code access all lines of the page at `linear`, which is not modelled, at host address `host`.
    pub(crate) fn show_page(
        &mut self,
        linear: u64,
        host: u64,
        user: bool,
        write: bool,
        tables: &mut Tables,
    ) {
        let number = usize::from(user) * 2 + usize::from(write);
        let table = &mut tables.as_flattened_mut()[number];
        let start = linear & !(PAGE_SIZE - 1);
        let page = LineFilter::Wide.index(start) / PAGE_LINES;
        self.pages[number][page / 64] |= 1 << (page % 64);
        for line in 0..PAGE_LINES as u64 {
            table.fill(start + line * LINE_BYTES, host + line * LINE_BYTES);
        }
    }

    /// Clears all entries.
    pub(crate) fn hide_all(&mut self, tables: &mut Tables) {
        for (table, pages) in tables.as_flattened_mut().iter_mut().zip(&mut self.pages) {
            for (word, left) in pages.iter_mut().enumerate() {
                while *left != 0 {
                    let page = word * 64 + left.trailing_zeros() as usize;
                    *left &= *left - 1;
                    let first = page * PAGE_LINES;
                    (first..first + PAGE_LINES).for_each(|index| table.forget(index));
                }
            }
        }
        for each in &mut self.entries {
            for (table, entry) in tables.as_flattened_mut().iter_mut().zip(each) {
                if let Some(index) = std::mem::take(entry).checked_sub(1) {
                    table.forget(index.into());
                }
            }
        }
    }

    /// The cycle since which lines on shared paths are counted, and their numbers.
    pub(crate) fn moved_lines(&self) -> (u64, MovedLines) {
        self.memory.moved_lines()
    }

    /// Begins the next span of shared paths at cycle `now`. `moved` has the lines that each of the node's cores moved in
    /// the last one.
    pub(crate) fn share_paths(&mut self, now: u64, moved: &[MovedLines]) {
        self.memory.share_paths(now, moved);
        self.worst = bounded(self.memory.worst());
    }

    pub(crate) fn saved(&self) -> SavedMisses {
        SavedMisses {
            memory: self.memory.saved(),
            time: self.time,
            spent: self.spent,
        }
    }

    /// Loads a saved state, after all entries were cleared; false if it is for another processor.
    #[must_use]
    pub(crate) fn load(&mut self, saved: &SavedMisses) -> bool {
        self.time = saved.time;
        self.spent = saved.spent;
        let fits = self.memory.load(&saved.memory);
        self.worst = bounded(self.memory.worst());
        fits
    }

    /// Words that determine later times, for comparisons of states.
    pub(crate) fn words(&self) -> [u64; 3] {
        let [window, bus] = self.time.words();
        [self.memory.history(), window, bus]
    }
}
