//! Pages of guest RAM with a second host address, arranged in a different order.
//!
//! Guest kernels allocate pages in any order, so a range that is contiguous to a program is
//! scattered on the host. If an engine crosses such a seam frequently, both pages are mapped a
//! second time, next to each other. Their first addresses remain valid.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::PAGE_SIZE;

/// Pages of a run of adjacent second mappings: a stack grows a page at a time.
const RUN: usize = 16;
/// Runs of a region of RAM. Each page costs the process two or three more mappings, and Linux
/// allows 65,530.
const RUNS: usize = 8;
const PAGES: usize = RUN * RUNS;
const PAGE: usize = PAGE_SIZE as usize;

/// The second addresses of one region's pages.
#[derive(Debug, Default)]
pub struct BesidePages {
    /// Created with the first pair.
    pages: OnceLock<Mutex<MappedPages>>,
}

#[derive(Debug)]
struct MappedPages {
    /// Host address of the second mapping, which has room for all runs.
    start: usize,
    /// For each place of the second mapping, the page's offset in the region.
    offsets: [Option<u64>; PAGES],
    /// The places by offset.
    places: BTreeMap<u64, usize>,
    /// Runs in use.
    runs: usize,
}

impl BesidePages {
    /// The second host address of the page at `offset` of the region.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let pages = lock(self.pages.get()?);
        let place = pages.places.get(&(offset & !(PAGE_SIZE - 1)))?;
        Some(pages.address(*place) as u64)
    }

    /// The offset of the byte whose second address is `host`.
    pub fn offset_of(&self, host: u64) -> Option<u64> {
        let pages = lock(self.pages.get()?);
        let distance = host.checked_sub(pages.start as u64)?;
        let page = pages.offsets.get((distance / PAGE_SIZE) as usize)?;
        Some((*page)? + distance % PAGE_SIZE)
    }

    /// Maps the pages at offsets `low` and `high` of the region at `region` a second time, one
    /// after the other. Returns true if they are adjacent now. It fails if one of them has another
    /// neighbour already, if there is no room, or if the host refuses.
    ///
    /// # Safety
    /// `region` must be a live private mapping that contains both pages and belongs to this value's
    /// region alone. No other thread may access the two pages during the call.
    pub unsafe fn join(&self, region: *mut u8, low: u64, high: u64) -> bool {
        if self.pages.get().is_none() {
            let Ok(pages) = MappedPages::new() else {
                return false;
            };
            let _first = self.pages.set(Mutex::new(pages));
        }
        let Some(pages) = self.pages.get() else {
            return false;
        };
        let mut pages = lock(pages);
        let Some(places) = pages.places_for(low, high) else {
            return false;
        };
        [low, high].into_iter().zip(places).all(|(offset, place)| {
            let known = pages.offsets[place] == Some(offset);
            // SAFETY: as the caller promised; the place is free.
            known || unsafe { pages.lay(region, offset, place) }.is_ok()
        })
    }
}

fn lock(pages: &Mutex<MappedPages>) -> MutexGuard<'_, MappedPages> {
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MappedPages {
    fn new() -> io::Result<Self> {
        // SAFETY: a new mapping, which replaces no other.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGES * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            start: start as usize,
            offsets: [None; PAGES],
            places: BTreeMap::new(),
            runs: 0,
        })
    }

    fn address(&self, place: usize) -> usize {
        self.start + place * PAGE
    }

    /// Adjacent places for two pages: their present ones, or free ones.
    fn places_for(&mut self, low: u64, high: u64) -> Option<[usize; 2]> {
        if low == high {
            return None;
        }
        let has = [low, high].map(|offset| self.places.get(&offset).copied());
        let first = match has {
            [Some(low), _] => low,
            [None, Some(high)] => high.checked_sub(1)?,
            [None, None] => self.middle_of_new_run()?,
        };
        let places = [first, first + 1];
        let fits = first / RUN == (first + 1) / RUN
            && has.iter().zip(places).all(|(has, place)| match has {
                Some(has) => *has == place,
                None => self.offsets[place].is_none(),
            });
        fits.then_some(places)
    }

    fn middle_of_new_run(&mut self) -> Option<usize> {
        let run = self.runs;
        (run < RUNS).then(|| {
            self.runs += 1;
            run * RUN + RUN / 2 - 1
        })
    }

    /// Moves a page of the region to a free place of the second mapping; its first address then
    /// maps the same page.
    ///
    /// # Safety
    /// As for [`BesidePages::join`].
    unsafe fn lay(&mut self, region: *mut u8, offset: u64, place: usize) -> io::Result<()> {
        let (second, first) = (
            self.address(place) as *mut u8,
            region as usize + offset as usize,
        );
        // SAFETY: both are mapped pages, the second belongs to this value; no thread writes the
        // first.
        unsafe { std::ptr::copy_nonoverlapping(first as *const u8, second, PAGE) };
        // An old size of zero maps shared pages once more (mremap(2)).
        // SAFETY: the first address is a page of the region's mapping, which keeps its
        // contents and may be accessed as before.
        let mapped = unsafe {
            libc::mremap(
                second.cast(),
                0,
                PAGE,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                first as *mut libc::c_void,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.offsets[place] = Some(offset);
        self.places.insert(offset, place);
        Ok(())
    }
}

impl Drop for MappedPages {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no address in it is in use any more: an engine
        // with such an address holds the RAM. The pages' first addresses stay mapped.
        unsafe { libc::munmap(self.start as *mut libc::c_void, PAGES * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};

    use crate::{GuestRam, guest_ram};

    const BYTES: u64 = 64 * super::PAGE_SIZE;

    fn join(ram: &GuestRam, low: u64, high: u64) -> bool {
        let region = ram.iter().next().unwrap();
        let bitmap = region.bitmap();
        // SAFETY: a region local to this test, which no other thread accesses.
        unsafe {
            bitmap
                .region()
                .beside()
                .join(region.as_ptr(), low << 12, high << 12)
        }
    }

    fn second(ram: &GuestRam, page: u64) -> Option<u64> {
        let region = ram.iter().next().unwrap();
        region.bitmap().region().beside().address(page << 12)
    }

    #[test]
    fn joined_pages_lie_side_by_side_and_are_the_same_at_both_addresses() {
        let ram = guest_ram(&[(0, BYTES as usize)]).unwrap();
        for page in [7, 3] {
            ram.write_obj(page, GuestAddress(page << 12)).unwrap();
        }
        assert_eq!(second(&ram, 7), None);
        assert!(join(&ram, 7, 3));
        let (low, high) = (second(&ram, 7).unwrap(), second(&ram, 3).unwrap());
        assert_eq!(high - low, super::PAGE_SIZE);
        let [low, high] = [low, high].map(|at| at as *mut u64);
        // SAFETY: mapped pages, and no other thread.
        unsafe { assert_eq!([low.read(), high.read()], [7, 3], "contents move along") };
        // SAFETY: as above.
        unsafe { high.write_volatile(99) };
        assert_eq!(ram.read_obj::<u64>(GuestAddress(3 << 12)).unwrap(), 99);
        ram.write_obj(98u64, GuestAddress(7 << 12)).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { low.read_volatile() }, 98);
        let region = ram.iter().next().unwrap();
        let bitmap = region.bitmap();
        let beside = bitmap.region().beside();
        assert_eq!(beside.offset_of(high as u64 + 5), Some((3 << 12) + 5));
        assert_eq!(beside.offset_of(low as u64 - 1), None);
        assert_eq!(beside.offset_of(0), None);
    }

    #[test]
    fn a_run_grows_both_ways_and_no_page_gets_two_neighbours() {
        let ram = guest_ram(&[(0, BYTES as usize)]).unwrap();
        assert!(join(&ram, 10, 9) && join(&ram, 9, 8) && join(&ram, 11, 10));
        let at = second(&ram, 11).unwrap();
        for (number, page) in [11, 10, 9, 8].into_iter().enumerate() {
            assert_eq!(second(&ram, page), Some(at + ((number as u64) << 12)));
        }
        assert!(join(&ram, 10, 9), "again");
        assert!(!join(&ram, 10, 20), "9 lies behind 10");
        assert!(!join(&ram, 20, 9), "10 lies in front of 9");
        assert!(!join(&ram, 8, 11), "both have others");
        assert!(!join(&ram, 5, 5), "itself");
        assert_eq!(second(&ram, 5), None);
    }

    #[test]
    fn there_is_an_end_to_it() {
        let ram = guest_ram(&[(0, BYTES as usize)]).unwrap();
        let joined = (0..20).filter(|pair| join(&ram, pair * 3, pair * 3 + 1));
        assert_eq!(joined.count(), super::RUNS, "pairs");
        let mut last = 1;
        let grown =
            (30..60).take_while(|&page| join(&ram, std::mem::replace(&mut last, page), page));
        assert_eq!(grown.count(), super::RUN / 2 - 1, "to the end of the run");
    }
}
