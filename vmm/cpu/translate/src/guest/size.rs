//! Code sizes, which determine the decoding of bytes, and null segments.
//!
//! `CodeSize` is part of a block's mode, so code of one size never runs as another. It follows from the processor's
//! state; `decode` and the emitter use it.

use belljar_cpu::SegmentRegister;
use bincode::{Decode, Encode};
use iced_x86::{Instruction, OpAccess, OpKind, Register};

use crate::guest::analyse::operands::operand_access;

/// The kinds of code that are translated differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum CodeSize {
    /// 64-bit mode.
    Long,
    /// 32-bit code whose segments CS, DS, ES and SS all begin at zero, with a 32-bit stack, as in operating systems.
    /// Their bases need not be added.
    Flat32,
    /// 32-bit code with any other segments.
    Segmented32,
    /// 16-bit code, in real mode or protected mode.
    Segmented16,
}

impl CodeSize {
    /// Default size of operands and addresses in bits; the decoder's bitness.
    #[inline]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Long => 64,
            Self::Flat32 | Self::Segmented32 => 32,
            Self::Segmented16 => 16,
        }
    }

    /// True if segment bases must be added.
    #[inline]
    pub const fn is_segmented(self) -> bool {
        matches!(self, Self::Segmented32 | Self::Segmented16)
    }
}

/// Data segment registers that hold the null selector in 16- and 32-bit protected mode, where
/// accesses through them raise #GP(0). One bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Nulls(u8);

impl Nulls {
    /// No null segment.
    pub const NONE: Self = Self(0);

    /// In the order of the bits.
    const REGISTERS: [(SegmentRegister, Register); 4] = [
        (SegmentRegister::Es, Register::ES),
        (SegmentRegister::Ds, Register::DS),
        (SegmentRegister::Fs, Register::FS),
        (SegmentRegister::Gs, Register::GS),
    ];

    /// The registers for which `is_null` is true.
    #[inline]
    pub fn of(is_null: impl Fn(SegmentRegister) -> bool) -> Self {
        let registers = Self::REGISTERS.iter().enumerate();
        let found = registers.filter(|&(_, &(register, _))| is_null(register));
        Self(found.fold(0, |bits, (place, _)| bits | 1 << place))
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// True if `segment` is null.
    #[inline]
    pub fn has(self, segment: Register) -> bool {
        let place = Self::REGISTERS.iter().position(|&(_, one)| one == segment);
        place.is_some_and(|place| self.0 >> place & 1 == 1)
    }

    /// True if a memory operand of `instruction` uses one of these segments. Elements of string instructions do not
    /// count, as their number may be zero.
    pub(crate) fn are_used_by(self, instruction: &Instruction) -> bool {
        let accesses = |kind| match kind {
            OpKind::Memory => true,
            OpKind::MemorySegDI | OpKind::MemorySegEDI => !instruction.is_string_instruction(),
            _ => false,
        };
        self.0 != 0
            && self.has(instruction.memory_segment())
            && instruction.op_kinds().enumerate().any(|(number, kind)| {
                accesses(kind)
                    && operand_access(instruction, number as u32) != OpAccess::NoMemAccess
            })
    }
}
