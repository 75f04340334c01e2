//! Accounts of a node's time, kept under a time model.
//!
//! Counters of a node since its reset; they only grow. They are not part of an event's encoding, so a trace without a
//! time model has no accounts. The runner passes them to the tracer with each call; analyses turn them into figures.

use bincode::{Decode, Encode};

use crate::codec::not_encoded;
use serde::Serialize;

/// Counters of a node since its reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Account {
    /// Instructions retired.
    pub instructions: u64,
    /// Cycles spent in caches after the first level.
    pub caches: u64,
    /// Cycles spent in memory.
    pub memory: u64,
    /// Cycles without an instruction.
    pub idle: u64,
}

impl Account {
    /// Returns the difference from `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            instructions: self.instructions.wrapping_sub(earlier.instructions),
            caches: self.caches.wrapping_sub(earlier.caches),
            memory: self.memory.wrapping_sub(earlier.memory),
            idle: self.idle.wrapping_sub(earlier.idle),
        }
    }

    /// Returns the saturating sum of both.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            instructions: self.instructions.saturating_add(other.instructions),
            caches: self.caches.saturating_add(other.caches),
            memory: self.memory.saturating_add(other.memory),
            idle: self.idle.saturating_add(other.idle),
        }
    }
}

/// The node's accounts at the call's entry and at its exit (or at its entry again, if it never returned). Not encoded
/// with an event, but in separate columns, and only under a time model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts(pub Option<[Account; 2]>);

not_encoded!(Accounts);
