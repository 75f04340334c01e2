//! How wide the code is that runs: what the same bytes decode to, how addresses are
//! made, and what the stack's unit is.
//!
//! The answers follow from CS, SS, EFER and CR0, and `CodeSize` is part of a block's mode, so that
//! one kind of code never runs as another. `dispatch` asks when a run enters a block; `decode`,
//! `system` and `access` ask for addresses.

use belljar_cpu::{Segment, SegmentRegister};
use iced_x86::{Instruction, OpAccess, OpKind, Register};

use crate::processor::state::{State, cr0, efer};
use crate::translate::guest::analyse::operand_access;

/// The kinds of code that are translated differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeSize {
    /// 64-bit mode.
    Long,
    /// 32-bit code whose segments CS, DS, ES and SS all begin at zero, with a
    /// 32-bit stack: what operating systems use. Their bases cost nothing.
    Flat32,
    /// 32-bit code with any other segments.
    Segmented32,
    /// 16-bit code, in real mode or protected mode.
    Segmented16,
}

/// Segment attribute bits (see [`Segment::attributes`]).
pub(crate) mod attribute {
    pub(crate) const PRESENT: u16 = 1 << 7;
    pub(crate) const LONG: u16 = 1 << 13;
    pub(crate) const BIG: u16 = 1 << 14;
}

impl CodeSize {
    /// Bits of default operands and addresses: what a decoder calls bitness.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::Long => 64,
            Self::Flat32 | Self::Segmented32 => 32,
            Self::Segmented16 => 16,
        }
    }

    /// Whether segment bases have to be added.
    pub(crate) const fn is_segmented(self) -> bool {
        matches!(self, Self::Segmented32 | Self::Segmented16)
    }
}

/// Data segment registers that hold the null selector in 16- and 32-bit protected mode, where
/// accesses through them raise #GP(0). One bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nulls(u8);

impl Nulls {
    pub(crate) const NONE: Self = Self(0);

    /// In the order of the bits.
    const REGISTERS: [(SegmentRegister, Register); 4] = [
        (SegmentRegister::Es, Register::ES),
        (SegmentRegister::Ds, Register::DS),
        (SegmentRegister::Fs, Register::FS),
        (SegmentRegister::Gs, Register::GS),
    ];

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// Whether an access through `segment` finds none.
    pub(crate) fn has(self, segment: Register) -> bool {
        let place = Self::REGISTERS.iter().position(|&(_, one)| one == segment);
        place.is_some_and(|place| self.0 >> place & 1 == 1)
    }

    /// Whether a memory operand of `instruction` goes through one of these. Elements of string
    /// instructions do not count: there may be none.
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

fn is_big(segment: &Segment) -> bool {
    segment.attributes & attribute::BIG != 0
}

impl State {
    /// What kind of code CS holds.
    pub(crate) fn code_size(&self) -> CodeSize {
        use SegmentRegister::{Cs, Ds, Es, Ss};
        let code = self.segment(Cs);
        if self.is_long_active() && code.attributes & attribute::LONG != 0 {
            return CodeSize::Long;
        }
        if !is_big(code) {
            return CodeSize::Segmented16;
        }
        let flat = [Cs, Ds, Es, Ss]
            .into_iter()
            .all(|register| self.segment(register).base == 0);
        if flat && is_big(self.segment(Ss)) {
            CodeSize::Flat32
        } else {
            CodeSize::Segmented32
        }
    }

    /// The null segments that code must not access.
    pub(crate) fn nulls(&self) -> Nulls {
        if self.is_long() || !self.is_protected() {
            return Nulls::NONE;
        }
        let is_null = |register| {
            let segment = self.segment(register);
            segment.selector & !3 == 0 && segment.attributes & attribute::PRESENT == 0
        };
        let registers = Nulls::REGISTERS.iter().enumerate();
        let found = registers.filter(|&(_, &(register, _))| is_null(register));
        Nulls(found.fold(0, |bits, (place, _)| bits | 1 << place))
    }

    /// Whether 64-bit code runs.
    pub(crate) fn is_long(&self) -> bool {
        self.is_long_active() && self.segment(SegmentRegister::Cs).attributes & attribute::LONG != 0
    }

    /// EFER.LMA: 64-bit mode or compatibility mode.
    pub(crate) fn is_long_active(&self) -> bool {
        self.system.efer & efer::LMA != 0
    }

    /// CR0.PE.
    pub(crate) fn is_protected(&self) -> bool {
        self.system.cr0 & cr0::PE != 0
    }

    /// Cuts a linear address to what this mode can express.
    pub(crate) fn wrap_linear(&self, linear: u64) -> u64 {
        if self.is_long() {
            linear
        } else {
            linear & 0xffff_ffff
        }
    }

    /// Linear address of the code at `rip`.
    pub(crate) fn code_address(&self, rip: u64) -> u64 {
        if self.is_long() {
            return rip;
        }
        let base = self.segment(SegmentRegister::Cs).base;
        base.wrapping_add(rip) & 0xffff_ffff
    }

    /// The bits of RSP that address the stack.
    pub(crate) fn stack_mask(&self) -> u64 {
        if self.is_long() {
            u64::MAX
        } else if is_big(self.segment(SegmentRegister::Ss)) {
            0xffff_ffff
        } else {
            0xffff
        }
    }

    /// Linear address of the stack at `sp`.
    pub(crate) fn stack_address(&self, sp: u64) -> u64 {
        if self.is_long() {
            return sp;
        }
        let base = self.segment(SegmentRegister::Ss).base;
        base.wrapping_add(sp & self.stack_mask()) & 0xffff_ffff
    }
}
