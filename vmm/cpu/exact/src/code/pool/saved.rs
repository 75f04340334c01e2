//! A pool as bytes, and as the pool that they describe.
//!
//! Translated code is position-independent, so it is saved as it is; host addresses in tables are saved as
//! offsets from the beginning of the code memory. Blocks and exit stubs stay in their saved form until they
//! are needed (`restored`). A pool is only made from bytes that `seal` has
//! authenticated and whose identity is the pool's; numbers in them are checked nevertheless. Called by
//! `pool` when the first vCPU joins, and at the end of a run.
//!
//! ```text
//! lengths of the following three (8 each)  code  bytes of pages  records of blocks  tables
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use belljar_cpu::PAGE_SIZE;
use belljar_translate::guest::mode::Mode;
use belljar_translate::host::cache::CELL_BYTES;
use belljar_translate::host::exit_stub::{BlockId, POOLED};

use super::Pool;
use super::restored::RestoredBlocks;

/// Blocks with their exit stubs in their saved form.
mod record;
/// Exit stubs in their saved form.
mod stubs;
/// The tables of a saved pool.
mod tables;
#[cfg(test)]
mod tests;

pub(super) use record::{Limits, SavedRecord};
pub(super) use stubs::SavedPages;
pub(super) use tables::SavedLine;
use tables::{SavedLink, SavedPage, SavedTables};

/// Errors of a saved pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedCodeError {
    /// The bytes are not those that were written with this key.
    #[error("it is damaged, or was not written by this user on this machine")]
    Seal,
    /// They belong to another build, host, processor or time model.
    #[error("it is of another build, host processor, guest processor or time model")]
    Identity,
    /// A table has an impossible value.
    #[error("its {0} are impossible")]
    Table(&'static str),
    /// Too little room would be left.
    #[error("it is larger than its limit, a quarter of the code that nodes share")]
    Full,
}

/// The most memory that tables take when they are decoded.
const MOST_BYTES: usize = 512 << 20;

pub(super) type Codec = bincode::Encoding<MOST_BYTES>;

/// A pool.
pub(super) struct SavedPool {
    bytes: Vec<u8>,
    code: Range<usize>,
    contents: Range<usize>,
    records: Range<usize>,
    tables: SavedTables,
}

/// Host addresses of a pool's code memory, and of its first cell.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) start: u64,
    pub(super) first_cell: u64,
}

impl Places {
    /// The offset of host address `at` in the code memory.
    fn offset(self, at: u64) -> u32 {
        (at - self.start) as u32
    }

    /// The number of the cell at host address `at`.
    fn cell(self, at: u64) -> u32 {
        ((at - self.first_cell) / CELL_BYTES as u64) as u32
    }

    /// Host address of the byte at `offset`.
    fn at(self, offset: u32) -> u64 {
        self.start + u64::from(offset)
    }

    /// Host address of cell `number`.
    fn at_cell(self, number: u32) -> u64 {
        self.first_cell + u64::from(number) * CELL_BYTES as u64
    }
}

/// Appends the record of block `id` of `pool` to `records`; returns the number of its exit stubs. `None` as
/// for [`SavedPool::append`].
fn append_record(
    pool: &Pool,
    id: BlockId,
    places: Places,
    pages: SavedPages<'_>,
    records: &mut Vec<u8>,
) -> Option<u32> {
    if let Some((record, stubs)) = pool.restored.record(id) {
        records.extend_from_slice(record);
        return Some(stubs);
    }
    let record = SavedRecord::of(pool, id, places, pages)?;
    Codec::encode(&record, records).ok()?;
    Some(record.stubs.len() as u32)
}

/// Refuses a table unless `holds`.
fn check(holds: bool, table: &'static str) -> Result<(), SavedCodeError> {
    holds.then_some(()).ok_or(SavedCodeError::Table(table))
}

impl SavedPool {
    /// Appends the state of `pool` to `into`. `None` if an instruction cannot be decoded from its page, or
    /// if a later run would not use it.
    pub(super) fn append(pool: &Pool, into: &mut Vec<u8>) -> Option<()> {
        let writer = pool.writer();
        let places = Places {
            start: pool.range.start,
            first_cell: writer.memory.cell(0),
        };
        let (mut contents, mut pages) = (Vec::new(), Vec::new());
        let mut added = BTreeMap::new();
        for (page, place) in pool.contents.each() {
            pages.push(SavedPage::add(page, place, &mut contents, &mut added));
        }
        let known = SavedPages {
            pages: &pages,
            contents: contents.as_chunks().0,
            features: &writer.features,
        };
        let (mut lines, mut records) = (Vec::new(), Vec::new());
        for id in 0..pool.block_count() as BlockId {
            let before = records.len();
            let stubs = append_record(pool, id, places, known, &mut records)?;
            let mut line = SavedLine::of(&pool.index.indexed(id)?, pool.mode_of(id), places);
            (line.record, line.stubs) = ((records.len() - before) as u32, stubs);
            lines.push(line);
        }
        let cells = (0..writer.cells).map(|number| writer.memory.word(writer.memory.cell(number)));
        let links = writer.each_link();
        let tables = SavedTables {
            cells: cells.map(|target| places.offset(target)).collect(),
            features: writer.features.clone(),
            scattered: writer.scattered.iter().copied().collect(),
            links: links
                .map(|(to, jump)| SavedLink::of(to, jump, places))
                .collect(),
            heats: pool.heats(),
            slots: pool.slots(),
            pages,
            lines,
        };
        let code = writer.memory.bytes();
        if !tables.fits(code.len(), writer.memory.limit()) {
            return None;
        }
        for part in [&code, &contents, &records] {
            into.extend_from_slice(&(part.len() as u64).to_le_bytes());
        }
        for part in [&code, &contents, &records] {
            into.extend_from_slice(part);
        }
        Codec::encode(&tables, into).ok()?;
        Some(())
    }

    /// The pool in `bytes` from `start` on, whose seal was verified.
    ///
    /// # Errors
    /// [`SavedCodeError::Table`] if they are no pool.
    pub(super) fn decode(bytes: Vec<u8>, start: usize) -> Result<Self, SavedCodeError> {
        let encoding = SavedCodeError::Table("encoding");
        let rest = bytes.get(start..).ok_or(encoding)?;
        let (lengths, _) = rest.split_first_chunk::<24>().ok_or(encoding)?;
        let mut at = start + lengths.len();
        let mut next = |length: &[u8; 8]| {
            let length = usize::try_from(u64::from_le_bytes(*length)).ok();
            let end = at.checked_add(length?)?;
            let range = (end <= bytes.len()).then_some(at..end);
            at = end;
            range
        };
        let [code, contents, records] = lengths.as_chunks::<8>().0 else {
            return Err(encoding);
        };
        let [code, contents, records] = [next(code), next(contents), next(records)];
        let (Some(code), Some(contents), Some(records)) = (code, contents, records) else {
            return Err(encoding);
        };
        let decoded = Codec::decode::<SavedTables>(&bytes[records.end..]);
        let (tables, _) = decoded.map_err(|_| encoding)?;
        Ok(Self {
            bytes,
            code,
            contents,
            records,
            tables,
        })
    }

    /// The bytes of the code.
    fn code(&self) -> &[u8] {
        &self.bytes[self.code.clone()]
    }

    /// The pages from which instructions are decoded.
    pub(super) fn pages(&self) -> SavedPages<'_> {
        SavedPages {
            pages: &self.tables.pages,
            contents: self.bytes[self.contents.clone()].as_chunks().0,
            features: &self.tables.features,
        }
    }

    /// The lines of its blocks.
    pub(super) fn lines(&self) -> &[SavedLine] {
        &self.tables.lines
    }

    /// The bytes of the records of its blocks.
    pub(super) fn records(&self) -> &[u8] {
        &self.bytes[self.records.clone()]
    }

    /// The limits of numbers in records.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            code: self.code.len(),
            cells: self.tables.cells.len(),
            pages: self.tables.pages.len(),
            features: self.tables.features.len(),
            heats: self.tables.heats,
            slots: self.tables.slots,
        }
    }

    /// Fills `pool`, which has no blocks.
    ///
    /// # Errors
    /// [`SavedCodeError`] if a value is impossible; the pool must then not be used.
    pub(super) fn fill(mut self, pool: &mut Pool) -> Result<(), SavedCodeError> {
        self.check_tables(pool)?;
        let mut writer = pool.writer();
        let places = Places {
            start: pool.range.start,
            first_cell: writer.memory.cell(0),
        };
        let placed = writer.memory.used();
        let code = self.code();
        check(
            code.len() >= placed && code[..placed] == writer.memory.bytes()[..],
            "shared parts of the code",
        )?;
        writer.memory.place(&code[placed..]);
        let tables = &self.tables;
        for (number, &target) in tables.cells.iter().enumerate() {
            let cell = writer.memory.cell(number);
            writer.memory.set_cell(cell, places.at(target));
        }
        writer.cells = tables.cells.len();
        writer.features.clone_from(&tables.features);
        writer.scattered = tables.scattered.iter().copied().collect();
        let pages = self.pages();
        for page in pages.pages {
            let bytes = &pages.contents[page.content as usize];
            pool.contents.restore(bytes, page.place);
        }
        for (id, line) in (POOLED..).zip(&tables.lines) {
            pool.index.restore(id, line.indexed(places));
        }
        let links = std::mem::take(&mut self.tables.links).into_iter();
        let links = links.map(|link| (link.to, link.jump(places)));
        writer.restore_links(links.collect());
        pool.heats.store(self.tables.heats, Ordering::Release);
        pool.slots.store(self.tables.slots, Ordering::Release);
        drop(writer);
        pool.restored = RestoredBlocks::new(self, places);
        Ok(())
    }

    fn check_tables(&self, pool: &Pool) -> Result<(), SavedCodeError> {
        let tables = &self.tables;
        let room = pool.writer().memory.limit();
        if !tables.fits(self.code.len(), room) {
            return Err(SavedCodeError::Full);
        }
        let in_code = |at: u32| (at as usize) < self.code.len();
        let cells = tables.cells.iter().all(|&cell| in_code(cell));
        check(cells, "jump targets")?;
        let contents = self.contents.len() / PAGE_SIZE as usize;
        let pages = &mut tables.pages.iter();
        let pages = pages.all(|page| (page.content as usize) < contents);
        check(
            pages && self.contents.len().is_multiple_of(PAGE_SIZE as usize),
            "pages",
        )?;
        check(tables.features.len() <= Mode::FEATURE_SETS, "features")?;
        check(tables.lines.len() < POOLED as usize, "blocks")?;
        let (mut records, mut stubs) = (0, 0);
        for pair in tables.lines.windows(2) {
            check(pair[0].indirect_entry <= pair[1].indirect_entry, "blocks")?;
        }
        for line in &tables.lines {
            let page = line.address / PAGE_SIZE;
            let possible = in_code(line.entry)
                && in_code(line.indirect_entry)
                && page < tables.pages.len() as u64;
            check(possible, "blocks")?;
            records += line.record as usize;
            stubs += line.stubs as usize;
        }
        // Each exit stub has several bytes of code.
        check(
            records == self.records.len() && stubs <= self.code.len(),
            "blocks",
        )?;
        let links = tables.links.iter().all(|link| {
            let is_block =
                link.to & POOLED != 0 && ((link.to & !POOLED) as usize) < tables.lines.len();
            is_block && (link.cell as usize) < tables.cells.len() && in_code(link.stub)
        });
        check(links, "links")
    }
}
