//! Costs of string instructions under a time model.
//!
//! Lines are accessed in the order of bytes, so the number of steps of a copy has no effect.
//! `string` calls `touch_elements` for each copy, and `pay_elements` once for each part of an
//! instruction.

use belljar_translate::prices::timing::LINE_BYTES;

use super::{StringOp, StringOperation};
use crate::processor::vcpu::ExactVcpu;

/// The last lines accessed by a string instruction: the source's and the target's.
pub(super) type Trail = [Option<u64>; 2];

impl StringOperation {
    /// True for operations with a source in memory, and true for ones with a target in memory.
    pub(super) fn sides(self) -> [bool; 2] {
        match self {
            Self::Move | Self::Compare => [true, true],
            Self::Load | Self::Output => [true, false],
            Self::Store | Self::Scan | Self::Input => [false, true],
        }
    }

    fn writes(self) -> bool {
        matches!(self, Self::Move | Self::Store | Self::Input)
    }
}

impl ExactVcpu {
    /// Accounts for `elements` elements from the addresses `from` on, ascending. Lines are accessed
    /// in the order of bytes, the source's before the target's, each once: the number of steps has
    /// no effect.
    pub(super) fn touch_elements(
        &mut self,
        op: StringOp,
        from: (u64, u64),
        elements: u64,
        trail: &mut Trail,
    ) {
        if !self.has_caches() {
            return;
        }
        let bytes = elements * op.size as u64;
        let mut at = 0;
        while at < bytes {
            let mut step = bytes - at;
            for (side, start) in [from.0, from.1].into_iter().enumerate() {
                if !op.operation.sides()[side] {
                    continue;
                }
                let linear = self.state.wrap_linear(start.wrapping_add(at));
                step = step.min(LINE_BYTES - linear % LINE_BYTES);
                if trail[side].replace(linear / LINE_BYTES) == Some(linear / LINE_BYTES) {
                    continue;
                }
                let writes = side == 1 && op.operation.writes();
                if let Some(physical) = self.physical_at(linear, writes) {
                    self.touch_string(linear, physical);
                }
            }
            at += step;
        }
    }

    /// Charges for `done` elements of a repeated instruction, beyond its own price, which is `paid`
    /// or not: REP MOVS and REP STOS move 64 bytes at a time.
    pub(super) fn pay_elements(&mut self, op: StringOp, done: u64, paid: bool) {
        let units = match op.operation {
            StringOperation::Move | StringOperation::Store => {
                (done * op.size as u64).div_ceil(LINE_BYTES)
            }
            _ => done,
        };
        if let Some(accounting) = &self.accounting {
            let ticks = match &accounting.path {
                Some(path) if op.operation.writes() => {
                    let bytes = done * op.size as u64;
                    path.written(bytes, self.target(op).wrapping_sub(bytes))
                }
                Some(path) => path.elements(done),
                None => accounting.prices.of_elements(units, u64::from(paid)),
            };
            self.context.count -= ticks as i64;
        }
    }
}
