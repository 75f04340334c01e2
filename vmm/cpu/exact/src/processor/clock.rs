//! Virtual time as a function of ticks: retired instructions, or their costs under a time model.
//!
//! It is computed from the sum of all ticks rather than accumulated in steps, so that the division
//! into runs has no effect. The vCPU has one; `accounting` adds ticks at the end of a run, and
//! `dispatch` queries the number of ticks until a cycle.

use belljar_cpu::Cycles;
use belljar_sim::greatest_common_divisor;

/// Cycles per instruction, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CyclesPerInstruction {
    /// Cycles ...
    pub cycles: u32,
    /// ... for this many instructions; nonzero.
    pub instructions: u32,
}

impl Default for CyclesPerInstruction {
    fn default() -> Self {
        Self {
            cycles: 1,
            instructions: 1,
        }
    }
}

/// The clock: cycles that passed while instructions ran, and skipped ones. The ratio is cycles per
/// tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    ratio: CyclesPerInstruction,
    /// Cycles without instructions.
    skipped: Cycles,
    /// Ticks before this run.
    pub ticks: u64,
    /// Instructions retired before this run: without a time model, the ticks.
    pub retired: u64,
    /// The value that the guest has added to its time-stamp counter.
    pub tsc_offset: u64,
}

impl Clock {
    pub(crate) fn new(ratio: CyclesPerInstruction) -> Self {
        let (cycles, instructions) = (ratio.cycles.max(1), ratio.instructions.max(1));
        // A divisor of a 32-bit number has at most 32 bits.
        let common = greatest_common_divisor(cycles.into(), instructions.into()) as u32;
        let ratio = CyclesPerInstruction {
            cycles: cycles / common,
            instructions: instructions / common,
        };
        Self {
            ratio,
            skipped: 0,
            ticks: 0,
            retired: 0,
            tsc_offset: 0,
        }
    }

    /// True if a tick is a cycle.
    pub(crate) fn counts_cycles(&self) -> bool {
        self.ratio == CyclesPerInstruction::default()
    }

    /// The time after `ticks` ticks.
    pub(crate) fn at(&self, ticks: u64) -> Cycles {
        if self.ratio.instructions == 1 {
            // The clock is read so often that a division would be noticeable.
            return self.skipped + ticks.wrapping_mul(u64::from(self.ratio.cycles));
        }
        let cycles =
            u128::from(ticks) * u128::from(self.ratio.cycles) / u128::from(self.ratio.instructions);
        self.skipped + cycles as u64
    }

    /// The number of further ticks until the time is `until` or later.
    pub(crate) fn ticks_until(&self, until: Cycles) -> u64 {
        let Some(cycles) = until.checked_sub(self.skipped) else {
            return 0;
        };
        if self.ratio.cycles == 1 && self.ratio.instructions == 1 {
            return cycles.saturating_sub(self.ticks);
        }
        let needed = (u128::from(cycles) * u128::from(self.ratio.instructions))
            .div_ceil(u128::from(self.ratio.cycles));
        u64::try_from(needed)
            .unwrap_or(u64::MAX)
            .saturating_sub(self.ticks)
    }

    /// Continues from `cycles` after `retired` instructions and `ticks` ticks.
    pub(crate) fn go_on_from(&mut self, cycles: Cycles, retired: u64, ticks: u64) {
        self.ticks = ticks;
        self.retired = retired;
        self.skipped = 0;
        self.skipped = cycles.saturating_sub(self.at(ticks));
    }

    /// Cycles that passed without an instruction.
    pub(crate) fn idle(&self) -> Cycles {
        self.skipped
    }

    /// Advances the time to `to` without an instruction.
    pub(crate) fn skip_to(&mut self, to: Cycles) {
        let now = self.at(self.ticks);
        self.skipped += to.saturating_sub(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_the_first_instruction_on_or_after_its_deadline() {
        for (cycles, instructions) in [(1, 1), (3, 2), (2, 3), (7, 5), (1000, 1000), (6, 2)] {
            let mut clock = Clock::new(CyclesPerInstruction {
                cycles,
                instructions,
            });
            clock.skip_to(17);
            for until in 0..200 {
                let count = clock.ticks_until(until);
                assert!(clock.at(clock.ticks + count) >= until);
                if count > 0 {
                    assert!(clock.at(clock.ticks + count - 1) < until);
                }
            }
        }
    }
}
