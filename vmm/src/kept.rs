//! Checkpoint files of a node's RAM: each checkpoint writes only the pages changed since the last
//! one.
//!
//! Pages go into packs: files of whole pages, one after another, never changed once written. A
//! node's [`KeptPages`] has the location of each page that differs from the initial RAM (a
//! snapshot, for a clone, or zeros). A page's hash (XXH3, 64 bits) detects changes, and later
//! verifies the page. It need not withstand an adversary, who could only spoil the guest's own
//! memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use belljar_cpu::{GuestRam, PAGE_SIZE};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};

/// The host's table of pages private to this process.
mod pagemap;

pub use pagemap::PageMap;

const PAGE: usize = PAGE_SIZE as usize;
/// Pages that are looked up in the host's tables at once.
const STRETCH: usize = 4096;

/// The location of a page's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum PageLocation {
    /// Not stored: all bytes are zero.
    Zeros,
    /// In a pack, by its number and the page's index in it.
    Pack(u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    hash: u64,
    place: PageLocation,
}

/// Errors of restoring a node's RAM.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// A pack is missing.
    #[error("pack {0} of pages is missing")]
    NoPack(u32),
    /// A pack cannot be read, or is truncated.
    #[error("pack {pack} of pages cannot be read: {source}")]
    Read {
        /// Its number.
        pack: u32,
        /// The host's reason.
        source: io::Error,
    },
    /// A page's bytes differ from its hash.
    #[error("pack {0} of pages is damaged: a page has another checksum")]
    Damaged(u32),
    /// A page lies outside this RAM.
    #[error("page {0} lies outside of the node's memory")]
    Outside(u64),
}

/// The pages of a node's RAM that differ from its initial contents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPages {
    /// By page number, counted over all ranges of RAM.
    pages: BTreeMap<u64, Kept>,
}

impl KeptPages {
    /// Writes the pages of `ram` that changed since the last call to `pack`. With `map`, examines
    /// only pages that the host holds for this RAM alone; otherwise all pages.
    ///
    /// # Errors
    /// If the pack cannot be written. The recorded pages are unusable afterwards.
    pub fn update<W: Write>(
        &mut self,
        ram: &GuestRam,
        map: Option<&PageMap>,
        pack: &mut PackWriter<W>,
    ) -> io::Result<()> {
        let mut page = [0; PAGE];
        let mut own = Vec::new();
        let mut before = 0;
        for region in ram.iter() {
            let (start, pages) = (region.start_addr().0, region.len() / PAGE_SIZE);
            for first in (0..pages).step_by(STRETCH) {
                own.clear();
                own.resize((pages - first).min(STRETCH as u64) as usize, true);
                if let Some(map) = map {
                    map.look(region.as_ptr() as u64 + first * PAGE_SIZE, &mut own)?;
                    // The host counts pages with a second address as shared.
                    let bitmap = region.bitmap();
                    let beside = bitmap.region().beside();
                    for (number, own) in (first..).zip(&mut own) {
                        *own |= beside.address(number * PAGE_SIZE).is_some();
                    }
                }
                for (number, _) in (first..).zip(&own).filter(|(_, own)| **own) {
                    let at = GuestAddress(start + number * PAGE_SIZE);
                    // The page lies in the region, so that the read reaches every byte.
                    let _ = ram.read_slice(&mut page, at);
                    self.keep(before + number, &page, pack)?;
                }
            }
            before += pages;
        }
        Ok(())
    }

    fn keep<W: Write>(
        &mut self,
        number: u64,
        page: &[u8; PAGE],
        pack: &mut PackWriter<W>,
    ) -> io::Result<()> {
        let hash = XxHash3_64::oneshot(page);
        let known = self.pages.get(&number);
        if known.is_some_and(|known| known.hash == hash) {
            return Ok(());
        }
        let place = if page.iter().all(|byte| *byte == 0) {
            PageLocation::Zeros
        } else {
            pack.add(page)?
        };
        self.pages.insert(number, Kept { hash, place });
        Ok(())
    }

    /// Writes the pages into `ram`, which must have its initial contents.
    ///
    /// # Errors
    /// See [`KeptError`].
    pub fn restore(&self, ram: &GuestRam, packs: &Packs) -> Result<(), KeptError> {
        let mut ranges = ram.iter().map(|region| {
            let (start, pages) = (region.start_addr().0, region.len() / PAGE_SIZE);
            (start, pages)
        });
        let (mut start, mut end, mut first) = (0, 0, 0);
        let mut page = [0; PAGE];
        for (&number, kept) in &self.pages {
            while number >= end {
                let (next, pages) = ranges.next().ok_or(KeptError::Outside(number))?;
                (start, first, end) = (next, end, end + pages);
            }
            packs.read(kept, &mut page)?;
            let at = GuestAddress(start + (number - first) * PAGE_SIZE);
            ram.write_slice(&page, at)
                .map_err(|_| KeptError::Outside(number))?;
        }
        Ok(())
    }

    /// Reads every page and compares it with its hash.
    ///
    /// # Errors
    /// See [`KeptError`].
    pub fn verify(&self, packs: &Packs) -> Result<(), KeptError> {
        let mut page = [0; PAGE];
        let mut kept = self.pages.values();
        kept.try_for_each(|kept| packs.read(kept, &mut page))
    }

    /// Adds the number of pages in each pack.
    pub fn count(&self, by_pack: &mut BTreeMap<u32, u64>) {
        for kept in self.pages.values() {
            if let PageLocation::Pack(pack, _) = kept.place {
                *by_pack.entry(pack).or_default() += 1;
            }
        }
    }
}

/// A pack being written.
#[derive(Debug)]
pub struct PackWriter<W: Write = File> {
    number: u32,
    pages: u32,
    file: BufWriter<W>,
}

impl<W: Write> PackWriter<W> {
    /// Writes pack `number` to `file`, which is empty.
    pub fn new(number: u32, file: W) -> Self {
        Self {
            number,
            pages: 0,
            file: BufWriter::with_capacity(1 << 20, file),
        }
    }

    fn add(&mut self, page: &[u8; PAGE]) -> io::Result<PageLocation> {
        let place = PageLocation::Pack(self.number, self.pages);
        let full = || io::Error::from(io::ErrorKind::FileTooLarge);
        self.pages = self.pages.checked_add(1).ok_or_else(full)?;
        self.file.write_all(page)?;
        Ok(place)
    }

    /// Number of pages written.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Flushes the pack and returns the file.
    ///
    /// # Errors
    /// If the host cannot write the rest.
    pub fn finish(self) -> io::Result<W> {
        self.file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
    }
}

/// Packs for reading, by number.
#[derive(Debug, Default)]
pub struct Packs(BTreeMap<u32, File>);

impl Packs {
    /// Adds a pack.
    pub fn add(&mut self, number: u32, file: File) {
        self.0.insert(number, file);
    }

    /// Removes all packs but those in `used`.
    pub fn retain(&mut self, used: &BTreeMap<u32, u64>) {
        self.0.retain(|pack, _| used.contains_key(pack));
    }

    /// The numbers of all packs.
    pub fn numbers(&self) -> BTreeSet<u32> {
        self.0.keys().copied().collect()
    }

    fn read(&self, kept: &Kept, page: &mut [u8; PAGE]) -> Result<(), KeptError> {
        let PageLocation::Pack(pack, index) = kept.place else {
            page.fill(0);
            return Ok(());
        };
        let file = self.0.get(&pack).ok_or(KeptError::NoPack(pack))?;
        let read = file.read_exact_at(page, u64::from(index) * PAGE_SIZE);
        read.map_err(|source| KeptError::Read { pack, source })?;
        if XxHash3_64::oneshot(page) != kept.hash {
            return Err(KeptError::Damaged(pack));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
