//! A set of interrupt vectors: the contents of IRR, ISR or TMR.
//!
//! Higher vectors have higher priority. `LocalApic` has three of them.

use serde::{Deserialize, Serialize};

/// 256 bits, one per vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VectorSet([u32; 8]);

impl VectorSet {
    pub(super) fn set(&mut self, vector: u8) {
        self.0[usize::from(vector >> 5)] |= 1 << (vector & 31);
    }

    pub(super) fn clear(&mut self, vector: u8) {
        self.0[usize::from(vector >> 5)] &= !(1 << (vector & 31));
    }

    pub(super) fn assign(&mut self, vector: u8, on: bool) {
        if on {
            self.set(vector);
        } else {
            self.clear(vector);
        }
    }

    pub(super) fn contains(&self, vector: u8) -> bool {
        self.0[usize::from(vector >> 5)] >> (vector & 31) & 1 == 1
    }

    pub(super) fn highest(&self) -> Option<u8> {
        let (index, word) = self
            .0
            .iter()
            .enumerate()
            .rev()
            .find(|(_, word)| **word != 0)?;
        Some((index as u8) << 5 | word.ilog2() as u8)
    }

    /// The 32 bits of register `index` (0 to 7).
    pub(super) fn word(&self, index: u8) -> u32 {
        self.0[usize::from(index & 7)]
    }
}
