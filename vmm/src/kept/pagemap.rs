//! The host's table of pages private to this process.
//!
//! A page not listed as private was not written since it was mapped, unless it is shared. If the
//! host denies access to the table, `kept` compares all pages instead. A run opens it once for its
//! checkpoints.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use belljar_cpu::PAGE_SIZE;

/// Bits of an entry: in memory; in swap; of a file or shared. See
/// Documentation/admin-guide/mm/pagemap.rst of the Linux kernel.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;

/// The host's table of this process's pages.
#[derive(Debug)]
pub struct PageMap(File);

impl PageMap {
    /// Opens the table.
    ///
    /// # Errors
    /// If the host lacks the table, or denies access.
    pub fn open() -> io::Result<Self> {
        Ok(Self(File::open("/proc/self/pagemap")?))
    }

    /// Sets for each page from host address `at` whether it is private: part of a private mapping,
    /// and written to.
    ///
    /// # Errors
    /// If the host denies reading.
    pub(super) fn look(&self, at: u64, own: &mut [bool]) -> io::Result<()> {
        let mut entries = vec![0; own.len() * 8];
        self.0.read_exact_at(&mut entries, at / PAGE_SIZE * 8)?;
        for (own, entry) in own.iter_mut().zip(entries.as_chunks::<8>().0) {
            let entry = u64::from_le_bytes(*entry);
            *own = entry & SWAPPED != 0 || entry & (PRESENT | OF_FILE) == PRESENT;
        }
        Ok(())
    }
}
