//! What an instruction does with its operands.
//!
//! `analyse`, `rename` and `rewrite` ask; the answers follow from the encoding alone.

use std::cell::RefCell;

use iced_x86::{
    Instruction, InstructionInfoFactory, InstructionInfoOptions, OpAccess, OpKind, Register,
};

thread_local! {
    /// One for all: a factory's two lists are made with it, and translation asks often.
    static INFO: RefCell<InstructionInfoFactory> = RefCell::new(InstructionInfoFactory::new());
}

/// What `instruction` does with operand `operand`.
pub fn operand_access(instruction: &Instruction, operand: u32) -> OpAccess {
    let only = InstructionInfoOptions::NO_MEMORY_USAGE | InstructionInfoOptions::NO_REGISTER_USAGE;
    INFO.with_borrow_mut(|info| info.info_options(instruction, only).op_access(operand))
}

/// Whether an operand is one of AH, CH, DH, BH, which no instruction with a REX
/// prefix can name.
pub(crate) fn has_high_byte(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|i| {
        instruction.op_kind(i) == OpKind::Register
            && matches!(
                instruction.op_register(i),
                Register::AH | Register::CH | Register::DH | Register::BH
            )
    })
}
