//! Sums of registers.
//!
//! Each register counts at most `MAX_TIMES` times in a sum, and none counts zero times; a sum that
//! would not fit is none. `symbols` writes addresses as such sums, `strides` tells by them how
//! groups move, and the emitter adds them up.

/// Most often that a register may count in a sum: what it is multiplied by then fits a
/// constant of 32 bits with room.
const MAX_TIMES: i64 = 1 << 12;

/// Registers' values at the beginning of a run that are added up, by their numbers, each with
/// how often it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms(Vec<(u8, i64)>);

impl Terms {
    /// A register's value alone.
    pub(crate) fn register(number: u8) -> Self {
        Self(vec![(number, 1)])
    }

    /// These and `times` the others; none if one counts too often then.
    pub(crate) fn and(mut self, others: &Self, times: i64) -> Option<Self> {
        for &(number, own) in &others.0 {
            let more = own * times;
            match self.0.iter_mut().find(|(known, _)| *known == number) {
                Some((_, sum)) => *sum += more,
                None => self.0.push((number, more)),
            }
        }
        self.0.retain(|&(_, times)| times != 0);
        self.0.sort_unstable();
        let fits = self.0.iter().all(|&(_, times)| times.abs() <= MAX_TIMES);
        fits.then_some(self)
    }

    /// The registers, in the order of their numbers, with how often each counts, which is
    /// never zero.
    pub(crate) fn each(&self) -> &[(u8, i64)] {
        &self.0
    }

    /// The registers, each as often as it counts, where none is taken away.
    pub(crate) fn repeated(&self) -> impl Iterator<Item = u8> {
        let each = self.0.iter();
        each.flat_map(|&(number, times)| std::iter::repeat_n(number, times.max(0) as usize))
    }
}
