//! Virtual time as a function of ticks: retired instructions, or with a time model
//! what they cost.
//!
//! It is computed from the sum of all ticks and not added up in steps, so that the time is the same
//! however runs are cut. The vCPU has one; `accounting` settles ticks into it at the end of a run, and
//! `dispatch` asks it how many ticks there are until a cycle.

use belljar_cpu::Cycles;
use belljar_sim::greatest_common_divisor;

/// Cycles for each instruction, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CyclesPerInstruction {
    /// Cycles ...
    pub cycles: u32,
    /// ... for that many instructions; not zero.
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

/// The clock: cycles that passed while instructions ran, and those skipped. The ratio
/// is of cycles to ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    ratio: CyclesPerInstruction,
    /// Cycles that no instruction took.
    skipped: Cycles,
    /// Ticks before this run.
    pub ticks: u64,
    /// Instructions retired before this run: without a time model, the ticks.
    pub retired: u64,
    /// What the guest has added to its time-stamp counter.
    pub tsc_offset: u64,
}

impl Clock {
    pub(crate) fn new(ratio: CyclesPerInstruction) -> Self {
        let (cycles, instructions) = (ratio.cycles.max(1), ratio.instructions.max(1));
        // A divisor of 32 bits has no more.
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

    /// Whether a tick is a cycle.
    pub(crate) fn counts_cycles(&self) -> bool {
        self.ratio == CyclesPerInstruction::default()
    }

    /// The time after `ticks` ticks.
    pub(crate) fn at(&self, ticks: u64) -> Cycles {
        if self.ratio.instructions == 1 {
            // The clock is read so often that a division counts.
            return self.skipped + ticks.wrapping_mul(u64::from(self.ratio.cycles));
        }
        let cycles =
            u128::from(ticks) * u128::from(self.ratio.cycles) / u128::from(self.ratio.instructions);
        self.skipped + cycles as u64
    }

    /// How many more ticks it takes until the time is `until` or later.
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

    /// Continues from `cycles` after so many instructions, of which `ticks` were taken.
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

    /// Lets time pass up to `to` without an instruction.
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
