//! Which pages of this process's memory are its own.
//!
//! A page that is not said to be this process's own was not written to since it was mapped, unless
//! it is shared; where the host refuses the table, `kept` compares all pages instead. A run opens
//! it once for its checkpoints.

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
    /// When the host does not have it, or does not show it.
    pub fn open() -> io::Result<Self> {
        Ok(Self(File::open("/proc/self/pagemap")?))
    }

    /// Sets for each page from host address `at` on whether it is held for this process
    /// alone: one of a private mapping that was written to.
    ///
    /// # Errors
    /// When the host refuses to tell.
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
