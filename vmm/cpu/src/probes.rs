//! Probes: addresses in guest programs at which the host inspects the guest.
//!
//! A probe is located by the content of its page: a page of a program's or library's code has the file's bytes in every
//! process and at every address where it is mapped. So a set of probes covers all processes of a guest, including programs
//! not started yet. Probes change nothing in the guest, and cost no virtual time. A kernel patches its own code while it
//! boots, but has known addresses, so probes in it are linear addresses.
//!
//! The creator of a run's nodes gives engines a set ([`Vcpu::set_probes`](crate::Vcpu::set_probes)); an engine returns
//! [`Exit::Probe`](crate::Exit::Probe) when user code reaches a probe.

use std::collections::BTreeMap;

use crate::{Cycles, PAGE_SIZE, Registers, TimeAccount};

/// The largest number of return addresses that an engine watches at once. It exceeds the number of calls that can be open,
/// so there is room once the addresses of returned calls are removed.
pub const MOST_RETURNS: usize = 1 << 18;

/// Bytes of a page.
const BYTES: usize = PAGE_SIZE as usize;

/// Offsets at which pages are compared first, 8 bytes each: most pages differ there.
const SAMPLED: [usize; 4] = [0, 1360, 2720, BYTES - 8];

/// A page of code with probes in it.
#[derive(Clone, Debug)]
pub struct ProbedPage {
    /// The page's contents in the file; zeros after the file's end.
    pub bytes: Box<[u8; BYTES]>,
    /// Each probe's offset in the page and its number, ascending by offset.
    pub places: Vec<(u16, u32)>,
}

/// A set of probes, by page.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    pages: BTreeMap<[u64; 4], Vec<ProbedPage>>,
    /// Probes in the kernel's code, by the linear address of the page: as in [`ProbedPage::places`].
    kernel: BTreeMap<u64, Vec<(u16, u32)>>,
}

/// A processor's state at a probe, before the instruction there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// General registers, RIP and RFLAGS.
    pub registers: Registers,
    /// The low halves of XMM0 to XMM7, which carry floating-point arguments.
    pub scalars: [u64; 8],
    /// The account of its time, if the engine keeps one.
    pub account: Option<TimeAccount>,
    /// The virtual time.
    pub at: Cycles,
}

impl Probes {
    /// Builds a set of these pages. Of equal pages, the first one's probes count.
    pub fn new(pages: impl IntoIterator<Item = ProbedPage>) -> Self {
        let mut set = Self::default();
        for mut page in pages {
            page.places.sort_unstable();
            page.places.dedup_by_key(|(offset, _)| *offset);
            let alike = set.pages.entry(key(&page.bytes)).or_default();
            if alike.iter().all(|other| other.bytes != page.bytes) {
                alike.push(page);
            }
        }
        set
    }

    /// Adds probes at these linear addresses of a kernel, in the upper half of the address space, by number. They apply in
    /// supervisor mode, in all address spaces. Of several at one address, the first counts.
    #[must_use]
    pub fn with_kernel(mut self, places: impl IntoIterator<Item = (u64, u32)>) -> Self {
        for (address, number) in places.into_iter().filter(|(at, _)| at >> 63 != 0) {
            let page = self.kernel.entry(address & !(PAGE_SIZE - 1)).or_default();
            let offset = (address % PAGE_SIZE) as u16;
            if let Err(at) = page.binary_search_by_key(&offset, |place| place.0) {
                page.insert(at, (offset, number));
            }
        }
        self
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.kernel.is_empty()
    }

    /// True if there are probes in a kernel.
    pub fn has_kernel(&self) -> bool {
        !self.kernel.is_empty()
    }

    /// The probes in the kernel's page at linear address `page`; empty if there are none.
    pub fn kernel_places(&self, page: u64) -> &[(u16, u32)] {
        self.kernel.get(&page).map_or(&[], Vec::as_slice)
    }

    /// The probes in the page whose bytes `read` copies from an offset in it; empty if reading fails or the page is
    /// unknown.
    pub fn places_in(&self, mut read: impl FnMut(usize, &mut [u8]) -> bool) -> &[(u16, u32)] {
        let mut samples = [0; 4];
        for (sample, at) in samples.iter_mut().zip(SAMPLED) {
            let mut word = [0; 8];
            if !read(at, &mut word) {
                return &[];
            }
            *sample = u64::from_le_bytes(word);
        }
        let Some(alike) = self.pages.get(&samples) else {
            return &[];
        };
        let mut bytes = Box::new([0; BYTES]);
        let whole = read(0, &mut bytes[..]);
        let same = alike.iter().find(|page| whole && page.bytes == bytes);
        same.map_or(&[], |page| &page.places)
    }
}

fn key(bytes: &[u8; BYTES]) -> [u64; 4] {
    SAMPLED.map(|at| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(fill: u8, places: &[(u16, u32)]) -> ProbedPage {
        ProbedPage {
            bytes: Box::new([fill; BYTES]),
            places: places.to_vec(),
        }
    }

    fn places(set: &Probes, bytes: &[u8]) -> Vec<(u16, u32)> {
        let read = |at: usize, into: &mut [u8]| {
            let from = bytes.get(at..at + into.len());
            from.map(|from| into.copy_from_slice(from)).is_some()
        };
        set.places_in(read).to_vec()
    }

    #[test]
    fn a_page_is_known_by_all_of_its_bytes() {
        let set = Probes::new([page(1, &[(9, 7), (3, 5)]), page(2, &[(0, 1)])]);
        let mut bytes = [1; BYTES];
        assert_eq!(places(&set, &bytes), [(3, 5), (9, 7)]);
        assert_eq!(places(&set, &[2; BYTES]), [(0, 1)]);
        bytes[1000] = 0;
        assert_eq!(places(&set, &bytes), []);
        assert_eq!(places(&set, &[1; 4000]), [], "a page that cannot be read");
    }

    #[test]
    fn of_equal_pages_and_places_the_first_counts() {
        let set = Probes::new([page(1, &[(3, 5), (3, 6)]), page(1, &[(4, 1)])]);
        assert_eq!(places(&set, &[1; BYTES]), [(3, 5)]);
        assert!(!set.is_empty() && Probes::default().is_empty());
    }

    #[test]
    fn places_of_a_kernel_are_linear_addresses_of_the_upper_half() {
        const TEXT: u64 = 0xffff_ffff_8100_0000;
        let places = [(TEXT + 9, 1), (TEXT + 3, 2), (TEXT + 9, 3), (0x1000, 4)];
        let set = Probes::default().with_kernel(places);
        assert!(set.has_kernel() && !set.is_empty());
        assert_eq!(set.kernel_places(TEXT), [(3, 2), (9, 1)]);
        assert_eq!(set.kernel_places(0x1000), []);
    }
}
