//! Renames general registers in guest instructions.
//!
//! Two guest registers must be kept in memory: R14 and R15 by default. A trace that uses them much is
//! translated with two seldom-used registers in memory instead: its instructions are renamed, and the
//! values are exchanged at its entry and exits. If a trace does not use one of R14 and R15, it stays
//! unchanged.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

use crate::guest::analyse::InstructionClass;
use crate::guest::analyse::operands::has_high_byte;
use crate::guest::decode::{GuestInstruction, Renamed};

/// Registers without implicit uses in these instructions, except RBX in CMPXCHG16B, R11 in SYSCALL and
/// SYSRET, and RSI in REP MOVS. Traces with those instructions are not renamed, nor traces with bit
/// strings, which are sometimes executed in Rust.
const CANDIDATES: [u8; 8] = [3, 8, 9, 10, 11, 12, 13, 6];
/// The number of uses by which each of R14 and R15 must exceed its replacement.
const WORTH: usize = 3;

/// Chooses the registers to exchange with R14 and R15 in a trace, if that is worthwhile.
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
        ) || matches!(
            guest.class,
            InstructionClass::Repeat { .. } | InstructionClass::BitString { .. }
        );
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

/// Exchanges the registers throughout a trace. Instructions executed in Rust keep their registers.
pub fn rename(run: &mut [GuestInstruction], pairs: [u8; 2]) {
    for guest in run {
        if guest.class.is_native() {
            exchange(&mut guest.instruction, pairs);
        }
    }
}

/// Exchanges the registers of an instruction; exchanging twice restores it.
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
        // AH to BH lie between BL and SPL in the enumeration.
        _ if by < 4 => Register::AL + by,
        _ => Register::SPL + (by - 4),
    }
}
