//! From guest bytes to a straight run of guest instructions.

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, Instruction};

use crate::analyse::{Class, classify};
use crate::emit::legacy;
use crate::features::Features;
use crate::size::CodeSize;

/// Longest block, in instructions: bounds what a stop has to refund.
pub(crate) const MAX_INSTRUCTIONS: usize = 64;
/// Longest x86 instruction, in bytes.
pub(crate) const MAX_BYTES: usize = 15;

/// One guest instruction of a block.
#[derive(Clone, Debug)]
pub(crate) struct GuestInstruction {
    pub instruction: Instruction,
    pub class: Class,
    /// Offset from the block's start.
    pub offset: u16,
}

/// A straight run of guest instructions; only the last one may jump.
#[derive(Debug, Default)]
pub(crate) struct GuestBlock {
    pub rip: u64,
    pub instructions: Vec<GuestInstruction>,
    /// RIP behind the last instruction.
    pub end: u64,
}

/// What the bytes at a RIP hold.
pub(crate) enum Decoded {
    /// At least one whole instruction.
    Block(GuestBlock),
    /// The first instruction reaches beyond `bytes`: fetch the next page as well.
    Crosses,
}

/// Options under which iced decodes as the guest's processor does: where it has no
/// TZCNT and LZCNT their encodings are BSF and BSR, and WBNOINVD is always WBINVD.
pub(crate) fn options(features: &Features) -> u32 {
    let mut options = DecoderOptions::NO_WBNOINVD;
    if !features.offered.has(CpuidFeature::BMI1) {
        options |= DecoderOptions::NO_MPFX_0FBC;
    }
    if !features.offered.has(CpuidFeature::LZCNT) {
        options |= DecoderOptions::NO_MPFX_0FBD;
    }
    options
}

/// Decodes up to `limit` instructions from `bytes`, which is what is left of the
/// page at `rip` (and, after [`Decoded::Crosses`], some bytes of the next one).
/// Stops behind the first instruction that ends a block, and before one that
/// reaches beyond `bytes`.
pub(crate) fn decode(rip: u64, bytes: &[u8], limit: usize, features: &Features) -> Decoded {
    let mut decoder = Decoder::with_ip(features.size.bits(), bytes, rip, options(features));
    let mut block = GuestBlock {
        rip,
        instructions: Vec::with_capacity(8),
        end: rip,
    };
    while block.instructions.len() < limit.min(MAX_INSTRUCTIONS) {
        let offset = decoder.position();
        if offset >= bytes.len() {
            break;
        }
        let mut instruction = decoder.decode();
        if features.size != CodeSize::Long {
            instruction = legacy::encodable(&instruction);
        }
        let cut_short = instruction.is_invalid()
            && bytes.len() - offset < MAX_BYTES
            && decoder.last_error() == iced_x86::DecoderError::NoMoreBytes;
        if cut_short {
            if block.instructions.is_empty() {
                return Decoded::Crosses;
            }
            break;
        }
        let class = classify(&instruction, features);
        let ends = class.ends_block();
        block.end = instruction.next_ip();
        block.instructions.push(GuestInstruction {
            instruction,
            class,
            offset: offset as u16,
        });
        if ends {
            break;
        }
    }
    Decoded::Block(block)
}
