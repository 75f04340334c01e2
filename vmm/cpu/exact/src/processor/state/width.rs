//! Widths of the guest's code, stack and addresses, from CS, SS, EFER and CR0.
//!
//! `dispatch` queries them when a run enters a block, `system` and `access` for addresses.

use belljar_cpu::{Segment, SegmentRegister};
use belljar_translate::architecture::{attribute, cr0, efer};
use belljar_translate::guest::size::{CodeSize, Nulls};

use crate::processor::state::ArchitecturalState;

pub(crate) fn is_big(segment: &Segment) -> bool {
    segment.attributes & attribute::BIG != 0
}

impl ArchitecturalState {
    /// The code size of CS.
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
        Nulls::of(is_null)
    }

    /// True if 64-bit code is running.
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

    /// Truncates a linear address to this mode's width.
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
