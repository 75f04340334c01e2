//! Sums of registers.
//!
//! Each register has a nonzero factor of at most `MAX_TIMES` in a sum; a sum beyond that is
//! rejected. `symbols` represents addresses as such sums, `strides` computes groups' movements from
//! them, and the emitter emits their additions.

/// The largest factor of a register in a sum: products with it easily fit a constant of 32 bits.
const MAX_TIMES: i64 = 1 << 12;

/// A sum of registers' initial values, by their numbers, each with its factor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms(Vec<(u8, i64)>);

impl Terms {
    /// The value of a single register.
    pub(crate) fn register(number: u8) -> Self {
        Self(vec![(number, 1)])
    }

    /// The sum of these and `times` the others; `None` if a factor exceeds the limit.
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

    /// The registers, in ascending order, each with its nonzero factor.
    pub(crate) fn each(&self) -> &[(u8, i64)] {
        &self.0
    }

    /// The registers, each repeated by its factor; no factor is negative.
    pub(crate) fn repeated(&self) -> impl Iterator<Item = u8> {
        let each = self.0.iter();
        each.flat_map(|&(number, times)| std::iter::repeat_n(number, times.max(0) as usize))
    }
}
