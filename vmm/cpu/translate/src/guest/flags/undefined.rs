//! Flags that manuals leave undefined and that differ between processors: this engine sets them to
//! zero.
//!
//! Exceptions are flags that no processor changes (of BT and similar instructions), and AF after
//! AND, OR, XOR and TEST, which all processors clear.

use iced_x86::{Instruction, Mnemonic, OpKind, Register, RflagsBits};

/// The arithmetic flags in iced's bits.
pub(crate) const ALL_FLAGS: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// The shift or rotate count of an instruction, after the processor's masking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A constant.
    Known(u32),
    /// The value of CL.
    InCl {
        /// The mask.
        mask: u32,
    },
}

/// True if an instruction has a [`count`].
pub(crate) fn shifts(mnemonic: Mnemonic) -> bool {
    clears_adjust(mnemonic)
        || matches!(
            mnemonic,
            Mnemonic::Rol | Mnemonic::Ror | Mnemonic::Rcl | Mnemonic::Rcr
        )
}

/// True for shifts, which leave AF undefined, and false for rotates.
pub(crate) fn clears_adjust(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Sal
            | Mnemonic::Shld
            | Mnemonic::Shrd
    )
}

/// The count of an instruction that [`shifts`].
pub fn count(instruction: &Instruction) -> Count {
    let bytes = instruction
        .op0_register()
        .size()
        .max(instruction.memory_size().size());
    let mask = if bytes == 8 { 63 } else { 31 };
    let last = instruction.op_count() - 1;
    match instruction.op_kind(last) {
        OpKind::Immediate8 => Count::Known(u32::from(instruction.immediate8()) & mask),
        OpKind::Register if instruction.op_register(last) == Register::CL => Count::InCl { mask },
        // The forms that shift by one.
        _ => Count::Known(1),
    }
}

/// The flags that `instruction` leaves undefined for some count, and that are then set to zero, in
/// iced's bits.
pub(crate) fn zeroed(instruction: &Instruction) -> u32 {
    let mnemonic = instruction.mnemonic();
    if shifts(mnemonic) {
        return match count(instruction) {
            Count::Known(count) => zeroed_by(mnemonic, count),
            Count::InCl { .. } => zeroed_by(mnemonic, 2),
        };
    }
    match mnemonic {
        Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test => 0,
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc => 0,
        _ => instruction.rflags_undefined() & ALL_FLAGS,
    }
}

/// The flags that a shift or rotate by `count` leaves undefined.
pub(crate) fn zeroed_by(mnemonic: Mnemonic, count: u32) -> u32 {
    let adjust = if clears_adjust(mnemonic) {
        RflagsBits::AF
    } else {
        0
    };
    match count {
        0 => 0,
        1 => adjust,
        _ => adjust | RflagsBits::OF,
    }
}
