//! The software TLB: host addresses of the pages of the guest's linear addresses.
//!
//! An entry whose tag matches refers to a host page that may be read, or written, at its table's
//! privilege level; pages that contain translated code are in no table for writing. `access` and
//! `explore` fill entries, `flush` clears them, and `emit/access` emits the lookup.

use belljar_cpu::PAGE_SIZE;

use super::slots::{HALVES, LOWER, half_of};

/// Entries of each table; a power of two. They cover 64 MiB: guests with scattered pages depend on
/// it alone, and kernels allocate pages downward as often as upward.
pub const TLB_ENTRIES: usize = 16384;

/// Translations of one privilege level for reading or for writing.
#[repr(C)]
pub struct Tlb {
    /// Linear page address per entry, or one that can never match.
    pub tag: [u64; TLB_ENTRIES],
    /// Host address of the page.
    pub page: [u64; TLB_ENTRIES],
    /// Host address less linear address.
    pub delta: [u64; TLB_ENTRIES],
    /// Linear address of the range around the page with the same delta.
    pub range: [u64; TLB_ENTRIES],
    /// Length of that range; zero if it was not explored yet.
    pub range_bytes: [u64; TLB_ENTRIES],
    /// Bits of the entries that may hold a translation of the lower half of the address space, and
    /// of the upper: few entries do, and a new address space must find all of the lower half.
    used: [[u64; TLB_ENTRIES / 64]; 2],
}

impl Tlb {
    /// The tag of an empty entry `index`: no address with that index matches it, nor the next page,
    /// into which an access may extend. Nearly all are zero, because tables begin as zeros and most
    /// of their memory is never touched.
    const fn never(index: usize) -> u64 {
        // The page of the last entry is followed by the page of the first one.
        if index == 0 || index == TLB_ENTRIES - 1 {
            2 << 12
        } else {
            0
        }
    }

    /// Initialises a table of zeros as empty.
    pub(super) fn begin(&mut self) {
        for index in [0, TLB_ENTRIES - 1] {
            self.tag[index] = Self::never(index);
        }
    }

    /// Records that the page that contains `linear` is at host address `page`. Returns the tag of
    /// the replaced entry.
    #[inline]
    pub fn fill(&mut self, linear: u64, page: u64) -> u64 {
        let index = tlb_index(linear);
        let tag = linear & !(PAGE_SIZE - 1);
        self.page[index] = page;
        self.delta[index] = page.wrapping_sub(tag);
        self.range_bytes[index] = 0;
        let (half, bit) = (half_of(linear), 1 << (index % 64));
        self.used[half][index / 64] |= bit;
        self.used[1 - half][index / 64] &= !bit;
        std::mem::replace(&mut self.tag[index], tag)
    }

    fn forget(&mut self, index: usize) {
        self.tag[index] = Self::never(index);
        for used in &mut self.used {
            used[index / 64] &= !(1 << (index % 64));
        }
    }

    /// Discards every translation.
    pub(super) fn flush(&mut self) {
        self.forget_where(|_, _| true);
    }

    /// Discards translations of the lower half of the address space.
    pub(super) fn flush_below(&mut self) {
        self.each_used(LOWER, Self::forget);
    }

    /// Discards the translation of the page that contains `linear`.
    pub(super) fn flush_page(&mut self, linear: u64) {
        self.forget(tlb_index(linear));
    }

    /// Discards translations to the host page at `page`.
    pub(super) fn forget_host(&mut self, page: u64) {
        self.forget_where(|tlb, index| tlb.page[index] == page);
    }

    /// Discards the contiguous ranges of all entries.
    pub(super) fn forget_ranges(&mut self) {
        for half in HALVES {
            self.each_used(half, |tlb, index| tlb.range_bytes[index] = 0);
        }
    }

    /// Discards contiguous ranges that include the page that contains `linear`.
    pub(super) fn forget_ranges_around(&mut self, linear: u64) {
        self.each_used(half_of(linear), |tlb, index| {
            tlb.forget_range(index, linear);
        });
    }

    /// Discards contiguous ranges that include the host page at `host`.
    pub(super) fn forget_ranges_over(&mut self, host: u64) {
        for half in HALVES {
            self.each_used(half, |tlb, index| {
                tlb.forget_range(index, host.wrapping_sub(tlb.delta[index]));
            });
        }
    }

    fn forget_range(&mut self, index: usize, linear: u64) {
        if linear.wrapping_sub(self.range[index]) < self.range_bytes[index] {
            self.range_bytes[index] = 0;
        }
    }

    fn forget_where(&mut self, goes: impl Fn(&Self, usize) -> bool) {
        for half in HALVES {
            self.each_used(half, |tlb, index| {
                if goes(tlb, index) {
                    tlb.forget(index);
                }
            });
        }
    }

    fn each_used(&mut self, half: usize, mut act: impl FnMut(&mut Self, usize)) {
        for word in 0..self.used[half].len() {
            let mut bits = self.used[half][word];
            while bits != 0 {
                act(self, word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

/// The TLB entry for a linear address.
#[inline]
pub fn tlb_index(linear: u64) -> usize {
    (linear >> 12) as usize & (TLB_ENTRIES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlb() -> Box<Tlb> {
        let mut tlb = Box::new(Tlb {
            tag: [0; TLB_ENTRIES],
            page: [0; TLB_ENTRIES],
            delta: [0; TLB_ENTRIES],
            range: [0; TLB_ENTRIES],
            range_bytes: [0; TLB_ENTRIES],
            used: [[0; TLB_ENTRIES / 64]; 2],
        });
        tlb.begin();
        tlb
    }

    const BELOW: u64 = 0x7fff_1234_5000;
    const ABOVE: u64 = 0xffff_8880_0012_3000;

    fn holds(tlb: &Tlb, linear: u64) -> bool {
        tlb.tag[tlb_index(linear)] == linear
    }

    #[test]
    fn an_empty_entry_matches_no_address_with_its_index() {
        let tlb = tlb();
        for (index, &tag) in tlb.tag.iter().enumerate() {
            assert_ne!(tlb_index(tag), index);
            assert_ne!(tlb_index(tag), (index + 1) % TLB_ENTRIES);
        }
        // Nor does an access of 64 bytes at the end of the address space, which wraps around to its
        // beginning.
        let distance = u64::MAX.wrapping_sub(tlb.tag[tlb_index(u64::MAX)]);
        assert_ne!(distance.wrapping_add(63) / PAGE_SIZE, 0);
    }

    #[test]
    fn what_is_forgotten_is_what_was_meant() {
        let mut tlb = tlb();
        let fill = |tlb: &mut Tlb| {
            tlb.fill(BELOW, 0x1000);
            tlb.fill(ABOVE + 0x10, 0x2000);
        };
        let held = |tlb: &Tlb| [BELOW, ABOVE].map(|page| holds(tlb, page));
        fill(&mut tlb);
        assert_eq!(tlb.delta[tlb_index(ABOVE)], 0x2000u64.wrapping_sub(ABOVE));
        tlb.flush_below();
        assert_eq!(held(&tlb), [false, true]);
        fill(&mut tlb);
        tlb.flush_page(ABOVE + 0xfff);
        assert_eq!(held(&tlb), [true, false]);
        fill(&mut tlb);
        tlb.forget_host(0x2000);
        assert_eq!(held(&tlb), [true, false]);
        fill(&mut tlb);
        tlb.flush();
        assert_eq!(held(&tlb), [false, false]);
    }

    #[test]
    fn ranges_go_and_translations_stay() {
        let mut tlb = tlb();
        tlb.fill(BELOW, 0x1000);
        tlb.range_bytes[tlb_index(BELOW)] = 0x4000;
        tlb.forget_ranges();
        assert_eq!(tlb.range_bytes[tlb_index(BELOW)], 0);
        assert!(holds(&tlb, BELOW));
        let entry = tlb_index(BELOW);
        let bytes = |tlb: &Tlb| tlb.range_bytes[entry];
        (tlb.range[entry], tlb.range_bytes[entry]) = (BELOW - 0x1000, 0x4000);
        for elsewhere in [BELOW - 0x1001, BELOW + 0x3000] {
            tlb.forget_ranges_around(elsewhere);
            tlb.forget_ranges_over(elsewhere.wrapping_sub(BELOW).wrapping_add(0x1000));
        }
        assert_eq!(bytes(&tlb), 0x4000);
        tlb.forget_ranges_around(BELOW + 0x2fff);
        assert_eq!(bytes(&tlb), 0);
        tlb.range_bytes[entry] = 0x4000;
        tlb.forget_ranges_over(0x3000);
        assert_eq!(bytes(&tlb), 0);
        tlb.range_bytes[entry] = 0x4000;
        assert_eq!(tlb.fill(BELOW, 0x3000), BELOW);
        assert_eq!(tlb.range_bytes[tlb_index(BELOW)], 0, "nobody looked yet");
    }
}
