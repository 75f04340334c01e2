//! Vector accesses under a mask: masked-out bytes need not even be mapped.
//!
//! Queried when a block is made; the mask itself is read when the access misses the TLB.

use iced_x86::{Instruction, Mnemonic as M, OpKind, Register};

/// True if a mask selects the accessed bytes of the memory operand.
pub fn is_masked(instruction: &Instruction) -> bool {
    let in_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
    in_memory
        && (vector_mask_operand(instruction).is_some()
            || (instruction.op_mask() != Register::None && suppresses_faults(instruction)))
}

/// The operand that holds the mask of VMASKMOV and VPMASKMOV.
pub fn vector_mask_operand(instruction: &Instruction) -> Option<u32> {
    let is_move = matches!(
        instruction.mnemonic(),
        M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq
    );
    // Both `load dst, mask, memory` and `store memory, mask, src`.
    is_move.then_some(1)
}

/// True if an EVEX instruction with a memory operand does not access masked-out elements.
/// Instructions that mix elements access all of them (exception classes named NF in the Intel SDM,
/// volume 2, 2.8).
pub(crate) fn suppresses_faults(instruction: &Instruction) -> bool {
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
