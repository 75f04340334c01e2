//! What a run may take, and where it ends before that.
//!
//! Set by `run` when a run begins; translated code counts the rest down in the context.

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Ticks granted to the present run.
    pub(crate) granted: i64,
    /// The present run may end where the budget does not cover a whole block.
    pub(crate) ends_early: bool,
    /// Retired instructions at which every run ends.
    pub(crate) stop_at: u64,
    /// Where translated code counts.
    pub(crate) place: BudgetPlace,
}

impl Budget {
    /// Nothing is granted yet, and no instruction is one to stop at.
    pub(crate) fn new(place: BudgetPlace) -> Self {
        Self {
            granted: 0,
            ends_early: false,
            stop_at: u64::MAX,
            place,
        }
    }
}

/// Where the budget is while translated code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetPlace {
    /// In memory or a vector register of the host, always.
    Fixed,
    /// In memory, since the host's x87 holds the guest's.
    Joined,
    /// In MM7; the guest's x87 is as after reset. See [`apart`](crate::instructions::apart).
    Apart,
}

impl BudgetPlace {
    /// In MM7 if it may be there at all and `wanted` is true.
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
