//! Flags that manuals leave undefined, and processors don't leave alike: in this engine they are
//! zero.
//!
//! Left out are those that no processor changes (of BT and its kin), and AF after AND, OR, XOR and
//! TEST, which all processors clear.

use iced_x86::{Instruction, Mnemonic, OpKind, Register, RflagsBits};

/// The arithmetic flags in iced's bits.
pub(crate) const ALL_FLAGS: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// By how much an instruction shifts or rotates, after the processor masked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// That much.
    Known(u32),
    /// As CL says.
    InCl {
        /// The mask.
        mask: u32,
    },
}

/// Whether an instruction has a [`count`].
pub(crate) fn shifts(mnemonic: Mnemonic) -> bool {
    clears_adjust(mnemonic)
        || matches!(
            mnemonic,
            Mnemonic::Rol | Mnemonic::Ror | Mnemonic::Rcl | Mnemonic::Rcr
        )
}

/// Whether it is one that leaves AF undefined: a shift, not a rotate.
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

/// The flags that `instruction` leaves undefined for some count, and that are zero then, in
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
