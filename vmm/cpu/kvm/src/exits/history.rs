//! The last exits of a vCPU, for diagnosing a guest that ended unexpectedly. AMD's virtualisation
//! resets a processor that shuts down, so its registers are lost by then.

use std::collections::VecDeque;
use std::fmt;

use belljar_cpu::Cycles;
use kvm_bindings::kvm_regs;

use crate::exits::decode::RawExit;

/// Number of steps that are kept.
const KEPT: usize = 32;

/// An entry into the guest with its exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExitRecord {
    /// The guest's clock at the exit, in cycles.
    pub at: Cycles,
    /// The interrupt that was injected at the entry.
    pub interrupt: Option<u8>,
    /// The exit.
    pub exit: RawExit,
    pub rip: u64,
    pub rsp: u64,
    pub rflags: u64,
    /// Number of consecutive occurrences.
    pub times: u32,
}

impl ExitRecord {
    pub(crate) fn new(
        at: Cycles,
        interrupt: Option<u8>,
        exit: RawExit,
        registers: &kvm_regs,
    ) -> Self {
        Self {
            at,
            interrupt,
            exit,
            rip: registers.rip,
            rsp: registers.rsp,
            rflags: registers.rflags,
            times: 1,
        }
    }

    /// True if both steps are mere interruptions, so that only time passed between them.
    fn repeats(&self, earlier: &Self) -> bool {
        let idle = |step: &Self| step.exit == RawExit::Interrupted;
        idle(self) && idle(earlier) && self.interrupt.is_none()
    }
}

impl fmt::Display for ExitRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, rip, rsp, .. } = self;
        write!(f, "{at}: ")?;
        if let Some(vector) = self.interrupt {
            write!(f, "interrupt {vector:#x}, then ")?;
        }
        write!(f, "{:x?}", self.exit)?;
        if self.times > 1 {
            write!(f, " {} times", self.times)?;
        }
        write!(f, " at rip {rip:#x} rsp {rsp:#x} rflags {:#x}", self.rflags)
    }
}

/// The last steps of a vCPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    steps: VecDeque<ExitRecord>,
}

impl History {
    pub(crate) fn note(&mut self, step: ExitRecord) {
        if let Some(last) = self.steps.back_mut()
            && step.repeats(last)
        {
            let (interrupt, times) = (last.interrupt, last.times);
            *last = ExitRecord {
                interrupt,
                times: times.saturating_add(1),
                ..step
            };
            return;
        }
        if self.steps.len() == KEPT {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }

    /// The steps as text, the last one first.
    pub(crate) fn told(&self) -> String {
        let steps: Vec<String> = self.steps.iter().rev().map(ExitRecord::to_string).collect();
        steps.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at: Cycles, interrupt: Option<u8>, exit: RawExit) -> ExitRecord {
        let registers = kvm_regs {
            rip: 0x1000 + at,
            ..kvm_regs::default()
        };
        ExitRecord::new(at, interrupt, exit, &registers)
    }

    #[test]
    fn the_last_steps_are_told_last_first() {
        let mut history = History::default();
        for at in 0..40 {
            history.note(step(at, None, RawExit::Halt));
        }
        let told = history.told();
        assert_eq!(told.split("; ").count(), KEPT);
        assert!(told.starts_with("39: Halt at rip 0x1027"), "{told}");
        assert!(!told.contains("7: Halt at rip 0x1007"), "{told}");
    }

    #[test]
    fn time_that_passes_takes_no_room() {
        let mut history = History::default();
        history.note(step(1, None, RawExit::Halt));
        history.note(step(2, Some(0x20), RawExit::Interrupted));
        history.note(step(3, None, RawExit::Interrupted));
        history.note(step(4, None, RawExit::Interrupted));
        history.note(step(5, Some(0x21), RawExit::Interrupted));
        let told = history.told();
        let expected = "4: interrupt 0x20, then Interrupted 3 times at rip 0x1004";
        assert!(told.contains(expected), "{told}");
        assert_eq!(told.split("; ").count(), 3);
    }
}
