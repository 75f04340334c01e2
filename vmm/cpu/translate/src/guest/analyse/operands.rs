//! Accesses of an instruction to its operands.
//!
//! Used by `analyse`, `rename` and `rewrite`; the results follow from the encoding alone.

use std::cell::RefCell;

use iced_x86::{
    Instruction, InstructionInfoFactory, InstructionInfoOptions, OpAccess, OpKind, Register,
};

thread_local! {
    /// A shared factory: creating one allocates two lists, and translation queries it often.
    static INFO: RefCell<InstructionInfoFactory> = RefCell::new(InstructionInfoFactory::new());
}

/// The access of `instruction` to operand `operand`.
pub fn operand_access(instruction: &Instruction, operand: u32) -> OpAccess {
    let only = InstructionInfoOptions::NO_MEMORY_USAGE | InstructionInfoOptions::NO_REGISTER_USAGE;
    INFO.with_borrow_mut(|info| info.info_options(instruction, only).op_access(operand))
}

/// True if an operand is one of AH, CH, DH, BH, which cannot be encoded with a REX prefix.
pub(crate) fn has_high_byte(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|i| {
        instruction.op_kind(i) == OpKind::Register
            && matches!(
                instruction.op_register(i),
                Register::AH | Register::CH | Register::DH | Register::BH
            )
    })
}
