//! The jump caches: the translated code at a RIP, for indirect jumps and for jumps between pages.
//!
//! Translated code jumps through the first cache without a check; the target block checks the RIP
//! itself, and jumps on to the second cache if it was the wrong block. The second cache has a
//! different index function, so two RIPs that conflict in the first one do not conflict there.

use belljar_cpu::PAGE_SIZE;

/// Entries of the first cache; a power of two. A kernel that forks and runs programs
/// keeps more than 4,096 busy.
pub const FIRST: usize = 16384;
/// Entries of the second cache; a power of two.
const SECOND: usize = 8192;
/// Number of bits by which pages with cached entries are recorded; a power of two.
const PAGE_BITS: usize = 4096;
/// RIPs of the lower half that are listed, so that a new address space need not clear the whole
/// cache: most processes are short.
const NOTED: usize = 2048;
/// Masks of the index bits, for PEXT.
pub(crate) const FIRST_MASK: u64 = FIRST as u64 - 1;
pub(crate) const SECOND_MASK: u64 = SECOND as u64 - 1;

/// The jump caches of one privilege level.
#[repr(C)]
pub struct Jumps {
    /// Host code, which checks its RIP; `miss` if the entry is empty.
    pub first: [u64; FIRST],
    /// The page number of that code's RIP.
    first_page: [u64; FIRST],
    /// Negated RIPs: the sum with the right RIP is zero.
    pub second_negated: [u64; SECOND],
    /// Host code for each.
    pub second: [u64; SECOND],
    /// Host code that searches the second cache.
    miss: u64,
    /// RIPs in the lower half of the address space that were added since the half was last empty,
    /// as far as the list has room, and their number.
    below: [u64; NOTED],
    noted: u64,
    /// Nonzero after a RIP in the upper half was added.
    above: u64,
    /// Bits of pages that may have cached entries.
    pages: [u64; PAGE_BITS / 64],
}

/// Index in the first cache: the page number shifts the entries, so that equal offsets in many
/// pages do not conflict. A page's entries are consecutive.
pub(crate) fn first_index(rip: u64) -> usize {
    (rip.wrapping_add(rip.rotate_right(12)) & FIRST_MASK) as usize
}

/// Index in the second cache. A page's entries are consecutive, too.
fn second_index(rip: u64) -> usize {
    (rip.wrapping_add(rip.rotate_right(12) << 3) & SECOND_MASK) as usize
}

/// The word and the bit for a page.
fn page_bit(page: u64) -> (usize, u64) {
    let number = (page ^ page >> 12) as usize % PAGE_BITS;
    (number / 64, 1 << (number % 64))
}

/// A negated RIP of another index, which no RIP with this index in the second cache matches.
fn never(index: usize) -> u64 {
    (index as u64 ^ 1).wrapping_neg()
}

impl Jumps {
    /// Sets `miss`, the target of jumps without an entry, and clears all entries.
    #[inline]
    pub fn begin(&mut self, miss: u64) {
        self.miss = miss;
        self.flush();
    }

    /// Discards everything.
    pub fn flush(&mut self) {
        self.first.fill(self.miss);
        for (index, negated) in self.second_negated.iter_mut().enumerate() {
            *negated = never(index);
        }
        (self.noted, self.above) = (0, 0);
        self.pages.fill(0);
    }

    /// Discards entries of the lower half of the address space, and possibly others.
    pub fn flush_below(&mut self) {
        let noted = self.noted as usize;
        if noted > NOTED {
            return self.flush();
        }
        for number in 0..noted {
            let rip = self.below[number];
            self.first[first_index(rip)] = self.miss;
            let index = second_index(rip);
            self.second_negated[index] = never(index);
        }
        self.noted = 0;
        if self.above == 0 {
            self.pages.fill(0);
        }
    }

    /// Makes jumps to `rip` lead to host code at `code`.
    pub fn set(&mut self, rip: u64, code: u64) {
        let index = first_index(rip);
        self.first[index] = code;
        self.first_page[index] = rip >> 12;
        let index = second_index(rip);
        self.second_negated[index] = rip.wrapping_neg();
        self.second[index] = code;
        if rip >> 63 == 0 {
            if let Some(place) = self.below.get_mut(self.noted as usize) {
                *place = rip;
            }
            self.noted = (self.noted + 1).min(NOTED as u64 + 1);
        } else {
            self.above = 1;
        }
        let (word, bit) = page_bit(rip >> 12);
        self.pages[word] |= bit;
    }

    /// Host code for jumps to `rip`, according to the second cache.
    #[inline]
    pub fn find(&self, rip: u64) -> Option<u64> {
        let index = second_index(rip);
        (self.second_negated[index] == rip.wrapping_neg()).then(|| self.second[index])
    }

    /// Discards the entry of `rip` if it is `code`.
    #[inline]
    pub fn forget(&mut self, rip: u64, code: u64) {
        let entry = &mut self.first[first_index(rip)];
        if *entry == code {
            *entry = self.miss;
        }
        let index = second_index(rip);
        if self.second[index] == code {
            self.second_negated[index] = never(index);
        }
    }

    /// Discards all jumps into the page that contains `linear`, and into the one before it, whose
    /// last block may extend into this one.
    pub fn forget_into(&mut self, linear: u64) {
        for page in [linear, linear.wrapping_sub(PAGE_SIZE)].map(|at| at >> 12) {
            let (word, bit) = page_bit(page);
            if self.pages[word] & bit == 0 {
                continue;
            }
            let first = first_index(page << 12);
            let second = second_index(page << 12);
            for offset in 0..PAGE_SIZE as usize {
                let index = (first + offset) % FIRST;
                if self.first_page[index] == page {
                    self.first[index] = self.miss;
                }
                let index = (second + offset) % SECOND;
                if self.second_negated[index].wrapping_neg() >> 12 == page {
                    self.second_negated[index] = never(index);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Box<Jumps> {
        let mut jumps = Box::new(Jumps {
            first: [0; FIRST],
            first_page: [0; FIRST],
            second_negated: [0; SECOND],
            second: [0; SECOND],
            miss: 0,
            below: [0; NOTED],
            noted: 0,
            above: 0,
            pages: [0; PAGE_BITS / 64],
        });
        jumps.begin(7);
        jumps
    }

    #[test]
    fn an_empty_entry_is_nobodys() {
        for index in 0..SECOND {
            let rip = never(index).wrapping_neg();
            assert_ne!(second_index(rip), index, "{rip:#x}");
        }
    }

    #[test]
    fn forgetting_a_page_forgets_no_other() {
        let mut jumps = empty();
        let rips = [0x40_1010, 0x40_2020, 0x40_3030, 0xffff_ffff_8101_2040];
        for (code, rip) in (100..).zip(rips) {
            jumps.set(rip, code);
        }
        jumps.forget_into(0x40_3000);
        // The page itself, and the preceding one.
        let found = rips.map(|rip| (jumps.find(rip), jumps.first[first_index(rip)]));
        let kept = |code| (Some(code), code);
        assert_eq!(found, [kept(100), (None, 7), (None, 7), kept(103)]);
    }

    #[test]
    fn a_new_address_space_forgets_the_lower_half() {
        let mut jumps = empty();
        let above = 0xffff_ffff_8101_2040;
        for rips in [3, NOTED as u64, NOTED as u64 + 1] {
            jumps.set(above, 99);
            let below = |number: u64| 0x5555_0000_1000 + number * 16;
            (0..rips).for_each(|number| jumps.set(below(number), 100 + number));
            jumps.flush_below();
            assert!(rips > 3 || jumps.find(above) == Some(99));
            for number in 0..rips {
                let rip = below(number);
                let found = (jumps.find(rip), jumps.first[first_index(rip)]);
                assert!(
                    found == (None, 7) || found == (None, 99),
                    "{rip:#x} of {rips}: {found:?}"
                );
            }
            assert!(jumps.pages.iter().any(|&word| word != 0) == (rips <= NOTED as u64));
        }
    }

    #[test]
    fn a_page_is_a_row() {
        for page in [0, 1, 0x40_1000 >> 12, 0xffff_ffff_8101_2000 >> 12] {
            for offset in [0u64, 1, 17, 4095] {
                let rip = page << 12 | offset;
                let from = |start: usize, size| (start + offset as usize) % size;
                assert_eq!(first_index(rip), from(first_index(page << 12), FIRST));
                assert_eq!(second_index(rip), from(second_index(page << 12), SECOND));
            }
        }
    }

    #[test]
    fn what_meets_in_the_first_cache_does_not_in_the_second() {
        let rip = 0xffff_ffff_812b_8895_u64;
        for pages in 1..4096u64 {
            let other = rip
                .wrapping_add(pages << 12)
                .wrapping_sub(pages * 4097 % FIRST as u64);
            if first_index(other) == first_index(rip) {
                assert_ne!(second_index(other), second_index(rip));
            }
        }
    }
}
