//! Guest instructions with general registers exchanged.
//!
//! Two guest registers must live in memory, and R14 and R15 are it by rule. A trace
//! that uses them much is translated as if it used two others that it seldom needs:
//! its instructions are renamed, and the values change places at its entry and exits.
//! One of R14 and R15 that a trace does not use stands in for itself.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

use crate::guest::analyse::Class;
use crate::guest::analyse::operands::has_high_byte;
use crate::guest::decode::{GuestInstruction, Renamed};

/// Registers that no instruction here uses without naming them, but for RBX, which
/// CMPXCHG16B uses, R11, which SYSCALL and SYSRET use, and RSI, which REP MOVS uses; traces with those keep
/// their names, and so do those with bit strings, which are left to Rust now and then.
const CANDIDATES: [u8; 8] = [3, 8, 9, 10, 11, 12, 13, 6];
/// Uses by which each of R14 and R15 must exceed its replacement.
const WORTH: usize = 3;

/// Chooses what to exchange with R14 and R15 in a trace, if that is worth it.
pub fn choose(run: &[GuestInstruction]) -> Renamed {
    let mut uses = [0usize; 16];
    let mut info = InstructionInfoFactory::new();
    for guest in run {
        if !guest.class.is_native() {
            continue;
        }
        let mnemonic = guest.instruction.mnemonic();
        let implicit = matches!(
            mnemonic,
            Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b | Mnemonic::Syscall | Mnemonic::Sysretq
        ) || matches!(guest.class, Class::Repeat { .. } | Class::BitString { .. });
        if implicit || has_high_byte(&guest.instruction) {
            return None;
        }
        for used in info.info(&guest.instruction).used_registers() {
            let full = used.register().full_register();
            if full.is_gpr64() {
                uses[full.number()] += 1;
            }
        }
        for used in info.info(&guest.instruction).used_memory() {
            for register in [used.base(), used.index()] {
                if register.full_register().is_gpr64() {
                    uses[register.full_register().number()] += 1;
                }
            }
        }
    }
    let mut order = CANDIDATES;
    order.sort_by_key(|&number| uses[number as usize]);
    let mut least = order.into_iter();
    let mut pairs = [14, 15];
    let (mut more, mut less) = (0, 0);
    for pair in &mut pairs {
        let number = usize::from(*pair);
        if uses[number] > 0 {
            *pair = least.next()?;
            more += uses[number];
            less += uses[usize::from(*pair)] + WORTH;
        }
    }
    (more > less).then_some(pairs)
}

/// Exchanges the registers throughout a trace. What is carried out in Rust keeps its own.
pub fn rename(run: &mut [GuestInstruction], pairs: [u8; 2]) {
    for guest in run {
        if guest.class.is_native() {
            exchange(&mut guest.instruction, pairs);
        }
    }
}

/// Exchanges the registers of one instruction; twice, and they are as they were.
pub(crate) fn exchange(instruction: &mut Instruction, pairs: [u8; 2]) {
    for operand in 0..instruction.op_count() {
        if instruction.op_kind(operand) == OpKind::Register {
            let register = exchanged(instruction.op_register(operand), pairs);
            instruction.set_op_register(operand, register);
        }
    }
    instruction.set_memory_base(exchanged(instruction.memory_base(), pairs));
    instruction.set_memory_index(exchanged(instruction.memory_index(), pairs));
}

fn exchanged(register: Register, pairs: [u8; 2]) -> Register {
    let full = register.full_register();
    if !register.is_gpr() || !full.is_gpr64() {
        return register;
    }
    let number = full.number() as u8;
    let other = match number {
        14 => pairs[0],
        15 => pairs[1],
        _ if number == pairs[0] => 14,
        _ if number == pairs[1] => 15,
        _ => return register,
    };
    let by = u32::from(other);
    match register.size() {
        8 => Register::RAX + by,
        4 => Register::EAX + by,
        2 => Register::AX + by,
        // AH to BH stand between BL and SPL.
        _ if by < 4 => Register::AL + by,
        _ => Register::SPL + (by - 4),
    }
}
