//! The budget in a register that the guest lacks or does not use.
//!
//! `emit/count` counts blocks with these instructions, and `stubs` moves the budget between
//! register and context at entry and exit. The additions do not change flags, so blocks can be
//! counted while flags are live.

use super::{Asm, Hole, S1};

impl Asm {
    /// `vpaddq xmm31, xmm31, gs:[disp]{1to2}` (AVX-512VL).
    pub(crate) fn add_to_xmm31(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x62, 0x61, 0x85, 0x10, 0xd4, 0x3c, 0x25]);
        self.imm32(disp);
    }

    /// `vpaddq xmm31, xmm31, gs:[disp]` (AVX-512VL).
    pub(crate) fn add_pair_to_xmm31(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x62, 0x61, 0x85, 0x00, 0xd4, 0x3c, 0x25]);
        self.imm32(disp);
    }

    /// `vpaddq xmm31, xmm31, gs:[disp + S1]` (AVX-512VL).
    pub(crate) fn add_table_pair_to_xmm31(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x62, 0x41, 0x85, 0x00, 0xd4, 0xbf]);
        self.imm32(disp);
    }

    /// `vmovdqu64 xmm30, gs:[disp + S0]` (AVX-512VL).
    pub(crate) fn load_entry_to_xmm30(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x62, 0x41, 0xfe, 0x08, 0x6f, 0xb6]);
        self.imm32(disp);
    }

    /// `vmovdqu64 gs:[disp], xmm30` (AVX-512VL).
    pub(crate) fn store_xmm30(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x62, 0x61, 0xfe, 0x08, 0x7f, 0x34, 0x25]);
        self.imm32(disp);
    }

    /// `vpaddq xmm31, xmm31, [rip + rel32]`, to be filled in (AVX-512VL).
    pub(crate) fn add_constant_to_xmm31(&mut self) -> Hole {
        self.bytes(&[0x62, 0x61, 0x85, 0x00, 0xd4, 0x3d]);
        self.imm32(0);
        self.hole(4)
    }

    /// `vmovhps xmm31, xmm31, gs:[disp]` (AVX-512F).
    pub(crate) fn load_xmm31_high(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x62, 0x61, 0x04, 0x00, 0x16, 0x3c, 0x25]);
        self.imm32(disp);
    }

    /// `vmovhps gs:[disp], xmm31` (AVX-512F).
    pub(crate) fn store_xmm31_high(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x62, 0x61, 0x7c, 0x08, 0x17, 0x3c, 0x25]);
        self.imm32(disp);
    }

    /// `vmovq S1, xmm31` (AVX-512F).
    pub(crate) fn move_xmm31_to_s1(&mut self) {
        self.wrote(S1);
        self.bytes(&[0x62, 0x41, 0xfd, 0x08, 0x7e, 0xff]);
    }

    /// `vmovq xmm31, gs:[disp]` (AVX-512F).
    pub(crate) fn load_xmm31(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x62, 0x61, 0xfe, 0x08, 0x7e, 0x3c, 0x25]);
        self.imm32(disp);
    }

    /// `vmovq gs:[disp], xmm31` (AVX-512F).
    pub(crate) fn store_xmm31(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x62, 0x61, 0xfd, 0x08, 0xd6, 0x3c, 0x25]);
        self.imm32(disp);
    }

    /// `paddq mm7, gs:[disp]` (SSE2).
    pub(crate) fn add_to_mm7(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x0f, 0xd4, 0x3c, 0x25]);
        self.imm32(disp);
    }

    /// `movq S1, mm7`.
    pub(crate) fn move_mm7_to_s1(&mut self) {
        self.wrote(S1);
        self.bytes(&[0x49, 0x0f, 0x7e, 0xff]);
    }

    /// `movq mm7, gs:[disp]`.
    pub(crate) fn load_mm7(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x0f, 0x6f, 0x3c, 0x25]);
        self.imm32(disp);
    }

    /// `movq gs:[disp], mm7`, and `emms`, which returns the register to the x87.
    pub(crate) fn store_mm7(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x0f, 0x7f, 0x3c, 0x25]);
        self.imm32(disp);
        self.bytes(&[0x0f, 0x77]);
    }

    /// `test S1, S1`, 64 bits.
    pub(crate) fn test_s1(&mut self) {
        self.bytes(&[0x4d, 0x85, 0xff]);
    }
}
