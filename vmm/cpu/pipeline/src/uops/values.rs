//! Effects of instructions on the values of general registers, as far as addresses depend on them.
//!
//! A register has the value of another one plus a constant, a constant, or an unknown value. `uops` derives the rule
//! of each instruction, and `schedule` compares addresses with it, to find the stores that loads read.

use iced_x86::{Instruction, Mnemonic as M, OpKind, Register};

/// The value that an instruction writes into a general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Number of the register.
    pub target: u8,
    /// Number of the register whose value it is the sum of; `None` for a constant.
    pub from: Option<u8>,
    /// The other term, or the constant.
    pub offset: i64,
}

/// The rule of `instruction`; `None` if it writes no register or an unknown value.
pub(super) fn value_of(instruction: &Instruction) -> Option<Value> {
    if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::Register {
        return None;
    }
    let to = instruction.op0_register();
    if !to.is_gpr() || to.size() < 4 {
        return None;
    }
    let number = |register: Register| register.full_register().number() as u8;
    let target = number(to);
    let sum = |from, offset| {
        Some(Value {
            target,
            from,
            offset,
        })
    };
    let second = (instruction.op_count() > 1).then(|| instruction.op1_kind());
    let register = second == Some(OpKind::Register);
    let constant = || {
        let is = second.is_some_and(|kind| kind != OpKind::Register && kind != OpKind::Memory);
        is.then(|| instruction.immediate(1) as i64)
    };
    match instruction.mnemonic() {
        M::Xor | M::Sub if register && instruction.op1_register() == to => sum(None, 0),
        M::Mov if register && to.size() == 8 && instruction.op1_register().is_gpr() => {
            sum(Some(number(instruction.op1_register())), 0)
        }
        M::Mov => constant().and_then(|value| sum(None, value)),
        M::Add => constant().and_then(|value| sum(Some(target), value)),
        M::Sub => constant().and_then(|value| sum(Some(target), value.wrapping_neg())),
        M::Inc => sum(Some(target), 1),
        M::Dec => sum(Some(target), -1),
        M::Lea if instruction.memory_index() == Register::None => {
            let displacement = instruction.memory_displacement64() as i64;
            match instruction.memory_base() {
                Register::RIP | Register::EIP | Register::None => sum(None, displacement),
                base => sum(Some(number(base)), displacement),
            }
        }
        _ => None,
    }
}
