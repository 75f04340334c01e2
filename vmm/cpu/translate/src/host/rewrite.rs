//! Rewrites guest instructions with other registers and another memory operand.
//!
//! R14 and R15 are the translator's own registers on the host, so instructions with them get other
//! registers. Besides that, only the memory operand and LOCK change. `emit/operands` calls these
//! functions before it encodes an instruction.

use iced_x86::{Code, Instruction, OpAccess, OpKind, Register};

use crate::guest::analyse::operands::operand_access;
use crate::host::asm::Operand;

/// Uses of R14 and R15 as explicit register operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spilled {
    pub loads: [bool; 2],
    pub stores: [bool; 2],
}

impl Spilled {
    /// True if neither is used.
    pub(crate) fn is_empty(self) -> bool {
        self.loads == [false; 2]
    }
}

/// 0 for R14 in any width, 1 for R15.
fn spilled_index(register: Register) -> Option<usize> {
    match register {
        Register::R14 | Register::R14D | Register::R14W | Register::R14L => Some(0),
        Register::R15 | Register::R15D | Register::R15W | Register::R15L => Some(1),
        _ => None,
    }
}

/// The register operands of `instruction` that are kept in memory. They are always loaded, so that
/// partial writes keep the other bits.
pub(crate) fn spilled_operands(instruction: &Instruction) -> Spilled {
    let mut spilled = Spilled::default();
    for operand in 0..instruction.op_count() {
        if instruction.op_kind(operand) != OpKind::Register {
            continue;
        }
        if let Some(index) = spilled_index(instruction.op_register(operand)) {
            spilled.loads[index] = true;
            spilled.stores[index] |= !matches!(
                operand_access(instruction, operand),
                OpAccess::Read | OpAccess::CondRead | OpAccess::None
            );
        }
    }
    spilled
}

/// The same register with R15 replaced by R14, in any width.
fn to_first_scratch(register: Register) -> Register {
    match register {
        Register::R15 => Register::R14,
        Register::R15D => Register::R14D,
        Register::R15W => Register::R14W,
        Register::R15L => Register::R14L,
        other => other,
    }
}

/// Replaces R15 by R14 in the instruction's operands.
pub(crate) fn use_first_scratch(instruction: &mut Instruction) {
    for operand in 0..instruction.op_count() {
        if instruction.op_kind(operand) == OpKind::Register {
            let register = to_first_scratch(instruction.op_register(operand));
            instruction.set_op_register(operand, register);
        }
    }
}

/// The 64-bit general register of this number.
fn general(number: u8) -> Register {
    Register::RAX + u32::from(number)
}

/// Replaces the memory operand by a host one, without segment.
pub(crate) fn set_memory(instruction: &mut Instruction, operand: Operand) {
    instruction.set_code(without_offset_form(instruction.code()));
    instruction.set_memory_base(general(operand.base));
    let (index, scale) = operand.index.map_or((Register::None, 1), |(index, scale)| {
        (general(index), scale)
    });
    instruction.set_memory_index(index);
    instruction.set_memory_index_scale(u32::from(scale));
    // Sizes 0 and 1 let the encoder choose.
    instruction.set_memory_displacement64(i64::from(operand.disp) as u64);
    instruction.set_memory_displ_size(u32::from(operand.disp != 0));
    instruction.set_segment_prefix(Register::None);
}

/// Drops prefixes without effect in a node whose processors take turns.
pub(crate) fn drop_lock(instruction: &mut Instruction) {
    instruction.set_has_lock_prefix(false);
    instruction.set_has_xacquire_prefix(false);
    instruction.set_has_xrelease_prefix(false);
}

/// The ModRM form of a MOV with a 64-bit absolute address.
fn without_offset_form(code: Code) -> Code {
    match code {
        Code::Mov_AL_moffs8 => Code::Mov_r8_rm8,
        Code::Mov_AX_moffs16 => Code::Mov_r16_rm16,
        Code::Mov_EAX_moffs32 => Code::Mov_r32_rm32,
        Code::Mov_RAX_moffs64 => Code::Mov_r64_rm64,
        Code::Mov_moffs8_AL => Code::Mov_rm8_r8,
        Code::Mov_moffs16_AX => Code::Mov_rm16_r16,
        Code::Mov_moffs32_EAX => Code::Mov_rm32_r32,
        Code::Mov_moffs64_RAX => Code::Mov_rm64_r64,
        other => other,
    }
}

/// Number of a 64- or 32-bit general register in the encoding, and whether it is
/// a 32-bit one.
pub(crate) fn general_number(register: Register) -> Option<(u8, bool)> {
    if register.is_gpr64() {
        Some((register.number() as u8, false))
    } else if register.is_gpr32() {
        Some((register.number() as u8, true))
    } else {
        None
    }
}
