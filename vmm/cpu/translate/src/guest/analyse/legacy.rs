//! Instructions of 16- and 32-bit code that differ from 64-bit code: their class, and an equivalent encoding in
//! 64-bit code.
//!
//! Used by `analyse` and `decode`.

use iced_x86::{Code, Instruction};

use crate::guest::analyse::InstructionClass;
use crate::guest::size::CodeSize;

/// The class of an instruction of 16- or 32-bit code, if it differs from 64-bit code.
pub(crate) fn classify(instruction: &Instruction, size: CodeSize) -> Option<InstructionClass> {
    use Code as C;
    let flat = size == CodeSize::Flat32;
    Some(match instruction.code() {
        C::Jmp_rel8_16 | C::Jmp_rel8_32 | C::Jmp_rel16 | C::Jmp_rel32_32 => InstructionClass::Jump,
        C::Jmp_rm32 => InstructionClass::JumpIndirect,
        C::Call_rel32_32 if flat => InstructionClass::Call,
        C::Call_rm32 if flat => InstructionClass::CallIndirect,
        C::Retnd | C::Retnd_imm16 if flat => InstructionClass::Ret,
        C::Leaved if flat => InstructionClass::Leave,
        C::Push_r32 | C::Push_rm32 | C::Pushd_imm32 | C::Pushd_imm8 if flat => {
            InstructionClass::Push
        }
        C::Pop_r32 if flat => InstructionClass::Pop,
        _ if instruction.is_jcc_short_or_near() => InstructionClass::JumpIf,
        C::Jecxz_rel8_16
        | C::Jecxz_rel8_32
        | C::Loop_rel8_16_ECX
        | C::Loop_rel8_32_ECX
        | C::Loope_rel8_16_ECX
        | C::Loope_rel8_32_ECX
        | C::Loopne_rel8_16_ECX
        | C::Loopne_rel8_32_ECX => InstructionClass::JumpIf,
        _ => return None,
    })
}

/// The equivalent form of an instruction in 64-bit code, in which one-byte INC and DEC are REX prefixes and
/// opcode 82 does not exist.
pub(crate) fn encodable(instruction: &Instruction) -> Instruction {
    use Code as C;
    let code = match instruction.code() {
        C::Inc_r16 => C::Inc_rm16,
        C::Inc_r32 => C::Inc_rm32,
        C::Dec_r16 => C::Dec_rm16,
        C::Dec_r32 => C::Dec_rm32,
        C::Add_rm8_imm8_82 => C::Add_rm8_imm8,
        C::Or_rm8_imm8_82 => C::Or_rm8_imm8,
        C::Adc_rm8_imm8_82 => C::Adc_rm8_imm8,
        C::Sbb_rm8_imm8_82 => C::Sbb_rm8_imm8,
        C::And_rm8_imm8_82 => C::And_rm8_imm8,
        C::Sub_rm8_imm8_82 => C::Sub_rm8_imm8,
        C::Xor_rm8_imm8_82 => C::Xor_rm8_imm8,
        C::Cmp_rm8_imm8_82 => C::Cmp_rm8_imm8,
        _ => return *instruction,
    };
    let mut instruction = *instruction;
    instruction.set_code(code);
    instruction
}
