//! Calls that programs repeat in loops to wait.
//!
//! Their number depends on how long a program waits, not on its work. Unsuccessful polls that follow one another and are alike
//! may therefore be one record, with sums in [`Polls`](polls::Polls). Used where a run records and reports them, and by
//! analyses of a program's work.

/// Folds consecutive polls into one record.
pub(crate) mod fold;

use bincode::{Decode, Encode};

use crate::account::Account;
use crate::codec::not_encoded;

/// Most calls that one record stands for: sums over all records of a trace stay within 64 bits.
pub const MOST_POLLS: u64 = 1 << 32;

/// Consecutive, equal and unsuccessful calls of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Polls {
    /// The number of calls.
    pub calls: u64,
    /// Total cycles in the calls, saturating.
    pub inside: u64,
    /// Cycles in the shortest.
    pub shortest: u64,
    /// Cycles in the longest.
    pub longest: u64,
    /// The node's account of the time in these calls; zeros without a time model.
    pub account: Account,
    /// Distinguishes calls by their subject where arguments do not. Not part of a trace: 0 in records that were read.
    pub subject: u64,
}

impl Polls {
    /// Creates a record of one call of this many cycles, in which the node spent its time according to `account`.
    pub fn one(cycles: u64, account: Account, subject: u64) -> Self {
        Self {
            calls: 1,
            inside: cycles,
            shortest: cycles,
            longest: cycles,
            account,
            subject,
        }
    }

    /// Adds the polls that follow.
    pub(crate) fn add(&mut self, next: &Self) {
        self.calls = self.calls.saturating_add(next.calls);
        self.inside = self.inside.saturating_add(next.inside);
        self.shortest = self.shortest.min(next.shortest);
        self.longest = self.longest.max(next.longest);
        self.account = self.account.plus(&next.account);
    }
}

/// The [`Polls`] that an event stands for. In a trace, an event that stands for one call has `None`; before that, an
/// unsuccessful poll has its own sums here. Not encoded with an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded(pub Option<Box<Polls>>);

not_encoded!(Folded);
