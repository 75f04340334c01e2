//! The limits of a run.
//!
//! Set by `run` when a run begins; translated code counts down the rest in the context.

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Ticks granted to the present run.
    pub(crate) granted: i64,
    /// True if the present run may end where the budget does not cover a whole block.
    pub(crate) ends_early: bool,
    /// Number of retired instructions at which every run ends.
    pub(crate) stop_at: u64,
    /// The place of translated code's counter.
    pub(crate) place: BudgetPlace,
}

impl Budget {
    /// No grant yet, and no limit on instructions.
    pub(crate) fn new(place: BudgetPlace) -> Self {
        Self {
            granted: 0,
            ends_early: false,
            stop_at: u64::MAX,
            place,
        }
    }
}

/// The place of the budget while translated code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetPlace {
    /// Always in memory or in a vector register of the host.
    Fixed,
    /// In memory, since the host's x87 holds the guest's.
    Joined,
    /// In MM7; the guest's x87 is in its reset state. See [`apart`](crate::instructions::apart).
    Apart,
}

impl BudgetPlace {
    /// Moves it to MM7 if that is possible at all and `wanted` is true.
    pub(crate) fn moved(self, wanted: bool) -> Self {
        match (self, wanted) {
            (Self::Fixed, _) => Self::Fixed,
            (_, true) => Self::Apart,
            (_, false) => Self::Joined,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BudgetPlace::{Apart, Fixed, Joined};

    #[test]
    fn a_budget_that_is_fixed_never_moves() {
        assert_eq!([Fixed.moved(true), Fixed.moved(false)], [Fixed; 2]);
        assert_eq!([Joined.moved(true), Apart.moved(true)], [Apart; 2]);
        assert_eq!([Joined.moved(false), Apart.moved(false)], [Joined; 2]);
    }
}
