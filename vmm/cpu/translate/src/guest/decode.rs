//! From guest bytes to a straight run of guest instructions.
//!
//! A run never crosses its page but by its first instruction, has at most `MAX_INSTRUCTIONS`
//! instructions, and ends at the first jump. Bytes that are no instruction become one that raises
//! #UD. `lookup`, `relative` and `probed` decode by this; a trace puts such runs together.

use iced_x86::{CpuidFeature, Decoder, DecoderError, DecoderOptions, Instruction};

use crate::architecture::vector;
use crate::guest::analyse::{Class, classify, legacy};
use crate::guest::features::Features;
use crate::guest::size::CodeSize;

/// Instructions of more bytes than any may have: a #GP, and no #UD.
mod length;
use length::is_too_long;

/// Longest block, in instructions: bounds what a stop has to refund.
pub const MAX_INSTRUCTIONS: usize = 64;
/// Longest x86 instruction, in bytes.
pub const MAX_BYTES: usize = 15;

/// One guest instruction of a block.
#[derive(Clone, Debug)]
pub struct GuestInstruction {
    /// As it is decoded.
    pub instruction: Instruction,
    /// How it is translated.
    pub class: Class,
    /// How the run continues after it.
    pub follow: Follow,
}

impl GuestInstruction {
    /// Whether a run whose last instruction this is continues after it.
    pub(crate) fn falls_off(&self) -> bool {
        !matches!(self.follow, Follow::Leave | Follow::Predicted(_))
    }
}

/// What `build` assembles at 0x1000, as a run, for tests.
#[cfg(test)]
pub(crate) fn assembled(
    build: impl FnOnce(&mut iced_x86::code_asm::CodeAssembler),
) -> Vec<GuestInstruction> {
    let mut assembler = iced_x86::code_asm::CodeAssembler::new(64).expect("64 bits");
    build(&mut assembler);
    let bytes = assembler.assemble(0x1000).expect("it assembles");
    let features = Features::new(&belljar_cpu::InstructionSet::default());
    iced_x86::Decoder::with_ip(64, &bytes, 0x1000, 0)
        .into_iter()
        .map(|instruction| GuestInstruction {
            instruction,
            class: crate::guest::analyse::classify(&instruction, &features),
            follow: Follow::Next,
        })
        .collect()
}

/// How a run continues after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// With the next instruction in memory.
    Next,
    /// As `Next`, but a block ends here.
    Split,
    /// The run ends, or the instruction leaves it.
    Leave,
    /// With the instruction after a conditional jump; the jump leaves.
    NotTaken,
    /// With the target of a conditional jump; not jumping leaves.
    Taken,
    /// With the target of a jump or call.
    Target,
    /// With the instruction at this address if that is where a return leads.
    Return(u64),
    /// The run ends with a return, which mostly leads to this address.
    Predicted(u64),
}

impl Follow {
    /// Whether a block ends after the instruction: what the rule about flags looks at.
    pub(crate) fn ends_block(self) -> bool {
        self != Self::Next
    }
}

/// A run of guest instructions that are executed one after the other: a block, of
/// which only the last one may jump, or the blocks of a trace.
#[derive(Debug, Default)]
pub struct GuestBlock {
    /// RIP of the first one.
    pub rip: u64,
    /// In the order in which they run.
    pub instructions: Vec<GuestInstruction>,
    /// RIP at which a run that falls off its end continues.
    pub end: u64,
    /// Guest addresses of the first and after the last byte.
    pub bytes: (u64, u64),
    /// A trace that leads back to its beginning.
    pub loops: bool,
    /// What stands in for R14 and R15.
    pub renamed: Renamed,
    /// What the general registers, so renamed, held once when a trace was entered. For speed
    /// alone.
    pub entered_with: Option<[u64; 16]>,
}

/// What the bytes at a RIP hold.
pub enum Decoded {
    /// At least one whole instruction.
    Block(GuestBlock),
    /// The first instruction reaches beyond `bytes`: fetch the next page as well.
    Crosses,
}

/// Options under which iced decodes as the guest's processor does: where it has no
/// TZCNT and LZCNT their encodings are BSF and BSR, and WBNOINVD is always WBINVD.
pub fn options(features: &Features) -> u32 {
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
/// Stops after the first instruction that ends a block, and before one that
/// reaches beyond `bytes`.
pub fn decode(rip: u64, bytes: &[u8], limit: usize, features: &Features) -> Decoded {
    let mut decoder = Decoder::with_ip(features.size.bits(), bytes, rip, options(features));
    let mut block = GuestBlock {
        rip,
        instructions: Vec::with_capacity(8),
        end: rip,
        bytes: (rip, rip),
        loops: false,
        renamed: None,
        entered_with: None,
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
            && decoder.last_error() == DecoderError::NoMoreBytes;
        if cut_short {
            if block.instructions.is_empty() {
                return Decoded::Crosses;
            }
            break;
        }
        let class = if is_too_long(&instruction, &bytes[offset..], features) {
            Class::Fault(vector::PROTECTION)
        } else {
            classify(&instruction, features)
        };
        let ends = class.ends_block();
        block.end = instruction.next_ip();
        block.instructions.push(GuestInstruction {
            instruction,
            class,
            follow: if ends { Follow::Leave } else { Follow::Next },
        });
        if ends {
            break;
        }
    }
    block.bytes.1 = block.end;
    if let Some(last) = block.instructions.last_mut()
        && last.follow == Follow::Next
    {
        last.follow = Follow::Split;
    }
    Decoded::Block(block)
}

/// The registers that stand in for R14 and R15, by number.
pub(crate) type Renamed = Option<[u8; 2]>;

/// Longest trace, in instructions.
pub const MAX_RUN: usize = 256;
