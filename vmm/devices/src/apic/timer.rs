//! The local APIC's timer: one-shot, periodic and TSC-deadline, in virtual cycles.
//!
//! It fires at the cycle that follows from the guest's writes, even if `expire` is called late;
//! several missed periods count once. `LocalApic` owns it, and the run loop queries its deadline.

use belljar_cpu::Cycles;
use serde::{Deserialize, Serialize};

/// The timer's mode, bits 17 and 18 of its LVT entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    OneShot,
    Periodic,
    TscDeadline,
}

impl Mode {
    pub(super) fn from_lvt(lvt: u32) -> Self {
        match lvt >> 17 & 3 {
            1 => Self::Periodic,
            2 => Self::TscDeadline,
            _ => Self::OneShot,
        }
    }
}

/// The counter. No register counts down: the deadline is known when the counter is loaded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Timer {
    cycles_per_tick: u64,
    divide: u32,
    initial: u32,
    deadline: Option<Cycles>,
    periodic: bool,
}

impl Timer {
    pub(super) fn new(cycles_per_tick: u64) -> Self {
        Self {
            cycles_per_tick: cycles_per_tick.max(1),
            divide: 0,
            initial: 0,
            deadline: None,
            periodic: false,
        }
    }

    pub(super) fn reset(&mut self) {
        *self = Self::new(self.cycles_per_tick);
    }

    pub(super) fn deadline(&self) -> Option<Cycles> {
        self.deadline
    }

    pub(super) fn initial(&self) -> u32 {
        self.initial
    }

    pub(super) fn divide(&self) -> u32 {
        self.divide
    }

    /// Starts the counter, or stops it with zero.
    pub(super) fn load(&mut self, count: u32, mode: Mode, now: Cycles) {
        if mode == Mode::TscDeadline {
            return;
        }
        self.initial = count;
        self.periodic = mode == Mode::Periodic;
        self.deadline = (count != 0).then(|| now.saturating_add(self.period()));
    }

    /// Sets the divide configuration register; a running count continues from its
    /// present value at the new rate.
    pub(super) fn set_divide(&mut self, value: u32, now: Cycles) {
        let left = self.current(now);
        self.divide = value & 0b1011;
        if self.initial != 0 && self.deadline.is_some() {
            let rest = u64::from(left.max(1)).saturating_mul(self.tick());
            self.deadline = Some(now.saturating_add(rest));
        }
    }

    /// Switching between the counter's modes and TSC-deadline disarms the timer;
    /// between one-shot and periodic only the reload changes.
    pub(super) fn switch(&mut self, from: Mode, to: Mode) {
        if (from == Mode::TscDeadline) != (to == Mode::TscDeadline) {
            self.deadline = None;
            self.initial = 0;
        }
        self.periodic = to == Mode::Periodic;
    }

    /// Arms the TSC deadline, or disarms it with zero.
    pub(super) fn set_tsc_deadline(&mut self, tsc: u64) {
        self.deadline = (tsc != 0).then_some(tsc);
    }

    /// The value of the current-count register.
    pub(super) fn current(&self, now: Cycles) -> u32 {
        let Some(deadline) = self.deadline.filter(|_| self.initial != 0) else {
            return 0;
        };
        let ticks = deadline.saturating_sub(now).div_ceil(self.tick());
        u32::try_from(ticks).unwrap_or(u32::MAX).min(self.initial)
    }

    /// True if the deadline has passed. A periodic timer moves to its first deadline after `now`,
    /// so several missed periods count once.
    pub(super) fn expire(&mut self, now: Cycles) -> bool {
        let Some(deadline) = self.deadline.filter(|deadline| *deadline <= now) else {
            return false;
        };
        self.deadline = None;
        if self.periodic && self.initial != 0 {
            let period = self.period();
            let missed = (now - deadline) / period;
            let last = deadline.saturating_add(missed.saturating_mul(period));
            self.deadline = last.checked_add(period);
        }
        true
    }

    /// Cycles per count: the divider is 2, 4, ... 128, then 1, by bits 0, 1 and 3.
    fn tick(&self) -> u64 {
        let code = self.divide & 3 | self.divide >> 1 & 4;
        self.cycles_per_tick << ((code + 1) & 7)
    }

    fn period(&self) -> u64 {
        u64::from(self.initial).saturating_mul(self.tick())
    }
}
