//! Cache lines that translated code may access without the model of caches.
//!
//! A table holds the lines of one privilege level for reading or for writing, each at an index that follows from its
//! linear address. The engine fills and clears entries; `emit/access` emits the lookup. An entry whose tag can never
//! match is empty.

use belljar_cpu::PAGE_SIZE;

use crate::prices::timing::LINE_BYTES;

/// Entries of a narrow table: the places of lines in a page.
const NARROW: usize = (PAGE_SIZE / LINE_BYTES) as usize;
/// Entries of a wide table.
const WIDE: usize = 16384;

/// The tables that code checks lines in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFilter {
    /// An entry for each place in a page.
    Narrow,
    /// More entries than any first level has lines.
    Wide,
}

impl LineFilter {
    /// Number of entries of a table; a power of two.
    pub const fn entries(self) -> usize {
        match self {
            Self::Narrow => NARROW,
            Self::Wide => WIDE,
        }
    }

    /// The index of the line that contains `address`.
    #[inline]
    pub fn index(self, address: u64) -> usize {
        (address / LINE_BYTES) as usize % self.entries()
    }
}

/// A table of lines.
#[repr(C)]
pub struct Lines<const ENTRIES: usize> {
    /// Linear address of the line, or one that can never match.
    pub tag: [u64; ENTRIES],
    /// Its host address.
    pub host: [u64; ENTRIES],
}

/// The narrow and the wide tables' type.
pub type NarrowLines = Lines<NARROW>;
/// See [`NarrowLines`].
pub type WideLines = Lines<WIDE>;

impl<const ENTRIES: usize> Lines<ENTRIES> {
    /// Makes a table of zeros empty: only lines at the ends of the address space could match.
    pub(super) fn begin(&mut self) {
        self.forget(0);
        self.forget(ENTRIES - 1);
    }

    /// Adds the line at `linear`, at host address `host`.
    #[inline]
    pub fn fill(&mut self, linear: u64, host: u64) {
        let index = (linear / LINE_BYTES) as usize % ENTRIES;
        self.tag[index] = linear & !(LINE_BYTES - 1);
        self.host[index] = host;
    }

    /// Discards the line with this index. The new tag is two lines away, so an access that runs
    /// into the next line does not match either.
    #[inline]
    pub fn forget(&mut self, index: usize) {
        self.tag[index] = (index ^ 2) as u64 * LINE_BYTES;
    }

    /// Discards the lines of the page at linear address `page`.
    pub fn forget_page(&mut self, page: u64) {
        let first = (page / LINE_BYTES) as usize % ENTRIES;
        for index in first..first + NARROW {
            if self.tag[index] & !(PAGE_SIZE - 1) == page {
                self.forget(index);
            }
        }
    }

    /// Discards every line.
    pub fn flush(&mut self) {
        (0..ENTRIES).for_each(|index| self.forget(index));
    }
}
