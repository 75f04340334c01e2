//! Decodes guest bytes into a straight run of guest instructions.
//!
//! Only the first instruction of a run may cross its page. A run has at most `MAX_INSTRUCTIONS`
//! instructions, and ends at the first jump. Invalid bytes become an instruction that raises #UD.
//! `lookup`, `relative` and `probed` decode with it; a trace combines such runs.

use iced_x86::{CpuidFeature, Decoder, DecoderError, DecoderOptions, Instruction};

use crate::architecture::vector;
use crate::guest::analyse::{InstructionClass, classify, legacy};
use crate::guest::features::Features;
use crate::guest::size::CodeSize;

/// Instructions above the length limit: they raise #GP, not #UD.
mod length;
use length::is_too_long;

/// Longest block, in instructions: a bound on the budget that a stop refunds.
pub const MAX_INSTRUCTIONS: usize = 64;
/// Longest x86 instruction, in bytes.
pub const MAX_BYTES: usize = 15;

/// One guest instruction of a block.
#[derive(Clone, Debug)]
pub struct GuestInstruction {
    /// The decoded instruction.
    pub instruction: Instruction,
    /// Its class.
    pub class: InstructionClass,
    /// The continuation of the run after it.
    pub follow: Follow,
}

impl GuestInstruction {
    /// True if a run that ends with this instruction continues after it.
    pub(crate) fn falls_off(&self) -> bool {
        !matches!(self.follow, Follow::Leave | Follow::Predicted(_))
    }
}

/// The run that `build` assembles at 0x1000, for tests.
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

/// The continuation of a run after an instruction.
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
    /// With the instruction at this address if the return leads there.
    Return(u64),
    /// The run ends with a return, which usually leads to this address.
    Predicted(u64),
}

impl Follow {
    /// True if a block ends after the instruction, for the rule about flags.
    pub(crate) fn ends_block(self) -> bool {
        self != Self::Next
    }
}

/// A run of guest instructions that are executed in sequence: a block, in which only the last one
/// may jump, or the blocks of a trace.
#[derive(Debug, Default)]
pub struct GuestBlock {
    /// RIP of the first instruction.
    pub rip: u64,
    /// In execution order.
    pub instructions: Vec<GuestInstruction>,
    /// RIP at which a run that falls off its end continues.
    pub end: u64,
    /// Guest addresses of the first and after the last byte.
    pub bytes: (u64, u64),
    /// True for a trace that leads back to its beginning.
    pub loops: bool,
    /// The registers exchanged with R14 and R15.
    pub renamed: Renamed,
    /// The values of the general registers, after renaming, at one entry of a trace. Only used as a
    /// hint for speed.
    pub entered_with: Option<[u64; 16]>,
}

/// The result of decoding the bytes at a RIP.
pub enum Decoded {
    /// At least one whole instruction.
    Block(GuestBlock),
    /// The first instruction reaches beyond `bytes`: fetch the next page as well.
    Crosses,
}

/// Options under which iced decodes as the guest's processor does: without TZCNT and LZCNT their
/// encodings are BSF and BSR, and WBNOINVD is always WBINVD.
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

/// Decodes up to `limit` instructions from `bytes`, which are the rest of the page from `rip` on
/// (and, after [`Decoded::Crosses`], some bytes of the next one). Stops after the first instruction
/// that ends a block, and before one that reaches beyond `bytes`.
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
            InstructionClass::Fault(vector::PROTECTION)
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

/// The numbers of the registers exchanged with R14 and R15.
pub(crate) type Renamed = Option<[u8; 2]>;

/// Longest trace, in instructions.
pub const MAX_RUN: usize = 256;
