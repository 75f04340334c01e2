//! What an instruction that accesses device registers has asked of devices and has to tell
//! them.
//!
//! An instruction that needs a device's answer ends with an exit and runs again when the answer is
//! there; `Replies` has the answers of the runs before. `Stores` has what is told to devices when
//! the instruction is done, before anything else happens. `access` fills both, and saved states
//! have them.

use std::collections::VecDeque;

use belljar_cpu::Exit;
use serde::{Deserialize, Serialize};

/// The most that a device is asked for or told at a time.
pub(crate) const DEVICE_BYTES: usize = 8;

/// Everything that stands between an instruction and the devices that it accesses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    /// The answer to the last read exit.
    pub(crate) answer: Answer,
    /// The answers before it.
    pub(crate) replies: Replies,
    /// What devices have to be told before the guest continues.
    pub(crate) stores: Stores,
    /// Linear address of the operand in the bounce buffer.
    pub(crate) bounced: u64,
    /// RIP of a WRMSR that the caller may still refuse.
    pub(crate) refusable: Option<u64>,
    /// It was refused: an exception is to be taken before the next instruction.
    pub(crate) refused: bool,
}

/// An answer to the question of a read exit, for when its instruction runs again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// There is none.
    #[default]
    None,
    /// The value read.
    Value(u64),
    /// There is no such register.
    Refused,
}

/// What devices answered to the reads of an instruction that runs again for each of
/// them, in order: one that reads two registers would ask for ever otherwise.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Replies {
    values: Vec<u64>,
    used: usize,
}

impl Replies {
    /// The instruction starts over.
    pub(crate) fn begin(&mut self) {
        self.used = 0;
    }

    /// The instruction is done, or a part of it that will not be repeated.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.used = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The answer to the next read, when it was given before.
    pub(crate) fn next(&mut self) -> Option<u64> {
        self.values.get(self.used).copied()
    }

    /// Notes that the next read was answered with `value`.
    pub(crate) fn keep(&mut self, value: u64) {
        if self.used == self.values.len() {
            self.values.push(value);
        }
        self.used += 1;
    }
}

/// Stores to devices of an instruction that is done, in order: one that stores twice, or more
/// bytes than [`DEVICE_BYTES`], takes an exit for each.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stores {
    /// Guest-physical address, bytes and value of each.
    waiting: VecDeque<(u64, u8, u64)>,
}

impl Stores {
    /// Notes a store of `data` to the registers at `physical`.
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

    /// The next one, as an exit.
    pub(crate) fn pop(&mut self) -> Option<Exit> {
        let (addr, len, data) = self.waiting.pop_front()?;
        Some(Exit::MmioWrite { addr, len, data })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Forgets all but the first `kept`.
    pub(crate) fn truncate(&mut self, kept: usize) {
        self.waiting.truncate(kept);
    }

    /// The instruction starts over: it has stored nothing.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }
}
