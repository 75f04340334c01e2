//! Seams that group checks met recently, and whether to map their pages adjacently.
//!
//! This only affects speed. `memory::beside` queries it when a slot was filled too often.

use std::collections::BTreeSet;

/// Number of seams kept. Loops over large arrays meet many seams, each rarely.
pub(crate) const RECENT: usize = 16;

/// Recent seams.
#[derive(Debug, Default)]
pub(crate) struct Seams {
    pub(crate) recent: [u64; RECENT],
    pub(crate) next: usize,
    /// Slots that met a new seam once.
    pub(crate) excused: BTreeSet<u32>,
}

/// The action for a seam.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// It was met before: map its pages adjacently.
    Mend,
    /// Wait until it is met again.
    Wait,
    /// This slot's seams never repeat.
    Leave,
}

impl Seams {
    pub(crate) fn meet(&mut self, slot: u32, seam: u64) -> Advice {
        if let Some(known) = self.recent.iter_mut().find(|known| **known == seam) {
            *known = 0;
            return Advice::Mend;
        }
        self.recent[self.next % RECENT] = seam;
        self.next += 1;
        if self.excused.insert(slot) {
            Advice::Wait
        } else {
            Advice::Leave
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_met_again_is_mended() {
        let mut seams = Seams::default();
        assert_eq!(seams.meet(1, 0x1000), Advice::Wait);
        assert_eq!(seams.meet(2, 0x1000), Advice::Mend);
        assert_eq!(seams.meet(2, 0x1000), Advice::Wait, "it did not help");
        assert_eq!(seams.meet(1, 0x2000), Advice::Leave);
        for page in 3..3 + RECENT as u64 {
            assert_eq!(seams.meet(1, page << 12), Advice::Leave);
        }
        assert_eq!(seams.meet(1, 0x1000), Advice::Leave, "too long ago");
    }
}
