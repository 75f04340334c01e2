//! What a node's time went into, where a time model tells.
//!
//! Sums of a node since its reset that only grow. They are no part of an event's encoding, so a trace
//! without a time model has none of them. The runner gives them to the tracer with each call; analyses make
//! figures of them.

use bincode::{Decode, Encode};

use crate::codec::not_encoded;
use serde::Serialize;

/// Sums of a node since its reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Account {
    /// Instructions retired.
    pub instructions: u64,
    /// Cycles in caches after the first level.
    pub caches: u64,
    /// Cycles in memory.
    pub memory: u64,
    /// Cycles without an instruction.
    pub idle: u64,
}

impl Account {
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            instructions: self.instructions.wrapping_sub(earlier.instructions),
            caches: self.caches.wrapping_sub(earlier.caches),
            memory: self.memory.wrapping_sub(earlier.memory),
            idle: self.idle.wrapping_sub(earlier.idle),
        }
    }

    /// Both together, saturating.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            instructions: self.instructions.saturating_add(other.instructions),
            caches: self.caches.saturating_add(other.caches),
            memory: self.memory.saturating_add(other.memory),
            idle: self.idle.saturating_add(other.idle),
        }
    }
}

/// The sums of its node when a call was entered and when it was left (or again when it
/// was entered, if it never was left). Not encoded with an event, but in columns of
/// their own, and only where there is a time model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts(pub Option<[Account; 2]>);

not_encoded!(Accounts);
