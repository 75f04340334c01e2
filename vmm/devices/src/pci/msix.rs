//! MSI-X: the table of messages and the pending bits.
//!
//! A masked message is pending until it is unmasked, and sent once then. The node sends messages to its interrupt
//! controller.

use serde::{Deserialize, Serialize};

/// Bytes of a table entry: address, data, control.
const ENTRY: u64 = 16;
const MASKED: u32 = 1;

/// A message: a write of `data` to `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Guest-physical address of the write.
    pub address: u64,
    /// The value.
    pub data: u32,
}

/// The table and the pending bits of a function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MsiX {
    /// Address, upper address, data, control.
    table: Vec<[u32; 4]>,
    pending: Vec<bool>,
}

impl MsiX {
    /// A table of `vectors` masked messages.
    pub fn new(vectors: u16) -> Self {
        Self {
            table: vec![[0, 0, 0, MASKED]; usize::from(vectors)],
            pending: vec![false; usize::from(vectors)],
        }
    }

    /// True if a saved table has as many messages.
    pub fn is_like(&self, other: &Self) -> bool {
        self.table.len() == other.table.len() && self.table.len() == other.pending.len()
    }

    /// A load from the table.
    pub fn read(&self, offset: u64, len: u8) -> u64 {
        let dword = |offset: u64| {
            let entry = self.table.get((offset / ENTRY) as usize);
            entry.map_or(0, |entry| u64::from(entry[(offset % ENTRY / 4) as usize]))
        };
        match (offset % 4, len) {
            (0, 4) => dword(offset),
            (0, 8) => dword(offset) | dword(offset + 4) << 32,
            _ => 0,
        }
    }

    /// A load from the pending bits.
    pub fn read_pending(&self, offset: u64, len: u8) -> u64 {
        let bit = |index: u64| {
            let bits = self.pending.get((offset * 8 + index) as usize);
            u64::from(bits.copied().unwrap_or_default())
        };
        (0..u64::from(len.min(8)) * 8).fold(0, |value, index| value | bit(index) << index)
    }

    /// A store into the table.
    pub fn write(&mut self, offset: u64, len: u8, value: u64) {
        let mut store = |offset: u64, value: u32| {
            if let Some(entry) = self.table.get_mut((offset / ENTRY) as usize) {
                let field = (offset % ENTRY / 4) as usize;
                entry[field] = match field {
                    0 => value & !3,
                    3 => value & MASKED,
                    _ => value,
                };
            }
        };
        if offset.is_multiple_of(4) && (len == 4 || len == 8) {
            store(offset, value as u32);
            if len == 8 {
                store(offset + 4, (value >> 32) as u32);
            }
        }
    }

    /// Requests the message of `vector`; a vector beyond the table has none.
    pub fn request(&mut self, vector: u16) {
        if let Some(pending) = self.pending.get_mut(usize::from(vector)) {
            *pending = true;
        }
    }

    /// Takes the requested messages that are not masked; none while the function is not `enabled` or is masked as a whole.
    pub fn take(&mut self, enabled: bool, all_masked: bool) -> Vec<Message> {
        if !enabled || all_masked || !self.pending.contains(&true) {
            return Vec::new();
        }
        let mut messages = Vec::new();
        for (pending, entry) in self.pending.iter_mut().zip(&self.table) {
            if *pending && entry[3] & MASKED == 0 {
                *pending = false;
                messages.push(Message {
                    address: u64::from(entry[0]) | u64::from(entry[1]) << 32,
                    data: entry[2],
                });
            }
        }
        messages
    }
}
