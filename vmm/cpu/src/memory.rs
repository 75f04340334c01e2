//! Guest physical memory.
//!
//! Regions never move, so engines may keep host addresses in them as long as they hold the RAM.
//! Nodes allocate RAM here, or map a snapshot's; loaders, devices and engines share it.

use std::fs::File;
use std::sync::Arc;

use vm_memory::mmap::FromRangesError;
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap, MmapRegion,
};

use crate::watch::CodeWatch;

/// Bytes in a page of guest memory.
pub const PAGE_SIZE: u64 = 4096;

/// The guest's RAM. Devices and loaders write it through vm-memory, which marks every write in
/// [`CodeWatch`], so that an engine detects changes of translated code.
pub type GuestRam = GuestMemoryMmap<CodeWatch>;

/// Allocates guest RAM for the given `(guest-physical start, bytes)` ranges.
/// Pages cost host memory only once they are touched.
///
/// # Errors
/// If a range is empty, overlaps another, or the host refuses the mapping.
pub fn guest_ram(ranges: &[(u64, usize)]) -> Result<GuestRam, FromRangesError> {
    let ranges: Vec<(GuestAddress, usize)> = ranges
        .iter()
        .map(|&(start, len)| (GuestAddress(start), len))
        .collect();
    GuestRam::from_ranges(&ranges)
}

/// Asks the host to back RAM made by [`guest_ram`] by huge pages, so that translated code seldom
/// misses the processor's TLB. No effect on a host without them.
#[allow(unsafe_code)]
pub fn prefer_huge_pages(ram: &GuestRam) {
    use vm_memory::GuestMemoryBackend;
    for region in ram.iter() {
        let (start, bytes) = (region.as_ptr().cast(), region.len() as usize);
        // SAFETY: the region is a live mapping of exactly these bytes; the advice changes neither
        // its contents nor its permitted uses.
        unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
    }
}

/// As [`guest_ram`], with the contents of `file` from `offset` on, range after range, a multiple of
/// [`PAGE_SIZE`] each. The guest's writes go to private pages; all other pages are the host's page
/// cache, shared by all mappings of the file, which must not change or shrink meanwhile.
///
/// # Errors
/// As for [`guest_ram`], and if the file is too short.
pub fn guest_ram_over(
    ranges: &[(u64, usize)],
    file: &Arc<File>,
    mut offset: u64,
) -> Result<GuestRam, FromRangesError> {
    let mut regions = Vec::new();
    for &(start, bytes) in ranges {
        let contents = FileOffset::from_arc(file.clone(), offset);
        let mapping = MmapRegion::build(
            Some(contents),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_NORESERVE,
        )?;
        let region = GuestRegionMmap::new(mapping, GuestAddress(start));
        regions.push(region.ok_or(FromRangesError::InvalidGuestRegion)?);
        offset += bytes as u64;
    }
    Ok(GuestRam::from_regions(regions)?)
}

/// The ranges of `ram`, in [`guest_ram`]'s form.
pub fn ram_ranges(ram: &GuestRam) -> Vec<(u64, usize)> {
    use vm_memory::GuestMemoryBackend;
    ram.iter()
        .map(|region| (region.start_addr().0, region.len() as usize))
        .collect()
}

#[cfg(test)]
mod tests {
    use vm_memory::GuestMemoryBackend;

    use super::*;

    /// The kernel's flags for the mapping that begins at `start`.
    fn flags_of(start: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let begins = format!("{start:x}-");
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&begins));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:"));
        flags.map(|flags| format!("{flags} "))
    }

    #[test]
    #[allow(clippy::print_stderr)]
    fn huge_pages_are_asked_for() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            eprintln!("skipped: this kernel has no transparent huge pages");
            return;
        }
        let ram = guest_ram(&[(0, 4 << 20), (1 << 32, 2 << 20)]).unwrap();
        prefer_huge_pages(&ram);
        for region in ram.iter() {
            // The kernel merges neighbours of one kind into one mapping, which begins with the
            // first.
            let flags = flags_of(region.as_ptr() as usize);
            assert!(flags.is_none_or(|flags| flags.contains(" hg ")));
        }
        let first = ram
            .iter()
            .filter_map(|region| flags_of(region.as_ptr() as usize));
        assert!(first.count() > 0, "one of them begins a mapping");
    }
}
