//! The deferred stack pointer of a trace: pushes and pops with a group check only record the change
//! of RSP. The host's register is updated before instructions that use RSP, may fault or may leave.
//!
//! At exits of a trace, the host's RSP is the guest's, and updating it changes no flag. `emit`
//! checks before each instruction if the update may wait; pushes and pops move RSP through these
//! functions.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::Emitter;
use crate::guest::analyse::InstructionClass;
use crate::guest::decode::{Follow, GuestInstruction};
use crate::guest::features::Features;
use crate::host::asm::{RSP, Reg};

/// The difference of the guest's RSP and the host's, and whether a difference is allowed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deferred {
    bytes: i32,
    /// True if the present instruction allows a difference.
    allowed: bool,
}

/// The largest difference: with it, an operand's displacement still fits 32 bits easily.
const FARTHEST: i32 = 1 << 12;

impl Emitter {
    /// Called before `guest`, the present instruction: updates RSP unless that may wait.
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

    /// Updates the host's RSP to the guest's. Changes no flag.
    pub(super) fn catch_up(&mut self) {
        if self.deferred.bytes != 0 {
            self.asm.lea(RSP, RSP, self.deferred.bytes);
            self.deferred.bytes = 0;
        }
    }

    /// The addend that converts host register `register` to the guest's value.
    pub(super) fn lag_of(&self, register: Reg) -> i32 {
        if register == RSP {
            self.deferred.bytes
        } else {
            0
        }
    }

    /// True if `guest` cannot fault, leaves only through deferred code, and uses RSP only in a
    /// checked address.
    fn may_defer(&self, guest: &GuestInstruction) -> bool {
        let uses = self.plan.uses.get(self.index as usize);
        let checked = uses.is_some_and(Option::is_some);
        let instruction = &guest.instruction;
        match guest.class {
            InstructionClass::Nop => true,
            InstructionClass::Jump => guest.follow == Follow::Target,
            InstructionClass::JumpIf => matches!(guest.follow, Follow::Taken | Follow::NotTaken),
            InstructionClass::Call => checked && guest.follow == Follow::Target,
            InstructionClass::Ret => checked && guest.follow != Follow::Leave,
            InstructionClass::Push | InstructionClass::Pop => checked && !names_stack(instruction),
            InstructionClass::Lea => {
                let base = instruction.memory_base().full_register();
                base != Register::RSP && !names_stack(instruction)
            }
            InstructionClass::Plain => computes(instruction) && !names_stack(instruction),
            InstructionClass::Memory { .. } => {
                checked && computes(instruction) && !names_stack(instruction)
            }
            _ => false,
        }
    }
}

/// True if a register operand is the stack pointer or a part of it.
fn names_stack(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand).full_register() == Register::RSP
    })
}

/// True if `instruction` only computes with general registers, constants and a memory operand, so
/// that it cannot fault. The x87 has deferred faults, and vector instructions such as CVTSD2SI have
/// faults of their own with the same operands.
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

/// CBW and similar instructions without explicit operands.
fn widens(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Cbw | M::Cwde | M::Cdqe | M::Cwd | M::Cdq | M::Cqo
    )
}
