//! Vector accesses of which a mask decides what bytes they touch: those it leaves
//! out need not even be mapped.
//!
//! Translated code treats such an access like any other as long as the whole
//! operand lies in one page that the TLB knows: the host's processor then applies
//! the mask. Only a miss asks here.

use iced_x86::{Instruction, Mnemonic as M, OpKind, Register};

use crate::translate::context::Context;

/// Whether a mask decides which bytes of the memory operand are touched.
pub(crate) fn is_masked(instruction: &Instruction) -> bool {
    let in_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
    in_memory
        && (vector_mask_operand(instruction).is_some()
            || (instruction.op_mask() != Register::None && suppresses_faults(instruction)))
}

/// The operand that holds the mask of VMASKMOV and VPMASKMOV.
fn vector_mask_operand(instruction: &Instruction) -> Option<u32> {
    let is_move = matches!(
        instruction.mnemonic(),
        M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq
    );
    // Both `load dst, mask, memory` and `store memory, mask, src`.
    is_move.then_some(1)
}

/// Whether an EVEX instruction with a memory operand leaves what is masked out
/// untouched; those that mix elements touch all of it (exception classes named NF in
/// the Intel SDM, volume 2, 2.8).
fn suppresses_faults(instruction: &Instruction) -> bool {
    let counted_by_memory = instruction.op_count() == 3 && instruction.op2_kind() == OpKind::Memory;
    match instruction.mnemonic() {
        M::Vpsllw
        | M::Vpslld
        | M::Vpsllq
        | M::Vpsrlw
        | M::Vpsrld
        | M::Vpsrlq
        | M::Vpsraw
        | M::Vpsrad
        | M::Vpsraq => !counted_by_memory,
        M::Valignd | M::Valignq | M::Vpalignr | M::Vdbpsadbw => false,
        M::Vpconflictd | M::Vpconflictq | M::Vpmultishiftqb => false,
        M::Vpermb | M::Vpermw | M::Vpermd | M::Vpermq | M::Vpermps | M::Vpermpd => false,
        M::Vpermi2b | M::Vpermi2w | M::Vpermi2d | M::Vpermi2q | M::Vpermi2ps | M::Vpermi2pd => {
            false
        }
        M::Vpermt2b | M::Vpermt2w | M::Vpermt2d | M::Vpermt2q | M::Vpermt2ps | M::Vpermt2pd => {
            false
        }
        M::Vpermilps | M::Vpermilpd | M::Vshufps | M::Vshufpd => false,
        M::Vshuff32x4 | M::Vshuff64x2 | M::Vshufi32x4 | M::Vshufi64x2 => false,
        M::Vpshufb | M::Vpshufd | M::Vpshufhw | M::Vpshuflw => false,
        M::Vunpcklps | M::Vunpcklpd | M::Vunpckhps | M::Vunpckhpd => false,
        M::Vpunpcklbw | M::Vpunpcklwd | M::Vpunpckldq | M::Vpunpcklqdq => false,
        M::Vpunpckhbw | M::Vpunpckhwd | M::Vpunpckhdq | M::Vpunpckhqdq => false,
        M::Vpacksswb | M::Vpackssdw | M::Vpackuswb | M::Vpackusdw => false,
        M::Vpmaddwd | M::Vpmaddubsw => false,
        M::Vmovddup | M::Vmovsldup | M::Vmovshdup => false,
        M::Vinsertf32x4 | M::Vinsertf32x8 | M::Vinsertf64x2 | M::Vinsertf64x4 => false,
        M::Vinserti32x4 | M::Vinserti32x8 | M::Vinserti64x2 | M::Vinserti64x4 => false,
        M::Vextractf32x4 | M::Vextractf32x8 | M::Vextractf64x2 | M::Vextractf64x4 => false,
        M::Vextracti32x4 | M::Vextracti32x8 | M::Vextracti64x2 | M::Vextracti64x4 => false,
        M::Vgf2p8affineqb | M::Vgf2p8affineinvqb => false,
        _ => true,
    }
}

/// The bytes of the memory operand of a masked `instruction` that its mask lets
/// through: bit N is byte N.
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
    // Where there are more lanes than elements, they go round.
    let chosen = (0..lanes).filter(|lane| mask >> lane & 1 == 1);
    spread(chosen.map(|lane| lane % count), element)
}

/// Bytes to a bit of the mask, where elements of the memory operand are smaller.
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

/// Elements stand in memory without gaps.
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

/// How many bits of the mask mean something, for `count` elements in memory.
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
