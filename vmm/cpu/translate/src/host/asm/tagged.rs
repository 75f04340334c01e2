//! Branch predictors' counters, by S1: bytes, and entries of 8 bytes of the table of tagged counters.
//!
//! Each function writes the instruction in its comment. `stubs` calls them.

use super::{Asm, RAX, RCX, S0};

impl Asm {
    /// `crc32 S0d, dword gs:[disp]` (SSE4.2).
    pub(crate) fn hash_to_s0(&mut self, disp: i32) {
        self.wrote(S0);
        self.bytes(&[0x65, 0xf2, 0x44, 0x0f, 0x38, 0xf1, 0x34, 0x25]);
        self.imm32(disp);
    }

    /// `cmp dword gs:[disp + S1*8], S0d`.
    pub(crate) fn cmp_tagged_s0(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x46, 0x39, 0x34, 0xfd]);
        self.imm32(disp);
    }

    /// `mov dword gs:[disp + S1*8], S0d`.
    pub(crate) fn store_tagged_s0(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x46, 0x89, 0x34, 0xfd]);
        self.imm32(disp);
    }

    /// `movzx ecx, byte gs:[disp + S1*8]`.
    pub(crate) fn load_tagged_to_rcx(&mut self, disp: i32) {
        self.wrote(RCX);
        self.bytes(&[0x65, 0x42, 0x0f, 0xb6, 0x0c, 0xfd]);
        self.imm32(disp);
    }

    /// `cmp byte gs:[disp + S1*8], value`.
    pub(crate) fn cmp_tagged(&mut self, disp: i32, value: u8) {
        self.bytes(&[0x65, 0x42, 0x80, 0x3c, 0xfd]);
        self.imm32(disp);
        self.bytes(&[value]);
    }

    /// `mov byte gs:[disp + S1*8], value`.
    pub(crate) fn store_tagged(&mut self, disp: i32, value: u8) {
        self.bytes(&[0x65, 0x42, 0xc6, 0x04, 0xfd]);
        self.imm32(disp);
        self.bytes(&[value]);
    }

    /// `inc byte gs:[disp + S1*8]`, or `dec`.
    pub(crate) fn step_tagged(&mut self, disp: i32, up: bool) {
        let reg = u8::from(!up) << 3;
        self.bytes(&[0x65, 0x42, 0xfe, 0x04 | reg, 0xfd]);
        self.imm32(disp);
    }

    /// `cmp byte gs:[disp + S1], value`.
    pub(crate) fn cmp_counter(&mut self, disp: i32, value: u8) {
        self.bytes(&[0x65, 0x41, 0x80, 0xbf]);
        self.imm32(disp);
        self.bytes(&[value]);
    }

    /// `cmp byte gs:[disp], value`.
    pub(crate) fn cmp_byte(&mut self, disp: i32, value: u8) {
        self.bytes(&[0x65, 0x80, 0x3c, 0x25]);
        self.imm32(disp);
        self.bytes(&[value]);
    }

    /// `movzx ecx, byte gs:[disp]`.
    pub(crate) fn load_byte_at_to_rcx(&mut self, disp: i32) {
        self.wrote(RCX);
        self.bytes(&[0x65, 0x0f, 0xb6, 0x0c, 0x25]);
        self.imm32(disp);
    }

    /// `inc byte gs:[disp + S1]`, or `dec`.
    pub(crate) fn step_counter(&mut self, disp: i32, up: bool) {
        let reg = u8::from(!up) << 3;
        self.bytes(&[0x65, 0x41, 0xfe, 0x87 | reg]);
        self.imm32(disp);
    }

    /// `or byte gs:[disp + S1], bits`.
    pub(crate) fn mark_counter(&mut self, disp: i32, bits: u8) {
        self.bytes(&[0x65, 0x41, 0x80, 0x8f]);
        self.imm32(disp);
        self.bytes(&[bits]);
    }

    /// `and byte gs:[disp + S1], bits`.
    pub(crate) fn clear_counter(&mut self, disp: i32, bits: u8) {
        self.bytes(&[0x65, 0x41, 0x80, 0xa7]);
        self.imm32(disp);
        self.bytes(&[bits]);
    }

    /// `sbb rax, rax`: all bits are the carry flag.
    pub(crate) fn spread_carry_to_rax(&mut self) {
        self.wrote(RAX);
        self.bytes(&[0x48, 0x19, 0xc0]);
    }
}
