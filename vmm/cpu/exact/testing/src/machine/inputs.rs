//! Random machines for an encoding: registers and memory for which its access hits interesting
//! addresses.

use iced_x86::{Mnemonic as M, OpKind, Register};

use super::{
    ARENA, ARITHMETIC, CONSTANT, HALF, INNER, LAST, MEMORY_BYTES, Machine, PAGE, Registers,
};
use crate::encoding::{Dice, Form};

const ALIGNMENT_CHECK: u64 = 1 << 18;

/// Random registers and memory, without regard to any instruction.
pub fn random(dice: &mut Dice) -> Machine {
    let mut registers = Registers {
        gpr: std::array::from_fn(|_| dice.value()),
        flags: dice.0.next_u64() & ARITHMETIC | 2,
        ..Registers::default()
    };
    let kind = dice.below(4);
    for vector in &mut registers.vectors {
        for lane in vector.chunks_exact_mut(8) {
            let bits = if kind == 0 {
                dice.0.next_u64()
            } else {
                float_bits(dice)
            };
            lane.copy_from_slice(&bits.to_le_bytes());
        }
    }
    registers.masks = std::array::from_fn(|_| match dice.below(4) {
        0 => 0,
        1 => u64::MAX,
        _ => dice.0.next_u64(),
    });
    if dice.below(4) == 0 {
        // Other roundings, denormals as zero, and sometimes exceptions that trap.
        let mut control = 0x1f80 | dice.0.next_u64() as u32 & 0xe040;
        if dice.below(2) == 0 {
            control &= !(dice.0.next_u64() as u32 & 0x1f80);
        }
        registers.set_mxcsr(control);
    }
    // In the reset state, it need not be loaded in the host's at all.
    if dice.below(3) != 0 {
        set_x87(dice, &mut registers);
    }
    registers.settle();
    let memory = (0..MEMORY_BYTES / 8)
        .flat_map(|_| {
            let bits = if kind == 0 {
                dice.0.next_u64()
            } else {
                float_bits(dice)
            };
            bits.to_le_bytes()
        })
        .collect();
    Machine { registers, memory }
}

/// Some values on the stack; rarely another rounding or precision, or exceptions that trap or are
/// pending.
fn set_x87(dice: &mut Dice, registers: &mut Registers) {
    let depth = dice.below(9) as usize;
    let top = (8 - depth) % 8;
    let fx = &mut registers.fx.0;
    let mut control = 0x37fu16;
    if dice.below(4) == 0 {
        control = control & !0xf00 | dice.pick(&[0u16, 2, 3]) << 8 | (dice.below(4) as u16) << 10;
    }
    if dice.below(8) == 0 {
        control &= !(dice.0.next_u64() as u16 & 0x3f);
    }
    let mut status = (top as u16) << 11 | dice.0.next_u64() as u16 & 0x4700;
    if dice.below(16) == 0 {
        let raised = dice.0.next_u64() as u16 & 0x3f;
        status |= raised;
        if raised & !control & 0x3f != 0 {
            status |= 0x8080;
        }
    }
    fx[0..2].copy_from_slice(&control.to_le_bytes());
    fx[2..4].copy_from_slice(&status.to_le_bytes());
    fx[4] = (0..8).fold(0, |tags, physical| {
        tags | u8::from(physical >= 8 - depth) << physical
    });
    for number in 0..8 {
        let bits = extended_bits(dice);
        fx[32 + number * 16..42 + number * 16].copy_from_slice(&bits);
    }
}

fn extended_bits(dice: &mut Dice) -> [u8; 10] {
    let (mantissa, exponent): (u64, u16) = match dice.below(8) {
        0 => (0, 0),
        1 => (1 << 63, 0x7fff),
        2 => (3 << 62, 0x7fff),
        3 => (dice.0.next_u64() >> 1, 0),
        4 => (dice.0.next_u64(), dice.0.next_u64() as u16),
        _ => (
            dice.0.next_u64() | 1 << 63,
            0x3fff + dice.below(128) as u16 - 64,
        ),
    };
    let sign = (dice.below(2) as u16) << 15;
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&mantissa.to_le_bytes());
    bytes[8..].copy_from_slice(&(exponent & 0x7fff | sign).to_le_bytes());
    bytes
}

/// Doubles and pairs of floats, including edge cases.
fn float_bits(dice: &mut Dice) -> u64 {
    match dice.below(5) {
        0 => dice.pick(&[
            0,
            1 << 63,
            0x7ff0_0000_0000_0000,
            0xfff0_0000_0000_0000,
            0x7ff8_0000_0000_0000,
            1,
            0x3ff0_0000_0000_0000,
        ]),
        1 => (dice.below(2000) as f64 - 1000.0).to_bits(),
        2 => u64::from((dice.below(2000) as f32 - 1000.0).to_bits()) * 0x1_0000_0001,
        _ => dice.0.next_u64(),
    }
}

/// The address of an access of `size` bytes: usually in memory, aligned or not, possibly across
/// pages; sometimes where it faults.
pub fn target(dice: &mut Dice, size: u64) -> u64 {
    let spread = (2 * HALF).saturating_sub(size).max(1);
    let choice = match dice.below(16) {
        // An operand as large as a window fills it, because memory outside windows is not compared.
        choice if size >= 2 * HALF && choice > 3 => return INNER,
        0 if size >= 2 * HALF => 2,
        choice => choice,
    };
    match choice {
        0 => LAST + HALF - dice.below(size + size / 2 + 1).min(HALF),
        1 => CONSTANT + dice.below(64),
        2 => ARENA + 2 * PAGE + dice.below(64),
        3 => dice.pick(&[0x8000_0000_0000_0000, 0x0001_0000_0000_0000]),
        4..=6 => ARENA + PAGE - dice.below(size + 1),
        7..=12 => INNER + dice.below(spread) / 64 * 64,
        _ => INNER + dice.below(spread),
    }
}

/// Random state for which `form` stays in the arena, or faults.
pub fn inputs(dice: &mut Dice, form: &Form) -> Machine {
    let mut machine = random(dice);
    let size = form.instruction.memory_size().size().max(1) as u64;
    let registers = &mut machine.registers;
    if form.divides() && dice.below(4) > 0 {
        make_quotients_fit(dice, registers);
        for byte in &mut machine.memory {
            *byte = *byte & 0x3f | 1;
        }
    }
    // Makers differ in the alignment checks of operands beyond 8 bytes.
    let size_checked = (form.instruction.memory_size().size() <= 8 || is_environment(form))
        && form.vector_index.is_none()
        && !has_two_accesses(form)
        && form.instruction.mnemonic() != M::Maskmovq;
    if dice.below(8) == 0 && size_checked {
        registers.flags |= ALIGNMENT_CHECK;
    }
    let kinds: Vec<OpKind> = form.instruction.op_kinds().collect();
    for (number, kind) in [
        (6, OpKind::MemorySegRSI),
        (7, OpKind::MemoryESRDI),
        (7, OpKind::MemorySegRDI),
    ] {
        if kinds.contains(&kind) {
            registers.gpr[number] = target(dice, size);
        }
    }
    if uses_stack(form) {
        registers.gpr[4] = INNER + HALF + dice.below(32);
        registers.gpr[5] = INNER + HALF + dice.below(64);
    }
    if form.instruction.mnemonic() == M::Xlatb {
        registers.gpr[3] = INNER + dice.below(HALF);
    }
    aim(dice, form, registers, size);
    bound_bit_offset(dice, form, registers);
    machine
}

/// Makes quotients fit: a small dividend, and an odd divisor that is not minus one.
fn make_quotients_fit(dice: &mut Dice, registers: &mut Registers) {
    registers.gpr[0] = dice.below(0x80);
    registers.gpr[2] = 0;
    for number in (0..16).filter(|&number| number != 0 && number != 2) {
        registers.gpr[number] =
            (dice.below(0x3f) * 0x0101_0101_0101_0100) | (dice.below(0x3f) << 1) | 1;
    }
}

/// Sets the registers of the address.
fn aim(dice: &mut Dice, form: &Form, registers: &mut Registers, size: u64) {
    let Some(base) = form.base else { return };
    let scale = u64::from(form.instruction.memory_index_scale());
    let mut aimed = target(dice, size);
    if let Some((vector, bytes)) = form.vector_index {
        // Lanes are adjacent; rarely, one is elsewhere.
        aimed = if dice.below(8) == 0 {
            LAST + dice.below(HALF)
        } else {
            INNER + HALF
        };
        for lane in registers.vectors[vector].chunks_exact_mut(bytes) {
            let index = dice.below(50) as i64 - 25;
            lane.copy_from_slice(&index.to_le_bytes()[..bytes]);
        }
        registers.settle();
    }
    if form.vector_index.is_none() && is_whole(form) && dice.below(32) == 0 {
        // Partly beyond the canonical addresses.
        aimed = (1 << 47) - 1 - dice.below(size);
    }
    let index = form.index.map_or(0, |index| {
        registers.gpr[index] = dice.below(512).wrapping_sub(256);
        registers.gpr[index].wrapping_mul(scale)
    });
    let displacement = form.instruction.memory_displacement64();
    registers.gpr[base] = aimed.wrapping_sub(index).wrapping_sub(displacement);
}

/// BT and similar instructions with a register offset: keeps the bit in the window.
fn bound_bit_offset(dice: &mut Dice, form: &Form, registers: &mut Registers) {
    if is_bit_string(form) {
        let number = form.instruction.op1_register().number();
        registers.gpr[number] = dice.below(512).wrapping_sub(256);
    }
}

/// True for x87 instructions that save or load its environment or state.
fn is_environment(form: &Form) -> bool {
    matches!(
        form.instruction.mnemonic(),
        M::Fnstenv | M::Fldenv | M::Fnsave | M::Frstor
    )
}

/// True if an access of the form is indivisible: no byte of it is masked out.
fn is_whole(form: &Form) -> bool {
    let name = form.instruction.mnemonic();
    form.instruction.op_mask() == Register::None
        && !matches!(
            name,
            M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq
        )
        && !matches!(name, M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu)
        // The parts of an x87 operand may be accessed one by one.
        && !is_environment(form)
        && !matches!(form.instruction.memory_size().size(), 10 | 512)
}

pub fn is_bit_string(form: &Form) -> bool {
    matches!(
        form.instruction.mnemonic(),
        M::Bt | M::Bts | M::Btr | M::Btc
    ) && form.has_address()
        && form.instruction.op1_kind() == OpKind::Register
}

/// True if the form has two accesses, whose order is unspecified.
fn has_two_accesses(form: &Form) -> bool {
    let kinds = form.instruction.op_kinds();
    let memory = kinds.filter(|kind| {
        matches!(
            kind,
            OpKind::Memory | OpKind::MemorySegRSI | OpKind::MemoryESRDI
        )
    });
    memory.count() + usize::from(uses_stack(form)) > 1 || form.instruction.mnemonic() == M::Enter
}

pub fn uses_stack(form: &Form) -> bool {
    matches!(
        form.instruction.mnemonic(),
        M::Push | M::Pop | M::Enter | M::Leave
    )
}

/// True for encodings in which a register has two incompatible uses.
pub fn is_wild(form: &Form) -> bool {
    if uses_stack(form) && form.base == Some(4) {
        return true;
    }
    let implicit = match form.instruction.mnemonic() {
        M::Maskmovq | M::Maskmovdqu => Some(7),
        _ => None,
    };
    if implicit.is_some() && form.base == implicit {
        return true;
    }
    if is_bit_string(form) {
        let number = form.instruction.op1_register().number();
        return form.base == Some(number) || form.index == Some(number);
    }
    false
}

/// Flags that the architecture leaves undefined and a helper leaves unchanged; all other flags come
/// from the host's instruction and must match.
pub fn undefined_flags(form: &Form) -> u64 {
    if is_bit_string(form) {
        ARITHMETIC & !1 & !(1 << 6)
    } else {
        0
    }
}
