//! Ranges of linear addresses known to be contiguous in host memory.
//!
//! Each range has a constant difference of host and linear addresses; the oldest one is replaced if
//! there are too many. Ranges are discarded with the TLB entries of their pages. Each view of the
//! context has ranges for reading and for writing; `explore` looks here first.

/// Number of ranges kept; the oldest is replaced.
const KEPT: usize = 16;

/// A range of linear addresses with a constant difference to their host addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Range {
    /// The first address.
    pub start: u64,
    /// Length; zero for an unused entry.
    pub bytes: u64,
    /// Host address less linear address.
    pub delta: u64,
}

impl Range {
    fn holds(&self, linear: u64) -> bool {
        linear.wrapping_sub(self.start) < self.bytes
    }

    /// The address after its last one.
    #[inline]
    pub fn end(&self) -> u64 {
        self.start.wrapping_add(self.bytes)
    }
}

/// The readable, or the writable, ranges of a privilege level.
#[derive(Default)]
#[repr(C)]
pub struct Explored {
    ranges: [Range; KEPT],
    oldest: u64,
}

impl Explored {
    /// The range that contains `linear`.
    #[inline]
    pub fn around(&self, linear: u64) -> Option<Range> {
        self.ranges
            .iter()
            .copied()
            .find(|range| range.holds(linear))
    }

    /// A range that is adjacent to `range` and contiguous with it.
    #[inline]
    pub fn beside(&self, range: Range) -> Option<Range> {
        let joins = |other: &&Range| {
            let touches = other.end() == range.start || range.end() == other.start;
            other.bytes != 0 && other.delta == range.delta && touches
        };
        self.ranges.iter().find(joins).copied()
    }

    /// Adds `range`, which absorbs the ranges that begin in it and have its delta.
    #[inline]
    pub fn keep(&mut self, range: Range) {
        for kept in &mut self.ranges {
            if range.holds(kept.start) && kept.delta == range.delta {
                kept.bytes = 0;
            }
        }
        let free = self.ranges.iter().position(|kept| kept.bytes == 0);
        let place = free.unwrap_or(self.oldest as usize % KEPT);
        self.ranges[place] = range;
        self.oldest += u64::from(free.is_none());
    }

    /// Discards everything.
    pub(crate) fn forget(&mut self) {
        for range in &mut self.ranges {
            range.bytes = 0;
        }
    }

    /// Discards the range that contains `linear`.
    pub(crate) fn forget_around(&mut self, linear: u64) {
        self.forget_where(|range| range.holds(linear));
    }

    /// Discards ranges that contain the host page at `host`.
    pub(crate) fn forget_over(&mut self, host: u64) {
        self.forget_where(|range| range.holds(host.wrapping_sub(range.delta)));
    }

    fn forget_where(&mut self, goes: impl Fn(&Range) -> bool) {
        for range in self.ranges.iter_mut().filter(|range| goes(range)) {
            range.bytes = 0;
        }
    }

    /// Discards ranges that begin in the lower half of the address space.
    pub(crate) fn forget_below(&mut self) {
        for range in &mut self.ranges {
            if range.start >> 63 == 0 {
                range.bytes = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, bytes: u64, delta: u64) -> Range {
        Range {
            start,
            bytes,
            delta,
        }
    }

    #[test]
    fn a_range_holds_its_addresses_up_to_the_last_one_there_is() {
        let mut explored = Explored::default();
        assert_eq!(explored.around(0), None);
        let top = range(0u64.wrapping_sub(0x2000), 0x2000, 7);
        explored.keep(top);
        explored.keep(range(0x1000, 0x1000, 3));
        assert_eq!(explored.around(u64::MAX), Some(top));
        assert_eq!(explored.around(0), None);
        assert_eq!(explored.around(0x1fff), Some(range(0x1000, 0x1000, 3)));
        assert_eq!(explored.around(0x2000), None);
        explored.forget_below();
        assert_eq!(explored.around(0x1fff), None);
        assert_eq!(explored.around(u64::MAX), Some(top));
        explored.forget();
        assert_eq!(explored.around(u64::MAX), None);
    }

    #[test]
    fn a_page_takes_its_range_alone_with_it() {
        let mut explored = Explored::default();
        let (one, other) = (range(0x1000, 0x2000, 7), range(0x8000, 0x1000, 9));
        explored.keep(one);
        explored.keep(other);
        explored.forget_around(0x3000);
        assert_eq!(explored.around(0x2fff), Some(one));
        explored.forget_around(0x2abc);
        assert_eq!(explored.around(0x1000), None);
        assert_eq!(explored.around(0x8000), Some(other));
        explored.forget_over(0x8000);
        assert_eq!(
            explored.around(0x8000),
            Some(other),
            "another page of the host's"
        );
        explored.forget_over(0x8009);
        assert_eq!(explored.around(0x8000), None);
    }

    #[test]
    fn only_what_hangs_together_is_beside() {
        let mut explored = Explored::default();
        assert_eq!(explored.beside(range(0, 0x1000, 0)), None);
        explored.keep(range(0x1000, 0x1000, 3));
        let kept = Some(range(0x1000, 0x1000, 3));
        assert_eq!(explored.beside(range(0x2000, 0x1000, 3)), kept);
        assert_eq!(explored.beside(range(0, 0x1000, 3)), kept);
        assert_eq!(explored.beside(range(0x2000, 0x1000, 4)), None);
        assert_eq!(explored.beside(range(0x3000, 0x1000, 3)), None);
    }

    #[test]
    fn a_larger_range_takes_the_place_of_its_parts_and_a_new_one_that_of_the_oldest() {
        let mut explored = Explored::default();
        for page in 0..KEPT as u64 {
            explored.keep(range(page << 13, 0x1000, 3));
        }
        explored.keep(range(0, 0x3000, 3));
        assert_eq!(explored.around(0x800), Some(range(0, 0x3000, 3)));
        assert_eq!(explored.around(0x2800), Some(range(0, 0x3000, 3)));
        // One entry is free; the next range replaces the first one.
        explored.keep(range(0x9_0000, 0x1000, 3));
        assert_eq!(explored.around(0x800), Some(range(0, 0x3000, 3)));
        explored.keep(range(0xa_0000, 0x1000, 3));
        assert_eq!(explored.around(0x800), None);
        assert_eq!(explored.around(0x9_0000), Some(range(0x9_0000, 0x1000, 3)));
    }
}
