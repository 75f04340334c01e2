//! Calls by which programs wait in loops.
//!
//! How often they are made depends on how long a program waits, not on what it does. So those that found nothing and follow
//! one another, alike, may be one record: [`Polls`](polls::Polls) says what of. Used where a run records and reports
//! them, and by analyses that ask what a program does.

/// Makes one record of polls that follow one another.
pub(crate) mod fold;

use bincode::{Decode, Encode};

use crate::account::Account;
use crate::codec::not_encoded;

/// Calls that one record stands for, at most: sums over all records of a trace stay within 64 bits.
pub const MOST_POLLS: u64 = 1 << 32;

/// Calls that found nothing, of one thread, alike and one after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Polls {
    /// How many.
    pub calls: u64,
    /// Cycles in all of them together, saturating.
    pub inside: u64,
    /// Cycles in the shortest.
    pub shortest: u64,
    /// Cycles in the longest.
    pub longest: u64,
    /// What the node's time went into while it was in them; zeros without a time model.
    pub account: Account,
    /// Tells apart what they asked for where arguments do not. No part of a trace: 0 in what was read.
    pub subject: u64,
}

impl Polls {
    /// One, of so many cycles, in which the node's time went into `account`.
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

    /// Adds those that follow.
    pub(crate) fn add(&mut self, next: &Self) {
        self.calls = self.calls.saturating_add(next.calls);
        self.inside = self.inside.saturating_add(next.inside);
        self.shortest = self.shortest.min(next.shortest);
        self.longest = self.longest.max(next.longest);
        self.account = self.account.plus(&next.account);
    }
}

/// The [`Polls`] that an event stands for. An event that stands for one call has none in a trace; on the way there a call that
/// polled and found nothing has those of itself. Not encoded with an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded(pub Option<Box<Polls>>);

not_encoded!(Folded);
