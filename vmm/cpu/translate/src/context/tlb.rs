//! The software TLB: where pages of the guest's linear addresses stand on the host.
//!
//! An entry whose tag matches leads to a host page that may be read, or written, at its table's
//! privilege level; pages that hold code are in no table for writing. `access` and `explore` fill
//! entries, `flush` empties them, `emit/access` has the check that looks into the tables.

use belljar_cpu::PAGE_SIZE;

use super::slots::{HALVES, LOWER, half_of};

/// Entries of each table; a power of two. They reach over 64 MiB: guests whose pages lie
/// scattered, which kernels hand out downward as often as upward, have nothing else.
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
    /// Linear address of the range around the page that has the same delta.
    pub range: [u64; TLB_ENTRIES],
    /// Bytes of that range; zero where nobody looked yet.
    pub range_bytes: [u64; TLB_ENTRIES],
    /// Bits of the entries that may hold a translation of the lower half of the address space,
    /// and of the upper: few of them do, and a new address space must find all of the lower.
    used: [[u64; TLB_ENTRIES / 64]; 2],
}

impl Tlb {
    /// The tag of entry `index` that no address with that index matches. It is not the
    /// next page's either, into which an access may run. Nearly all are zero, for tables
    /// begin as zeros and most of their memory is never touched.
    const fn never(index: usize) -> u64 {
        // After the last one's page comes that of the first.
        if index == 0 || index == TLB_ENTRIES - 1 {
            2 << 12
        } else {
            0
        }
    }

    /// Empties a table of zeros.
    pub(super) fn begin(&mut self) {
        for index in [0, TLB_ENTRIES - 1] {
            self.tag[index] = Self::never(index);
        }
    }

    /// Notes that the page that holds `linear` stands at host address `page`. Returns the
    /// tag of the one that made room for it.
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

    /// Forgets every translation.
    pub(super) fn flush(&mut self) {
        self.forget_where(|_, _| true);
    }

    /// Forgets translations of the lower half of the address space.
    pub(super) fn flush_below(&mut self) {
        self.each_used(LOWER, Self::forget);
    }

    /// Forgets the translation of the page that holds `linear`.
    pub(super) fn flush_page(&mut self, linear: u64) {
        self.forget(tlb_index(linear));
    }

    /// Forgets translations to the host page at `page`.
    pub(super) fn forget_host(&mut self, page: u64) {
        self.forget_where(|tlb, index| tlb.page[index] == page);
    }

    /// Forgets what hangs together around the pages.
    pub(super) fn forget_ranges(&mut self) {
        for half in HALVES {
            self.each_used(half, |tlb, index| tlb.range_bytes[index] = 0);
        }
    }

    /// Forgets what hangs together with the page that holds `linear`.
    pub(super) fn forget_ranges_around(&mut self, linear: u64) {
        self.each_used(half_of(linear), |tlb, index| {
            tlb.forget_range(index, linear);
        });
    }

    /// Forgets what hangs together with the host page at `host`.
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
        // Nor one of 64 bytes at the end of the address space, whose end is at its beginning.
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
