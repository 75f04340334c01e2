//! Pending reads and stores of an instruction that accesses device registers.
//!
//! An instruction that needs a device's answer ends with an exit and runs again after the answer;
//! `Replies` has the answers to its earlier reads. `Stores` has the stores to be sent to devices at
//! the instruction's end, before any other event. `access` fills both, and they are part of saved
//! states.

use std::collections::VecDeque;

use belljar_cpu::Exit;
use serde::{Deserialize, Serialize};

/// The largest access to a device, in bytes.
pub(crate) const DEVICE_BYTES: usize = 8;

/// All pending state between an instruction and its devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingAccesses {
    /// The answer to the last read exit.
    pub(crate) answer: Answer,
    /// The answers before it.
    pub(crate) replies: Replies,
    /// Stores to send to devices before the guest continues.
    pub(crate) stores: Stores,
    /// Linear address of the operand in the bounce buffer.
    pub(crate) bounced: u64,
    /// RIP of a WRMSR that the caller may still refuse.
    pub(crate) refusable: Option<u64>,
    /// True if it was refused: an exception is due before the next instruction.
    pub(crate) refused: bool,
}

/// An answer to a read exit, for when its instruction runs again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// No answer.
    #[default]
    None,
    /// The value read.
    Value(u64),
    /// The register does not exist.
    Refused,
}

/// The answers to the reads of an instruction that runs again after each of them, in order:
/// otherwise an instruction that reads two registers would repeat forever.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Replies {
    values: Vec<u64>,
    used: usize,
}

impl Replies {
    /// Starts the instruction again.
    pub(crate) fn begin(&mut self) {
        self.used = 0;
    }

    /// Clears the answers: the instruction, or a part of it that will not be repeated, is complete.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.used = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The answer to the next read, if it was given before.
    pub(crate) fn next(&mut self) -> Option<u64> {
        self.values.get(self.used).copied()
    }

    /// Records that the next read was answered with `value`.
    pub(crate) fn keep(&mut self, value: u64) {
        if self.used == self.values.len() {
            self.values.push(value);
        }
        self.used += 1;
    }
}

/// Stores to devices of a completed instruction, in order: one that stores twice, or more than
/// [`DEVICE_BYTES`] bytes, needs several exits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stores {
    /// Guest-physical address, length and value of each.
    waiting: VecDeque<(u64, u8, u64)>,
}

impl Stores {
    /// Adds a store of `data` to the registers at `physical`.
    pub(crate) fn push(&mut self, physical: u64, data: &[u8]) {
        for (at, part) in (physical..)
            .step_by(DEVICE_BYTES)
            .zip(data.chunks(DEVICE_BYTES))
        {
            let mut value = [0; DEVICE_BYTES];
            value[..part.len()].copy_from_slice(part);
            let store = (at, part.len() as u8, u64::from_le_bytes(value));
            self.waiting.push_back(store);
        }
    }

    /// The next store, as an exit.
    pub(crate) fn pop(&mut self) -> Option<Exit> {
        let (addr, len, data) = self.waiting.pop_front()?;
        Some(Exit::MmioWrite { addr, len, data })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of pending stores.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Drops all but the first `kept`.
    pub(crate) fn truncate(&mut self, kept: usize) {
        self.waiting.truncate(kept);
    }

    /// Clears the stores, because the instruction starts again.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }
}
