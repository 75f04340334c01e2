//! How wide the code is that runs: what the same bytes decode to, how addresses are
//! made, and what the stack's unit is.

use belljar_cpu::{Segment, SegmentRegister};

use crate::state::{State, cr0, efer};

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
