//! Guest physical memory.

use vm_memory::{GuestAddress, GuestMemoryMmap};

use crate::watch::CodeWatch;

/// Bytes in a page of guest memory.
pub const PAGE_SIZE: u64 = 4096;

/// The guest's RAM. Devices and loaders write it through vm-memory, which tells
/// [`CodeWatch`] of every write, so that an engine learns of code that changed under it.
pub type GuestRam = GuestMemoryMmap<CodeWatch>;

/// Allocates guest RAM for the given `(guest-physical start, bytes)` ranges.
/// Pages cost host memory only once they are touched.
///
/// # Errors
/// When a range is empty, overlaps another, or the host refuses the mapping.
pub fn guest_ram(ranges: &[(u64, usize)]) -> Result<GuestRam, vm_memory::mmap::FromRangesError> {
    let ranges: Vec<(GuestAddress, usize)> = ranges
        .iter()
        .map(|&(start, len)| (GuestAddress(start), len))
        .collect();
    GuestRam::from_ranges(&ranges)
}
