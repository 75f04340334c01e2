//! The memory of group checks: where each last led.
//!
//! A slot that is not empty leads to memory that could be accessed when it was filled; `flush`
//! empties those whose pages may have changed, and finds them by one mark per cluster of slots.
//! Translated code fills slots by itself (`emit/group`) and sets the marks.

use super::{LONGEST_SPAN, SLOTS};

/// The halves of the address space.
pub(super) const LOWER: usize = 0;
const UPPER: usize = 1;
pub(super) const HALVES: [usize; 2] = [LOWER, UPPER];

pub(super) fn half_of(linear: u64) -> usize {
    (linear >> 63) as usize
}

/// A group check's memory. Its range of guest memory is in reach when the distance from
/// `base` is below `limit`. What a check needs is in one line of the host's caches: where
/// many nodes take turns, none of it is near when a turn begins.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct Slot {
    /// Distances from `base` below this are in reach; zero where none is.
    pub limit: u64,
    /// Linear address of the first byte in reach.
    pub base: u64,
    /// Host address less linear address; for a constant address the host page.
    pub delta: u64,
    /// Fills left until the slot's worth is asked for.
    pub fills: i32,
}

/// Slots that are looked at together when some must be emptied.
pub const SLOT_CLUSTER: usize = 16;

/// The group checks' memory.
#[repr(C)]
pub struct Slots {
    /// Not zero for clusters of slots of which one may lead to the lower half of the address
    /// space, and to the upper: whatever fills one says so. Address spaces come and go far more
    /// often than most slots are filled, and leave the upper half alone.
    pub filled: [[u8; SLOTS / SLOT_CLUSTER]; 2],
    /// The same for the upper half, of clusters that were looked at when an address space went
    /// and not filled since: nothing in them leads to pages that are not global.
    settled: [u8; SLOTS / SLOT_CLUSTER],
    /// The slots, by number.
    pub each: [Slot; SLOTS],
}

impl Slots {
    /// Empties all. Those that nobody ever filled are not looked at: they may have no memory
    /// yet.
    pub fn flush(&mut self) {
        for half in HALVES {
            self.flush_where(half, |_, _| true);
        }
    }

    /// Empties those that lead to the lower half of the address space, or whose range begins
    /// at one of the `starts` in the upper: all pages there that are not global.
    pub fn flush_below_and(&mut self, starts: &[u64]) {
        self.flush_where(LOWER, |_, _| true);
        if starts.is_empty() {
            return;
        }
        let Self {
            filled,
            settled,
            each,
        } = self;
        each_filled(&mut filled[UPPER], each, |cluster, mark, slots| {
            settled[cluster] |= flush_cluster(slots, UPPER, |base, _| starts.contains(&base));
            *mark = 0;
        });
    }

    /// Empties those that may lead to the page that holds `linear`.
    #[inline]
    pub fn flush_page(&mut self, linear: u64) {
        let page = linear & !0xfff;
        self.flush_where(half_of(linear), |base, limit| {
            page.wrapping_sub(base) < limit.saturating_add(LONGEST_SPAN)
        });
    }

    /// Empties slots that lead to one half of the address space.
    fn flush_where(&mut self, half: usize, leads_there: impl Fn(u64, u64) -> bool) {
        let mut flush = |_: usize, mark: &mut u8, slots: &mut [Slot]| {
            *mark = flush_cluster(slots, half, &leads_there);
        };
        each_filled(&mut self.filled[half], &mut self.each, &mut flush);
        if half == UPPER {
            each_filled(&mut self.settled, &mut self.each, &mut flush);
        }
    }
}

/// Calls `act` with the number, the mark and the slots of each cluster that is marked.
fn each_filled(
    marks: &mut [u8],
    slots: &mut [Slot],
    mut act: impl FnMut(usize, &mut u8, &mut [Slot]),
) {
    // Eight at a time: nearly all are empty.
    let eights = marks
        .chunks_exact_mut(8)
        .zip(slots.chunks_mut(SLOT_CLUSTER * 8))
        .enumerate();
    for (number, (marks, slots)) in eights.filter(|(_, (marks, _))| **marks != [0; 8]) {
        let clusters = marks.iter_mut().zip(slots.chunks_mut(SLOT_CLUSTER));
        for (place, (mark, slots)) in clusters.enumerate().filter(|(_, (mark, _))| **mark != 0) {
            act(number * 8 + place, mark, slots);
        }
    }
}

/// Empties slots that lead to one `half`; not zero if one is left.
fn flush_cluster(slots: &mut [Slot], half: usize, goes: impl Fn(u64, u64) -> bool) -> u8 {
    let mut left = 0;
    for slot in slots.iter_mut().filter(|slot| half_of(slot.base) == half) {
        if goes(slot.base, slot.limit) {
            slot.limit = 0;
        }
        left |= u8::from(slot.limit != 0);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ContextMemory;

    const BELOW: u64 = 0x7fff_1234_5000;
    const ABOVE: u64 = 0xffff_8880_0012_3000;

    /// As translated code fills one.
    fn fill(slots: &mut Slots, number: usize, base: u64) {
        slots.each[number].base = base;
        slots.each[number].limit = 0x1000 - 7;
        slots.filled[half_of(base)][number / SLOT_CLUSTER] = 1;
    }

    fn empty() -> ContextMemory {
        ContextMemory::zeroed().unwrap()
    }

    fn lead(slots: &Slots) -> Vec<usize> {
        (0..SLOTS)
            .filter(|&number| slots.each[number].limit != 0)
            .collect()
    }

    #[test]
    fn an_address_space_takes_its_half_and_single_pages_of_the_other() {
        let mut context = empty();
        let slots = &mut context.slots;
        for (number, base) in [(3, BELOW), (4, ABOVE), (700, ABOVE + 0x1000), (5, ABOVE)] {
            fill(slots, number, base);
        }
        fill(slots, 5, BELOW);
        slots.flush_below_and(&[]);
        assert_eq!(lead(slots), [4, 700]);
        slots.flush_below_and(&[ABOVE]);
        assert_eq!(lead(slots), [700]);
        // What is filled after that is seen again, also where a cluster was looked at.
        fill(slots, 701, ABOVE);
        slots.flush_below_and(&[ABOVE]);
        assert_eq!(lead(slots), [700]);
        fill(slots, 702, ABOVE + 0x2000);
        slots.flush_page(ABOVE + 0x1234);
        assert_eq!(lead(slots), [702], "looked at or not");
        slots.flush_below_and(&[ABOVE + 0x7000]);
        slots.flush();
        assert!(lead(slots).is_empty());
    }

    #[test]
    fn a_page_takes_what_may_lead_there() {
        let mut context = empty();
        let slots = &mut context.slots;
        fill(slots, 0, BELOW - 0x5000);
        slots.each[0].limit = 0x6000 - 7;
        fill(slots, SLOTS - 1, BELOW + 0x1000);
        fill(slots, 9, BELOW);
        slots.flush_page(BELOW + 0xfff);
        assert_eq!(lead(slots), [SLOTS - 1]);
    }
}
