//! The bytes selected by the mask of a vector access: masked-out bytes need not even be mapped.
//!
//! Translated code handles such an access like any other if the whole operand lies in one page of the
//! TLB: the host's processor then applies the mask. This module is only used at a miss.

use belljar_translate::context::Context;
use belljar_translate::guest::analyse::masked::vector_mask_operand;
use iced_x86::{Instruction, Mnemonic as M};

/// The bytes of the memory operand of a masked `instruction` that its mask selects: bit N is byte N.
pub(crate) fn touched_bytes(instruction: &Instruction, context: &Context) -> u64 {
    let size = instruction.memory_size();
    let element = lane_bytes(instruction.mnemonic()).unwrap_or(size.element_size().max(1));
    let count = (size.size() / element).max(1);
    if let Some(operand) = vector_mask_operand(instruction) {
        let mask = &context.vectors[instruction.op_register(operand).number()].0;
        let chosen = (0..count).filter(|at| mask[at * element + element - 1] & 0x80 != 0);
        return spread(chosen, element);
    }
    let mask = context.masks[instruction.op_mask().number()];
    let lanes = lanes(instruction, element, count);
    let mask = if lanes >= 64 {
        mask
    } else {
        mask & ((1 << lanes) - 1)
    };
    if is_packed_tight(instruction.mnemonic()) {
        return spread(0..mask.count_ones() as usize, element);
    }
    // If there are more lanes than elements, the elements repeat.
    let chosen = (0..lanes).filter(|lane| mask >> lane & 1 == 1);
    spread(chosen.map(|lane| lane % count), element)
}

/// Bytes per bit of the mask, if elements of the memory operand are smaller.
fn lane_bytes(mnemonic: M) -> Option<usize> {
    match mnemonic {
        M::Vpmuldq | M::Vpmuludq => Some(8),
        M::Vpdpbusd | M::Vpdpbusds | M::Vpdpwssd | M::Vpdpwssds => Some(4),
        _ => None,
    }
}

fn spread(elements: impl Iterator<Item = usize>, size: usize) -> u64 {
    let one = if size >= 64 {
        u64::MAX
    } else {
        (1 << size) - 1
    };
    elements.fold(0, |bytes, at| bytes | one << (at * size))
}

/// True if selected elements are stored contiguously in memory.
fn is_packed_tight(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Vcompressps
            | M::Vcompresspd
            | M::Vpcompressb
            | M::Vpcompressw
            | M::Vpcompressd
            | M::Vpcompressq
            | M::Vexpandps
            | M::Vexpandpd
            | M::Vpexpandb
            | M::Vpexpandw
            | M::Vpexpandd
            | M::Vpexpandq
    )
}

/// The number of significant bits of the mask, for `count` elements in memory.
fn lanes(instruction: &Instruction, element: usize, count: usize) -> usize {
    let vector = 16usize << instruction.code().op_code().l().min(2);
    if instruction.memory_size().is_broadcast() {
        return vector
            / if widens(instruction.mnemonic()) {
                8
            } else {
                element
            };
    }
    if repeats(instruction.mnemonic()) {
        return instruction.op0_register().size() / element;
    }
    count
}

/// Conversions from 32 to 64 bits, which have a lane for each result.
fn widens(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Vcvtps2pd
            | M::Vcvtdq2pd
            | M::Vcvtudq2pd
            | M::Vcvtps2qq
            | M::Vcvtps2uqq
            | M::Vcvttps2qq
            | M::Vcvttps2uqq
    )
}

/// Instructions that fill a register with copies of their memory operand.
fn repeats(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Vbroadcastss
            | M::Vbroadcastsd
            | M::Vbroadcastf32x2
            | M::Vbroadcastf32x4
            | M::Vbroadcastf32x8
            | M::Vbroadcastf64x2
            | M::Vbroadcastf64x4
            | M::Vbroadcasti32x2
            | M::Vbroadcasti32x4
            | M::Vbroadcasti32x8
            | M::Vbroadcasti64x2
            | M::Vbroadcasti64x4
            | M::Vpbroadcastb
            | M::Vpbroadcastw
            | M::Vpbroadcastd
            | M::Vpbroadcastq
    )
}
