//! The deferred stack pointer of a trace: pushes and pops that share their group's check note how
//! far it moved, and the host's register follows where something names it, may fault or may leave.
//!
//! What leaves a trace finds the host's RSP to be the guest's, and catching up changes no flag.
//! `emit` asks before each instruction whether RSP may wait, and pushes and pops move it by this.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::Emitter;
use crate::guest::analyse::Class;
use crate::guest::decode::{Follow, GuestInstruction};
use crate::guest::features::Features;
use crate::host::asm::{RSP, Reg};

/// How far the guest's RSP is from the host's, and whether it may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deferred {
    bytes: i32,
    /// The present instruction lets it wait.
    allowed: bool,
}

/// The farthest that RSP waits: a displacement of its own keeps far from what 32 bits hold.
const FARTHEST: i32 = 1 << 12;

impl Emitter {
    /// Before `guest`, the present instruction: lets RSP catch up unless it may wait.
    pub(super) fn begin_deferred(&mut self, guest: &GuestInstruction) {
        self.deferred.allowed = self.deferred.bytes.abs() < FARTHEST && self.may_defer(guest);
        if !self.deferred.allowed {
            self.catch_up();
        }
    }

    /// Moves the guest's RSP by `bytes`. Changes no flag.
    pub(super) fn move_stack(&mut self, bytes: i32) {
        self.deferred.bytes += bytes;
        if !self.deferred.allowed {
            self.catch_up();
        }
    }

    /// Lets the host's RSP be the guest's. Changes no flag.
    pub(super) fn catch_up(&mut self) {
        if self.deferred.bytes != 0 {
            self.asm.lea(RSP, RSP, self.deferred.bytes);
            self.deferred.bytes = 0;
        }
    }

    /// What must be added to host register `register` for the guest's value.
    pub(super) fn lag_of(&self, register: Reg) -> i32 {
        if register == RSP {
            self.deferred.bytes
        } else {
            0
        }
    }

    /// Whether `guest` neither faults, nor leaves but for code that is put off, nor takes RSP
    /// other than by a checked address.
    fn may_defer(&self, guest: &GuestInstruction) -> bool {
        let uses = self.plan.uses.get(self.index as usize);
        let checked = uses.is_some_and(Option::is_some);
        let instruction = &guest.instruction;
        match guest.class {
            Class::Nop => true,
            Class::Jump => guest.follow == Follow::Target,
            Class::JumpIf => matches!(guest.follow, Follow::Taken | Follow::NotTaken),
            Class::Call => checked && guest.follow == Follow::Target,
            Class::Ret => checked && guest.follow != Follow::Leave,
            Class::Push | Class::Pop => checked && !names_stack(instruction),
            Class::Lea => {
                let base = instruction.memory_base().full_register();
                base != Register::RSP && !names_stack(instruction)
            }
            Class::Plain => computes(instruction) && !names_stack(instruction),
            Class::Memory { .. } => checked && computes(instruction) && !names_stack(instruction),
            _ => false,
        }
    }
}

/// Whether a register operand is the stack pointer or a part of it.
fn names_stack(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand).full_register() == Register::RSP
    })
}

/// Whether all that `instruction` does is to compute with general registers, constants and an
/// operand in memory: no fault comes of it. The x87 has faults that wait, and vector
/// instructions such as CVTSD2SI have their own with the same operands.
pub(super) fn computes(instruction: &Instruction) -> bool {
    let simple = |operand| match instruction.op_kind(operand) {
        OpKind::Register => instruction.op_register(operand).is_gpr(),
        OpKind::Memory => true,
        OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => true,
        _ => false,
    };
    (instruction.op_count() > 0 || widens(instruction.mnemonic()))
        && (0..instruction.op_count()).all(simple)
        && !Features::is_switched(instruction.cpuid_features())
        && !matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv)
}

/// CBW and its like, which name no operand.
fn widens(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Cbw | M::Cwde | M::Cdqe | M::Cwd | M::Cdq | M::Cqo
    )
}
