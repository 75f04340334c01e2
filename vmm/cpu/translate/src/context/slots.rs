//! The slots of group checks: the memory that each accessed last.
//!
//! A filled slot refers to memory that was accessible when it was filled. `flush` clears the slots
//! whose pages may have changed, and finds them by a mark per cluster of slots. Translated code
//! fills slots itself (`emit/group`) and sets the marks.

use super::{LONGEST_SPAN, SLOTS};

/// The halves of the address space.
pub(super) const LOWER: usize = 0;
const UPPER: usize = 1;
pub(super) const HALVES: [usize; 2] = [LOWER, UPPER];

pub(super) fn half_of(linear: u64) -> usize {
    (linear >> 63) as usize
}

/// A group check's slot. An address is in its range of guest memory if the distance from `base` is
/// below `limit`. All fields that a check needs share a cache line of the host: with many nodes
/// taking turns, no line is cached when a turn begins.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct Slot {
    /// Length of the range from `base`; zero for an empty slot.
    pub limit: u64,
    /// Linear address of the range's first byte.
    pub base: u64,
    /// Host address less linear address; for a constant address the host page.
    pub delta: u64,
    /// Number of fills left until the slot's usefulness is checked.
    pub fills: i32,
}

/// Number of slots that are searched together when some must be cleared.
pub const SLOT_CLUSTER: usize = 16;

/// All slots of group checks.
#[repr(C)]
pub struct Slots {
    /// Nonzero for clusters in which a slot may refer to the lower half of the address space, and
    /// to the upper: every fill sets it. Address spaces change far more often than most slots are
    /// filled, and share the upper half.
    pub filled: [[u8; SLOTS / SLOT_CLUSTER]; 2],
    /// For the upper half: nonzero for clusters that were checked at a change of the address space
    /// and not filled since, so that their slots only refer to global pages.
    settled: [u8; SLOTS / SLOT_CLUSTER],
    /// The slots, by number.
    pub each: [Slot; SLOTS],
}

impl Slots {
    /// Clears all slots. Clusters never filled are skipped: they may have no memory yet.
    pub fn flush(&mut self) {
        for half in HALVES {
            self.flush_where(half, |_, _| true);
        }
    }

    /// Clears slots that refer to the lower half of the address space, or whose range begins at one
    /// of the `starts` in the upper half: all pages there that are not global.
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

    /// Clears slots that may refer to the page that contains `linear`.
    #[inline]
    pub fn flush_page(&mut self, linear: u64) {
        let page = linear & !0xfff;
        self.flush_where(half_of(linear), |base, limit| {
            page.wrapping_sub(base) < limit.saturating_add(LONGEST_SPAN)
        });
    }

    /// Clears slots that refer to one half of the address space.
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

/// Calls `act` with the number, the mark and the slots of each marked cluster.
fn each_filled(
    marks: &mut [u8],
    slots: &mut [Slot],
    mut act: impl FnMut(usize, &mut u8, &mut [Slot]),
) {
    // Eight marks at a time: nearly all are zero.
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

/// Clears slots that refer to one `half`; returns nonzero if a filled one remains.
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

    /// Fills a slot as translated code does.
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
        // Later fills are found again, also in clusters already checked.
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
