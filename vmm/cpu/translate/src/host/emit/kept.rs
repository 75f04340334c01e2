//! Saved flags: stored in the context while checks change them.
//!
//! A check of an access is short if it may clobber flags; if they are live it takes twice the code.
//! Flags may be live throughout a block, such as one of loads, stores and a call that never uses a
//! flag. For several consecutive accesses of that kind, flags are saved in the context: in a trace
//! during the group checks at its beginning, in a plain block from check to check.

use iced_x86::OpKind;

use super::Emitter;
use super::deferred::computes;
use crate::context::at;
use crate::guest::analyse::InstructionClass;
use crate::guest::decode::GuestInstruction;
use crate::guest::flags::names_no_flag;
use crate::guest::groups::{GroupPlan, Scattered, plan};
use crate::guest::mode::Pace;
use crate::guest::size::CodeSize;
use crate::host::asm::{RAX, S1};

/// Number of additional grouped accesses for which saving flags is worthwhile.
const WORTH: usize = 2;
/// Number of consecutive checks in a plain block for which it is worthwhile.
const WORTH_PLAIN: usize = 2;

/// The points at which flags are saved.
#[derive(Debug, Default)]
pub(super) struct Keeps {
    /// True during the group checks at a trace's beginning.
    pub(super) checks: bool,
    /// In a plain block: for each instruction, true if flags are saved over it.
    over: Vec<bool>,
}

impl Keeps {
    pub(super) fn clear(&mut self) {
        self.checks = false;
        self.over.clear();
    }
}

impl Emitter {
    /// Plans the checks of `run`; `dead` is true for instructions before which flags are dead.
    pub(super) fn plan_checks(
        &mut self,
        run: &[GuestInstruction],
        dead: &[bool],
        scattered: Scattered<'_>,
    ) {
        self.plan = plan(run, dead, scattered);
        if dead[0] {
            return;
        }
        let mut kept = dead.to_vec();
        kept[0] = true;
        let other = plan(run, &kept, scattered);
        if grouped(&other) >= grouped(&self.plan) + WORTH {
            self.plan = other;
            self.keeps.checks = true;
        }
    }

    /// Plans the instructions of the plain block `run` over which flags are saved.
    pub(super) fn plan_keeping(&mut self, run: &[GuestInstruction], dead: &[bool]) {
        self.keeps.over.resize(run.len(), false);
        if self.mode.size != CodeSize::Long || self.mode.pace != Pace::Full {
            return;
        }
        let mut begin = 0;
        while begin < run.len() {
            let rest = run[begin..].iter().zip(&dead[begin..]);
            let length = rest.take_while(|(guest, dead)| !**dead && leaves_flags(guest));
            let length = length.count();
            let end = begin + length;
            // The entry has checks without an access.
            let entry = usize::from(begin == 0);
            let checks: usize = run[begin..end].iter().map(accesses).sum();
            if checks + entry >= WORTH_PLAIN {
                let first = run[begin..end].iter().position(|guest| accesses(guest) > 0);
                let first = if begin == 0 {
                    0
                } else {
                    begin + first.unwrap_or(0)
                };
                self.keeps.over[first..end].fill(true);
            }
            begin = end + 1;
        }
    }

    /// Saves or restores flags as planned for instruction `index`.
    pub(super) fn keep_over(&mut self, index: usize) {
        let keeps = self.keeps.over.get(index).copied().unwrap_or(false);
        match (keeps, self.flags_kept) {
            (true, false) => self.keep_flags(),
            (false, true) => self.end_kept_flags(),
            _ => {}
        }
    }

    /// Saves the arithmetic flags. Clobbers S1.
    pub(super) fn keep_flags(&mut self) {
        self.asm.mov(S1, RAX);
        self.asm.flags_to_ax();
        self.asm.store(at::KEPT_FLAGS, RAX);
        self.asm.mov(RAX, S1);
        self.flags_kept = true;
    }

    /// Restores saved flags. Clobbers S1.
    pub(super) fn end_kept_flags(&mut self) {
        if !self.flags_kept {
            return;
        }
        self.asm.spoil();
        self.asm.mov(S1, RAX);
        self.asm.load(RAX, at::KEPT_FLAGS);
        self.asm.flags_from_ax();
        self.asm.mov(RAX, S1);
        self.flags_kept = false;
    }
}

fn grouped(plan: &GroupPlan) -> usize {
    plan.uses.iter().flatten().count()
}

/// True if an instruction of a plain block neither uses flags nor faults on the host, and leaves
/// translated code, if at all, only at a check or at its end.
fn leaves_flags(guest: &GuestInstruction) -> bool {
    let instruction = &guest.instruction;
    match guest.class {
        InstructionClass::Nop
        | InstructionClass::Lea
        | InstructionClass::Push
        | InstructionClass::Pop
        | InstructionClass::Leave
        | InstructionClass::Jump
        | InstructionClass::Call
        | InstructionClass::Ret
        | InstructionClass::JumpIndirect
        | InstructionClass::CallIndirect => true,
        InstructionClass::Plain | InstructionClass::Memory { .. } => {
            names_no_flag(instruction) && computes(instruction)
        }
        _ => false,
    }
}

/// Number of checked accesses of an instruction that [`leaves_flags`].
fn accesses(guest: &GuestInstruction) -> usize {
    let in_memory = usize::from(guest.instruction.op0_kind() == OpKind::Memory);
    match guest.class {
        InstructionClass::Memory { .. }
        | InstructionClass::Pop
        | InstructionClass::Leave
        | InstructionClass::Call
        | InstructionClass::Ret => 1,
        InstructionClass::Push | InstructionClass::CallIndirect => 1 + in_memory,
        InstructionClass::JumpIndirect => in_memory,
        _ => 0,
    }
}
