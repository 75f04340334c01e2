//! Words of the context, relative to GS, and entries of its tables, indexed by S1.
//!
//! Each function writes the instruction in its comment; offsets are those in `context::at`. The
//! emitter calls them, and `stubs` for shared code. The instruction determines whether flags
//! change.

use super::{Asm, RCX, Reg};

impl Asm {
    /// `REX.W opcode reg, gs:[disp]`.
    fn gs_operand(&mut self, opcode: u8, reg: Reg, disp: i32) {
        self.bytes(&[
            0x65,
            0x48 | (reg >> 3) << 2,
            opcode,
            (reg & 7) << 3 | 4,
            0x25,
        ]);
        self.imm32(disp);
    }

    /// `mov reg, gs:[disp]`.
    pub(crate) fn load(&mut self, reg: Reg, disp: i32) {
        self.wrote(reg);
        self.gs_operand(0x8b, reg, disp);
    }

    /// `mov gs:[disp], reg`.
    pub(crate) fn store(&mut self, disp: i32, reg: Reg) {
        self.gs_operand(0x89, reg, disp);
    }

    /// `mov byte gs:[disp + S0], value`.
    pub(crate) fn store_imm8_s0(&mut self, disp: i32, value: u8) {
        self.bytes(&[0x65, 0x41, 0xc6, 0x86]);
        self.imm32(disp);
        self.bytes(&[value]);
    }

    /// `mov dword gs:[disp], value`.
    pub(crate) fn store_imm32(&mut self, disp: i32, value: u32) {
        self.bytes(&[0x65, 0xc7, 0x04, 0x25]);
        self.imm32(disp);
        self.bytes(&value.to_le_bytes());
    }

    /// `mov qword gs:[disp], value`.
    pub(crate) fn store_imm(&mut self, disp: i32, value: i32) {
        self.bytes(&[0x65, 0x48, 0xc7, 0x04, 0x25]);
        self.imm32(disp);
        self.imm32(value);
    }

    /// `sub reg, gs:[disp]`.
    pub(crate) fn sub_slot(&mut self, reg: Reg, disp: i32) {
        self.wrote(reg);
        self.gs_operand(0x2b, reg, disp);
    }

    /// `cmp reg, gs:[disp]`.
    pub(crate) fn cmp_slot(&mut self, reg: Reg, disp: i32) {
        self.gs_operand(0x3b, reg, disp);
    }

    /// `cmp qword gs:[disp], 0`.
    pub(crate) fn cmp_slot_zero(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x48, 0x83, 0x3c, 0x25]);
        self.imm32(disp);
        self.bytes(&[0]);
    }

    /// `sub dword gs:[disp], 1`.
    pub(crate) fn decrement32(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x83, 0x2c, 0x25]);
        self.imm32(disp);
        self.bytes(&[1]);
    }

    /// `sub qword gs:[disp], value`.
    pub(crate) fn sub_imm(&mut self, disp: i32, value: i32) {
        let short = i8::try_from(value);
        let opcode = if short.is_ok() { 0x83 } else { 0x81 };
        self.bytes(&[0x65, 0x48, opcode, 0x2c, 0x25]);
        self.imm32(disp);
        match short {
            Ok(short) => self.bytes(&[short as u8]),
            Err(_) => self.imm32(value),
        }
    }

    /// `opcode reg, gs:[disp + S1]`, 64 bits.
    fn gs_s1(&mut self, opcode: u8, reg: Reg, disp: i32) {
        self.bytes(&[
            0x65,
            0x49 | (reg >> 3) << 2,
            opcode,
            0x80 | (reg & 7) << 3 | 7,
        ]);
        self.imm32(disp);
    }

    /// `xor reg, gs:[disp + S1]`.
    pub(crate) fn xor_table(&mut self, reg: Reg, disp: i32) {
        self.wrote(reg);
        self.gs_s1(0x33, reg, disp);
    }

    /// `sub reg, gs:[disp + S1]`.
    pub(crate) fn sub_table(&mut self, reg: Reg, disp: i32) {
        self.wrote(reg);
        self.gs_s1(0x2b, reg, disp);
    }

    /// `cmp reg, gs:[disp + S1]`.
    pub(crate) fn cmp_table(&mut self, reg: Reg, disp: i32) {
        self.gs_s1(0x3b, reg, disp);
    }

    /// `cmp qword gs:[disp + S1], 0`.
    pub(crate) fn cmp_table_zero(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x49, 0x83, 0xbf]);
        self.imm32(disp);
        self.bytes(&[0]);
    }

    /// `mov reg, gs:[disp + S1]`.
    pub(crate) fn load_table(&mut self, reg: Reg, disp: i32) {
        self.wrote(reg);
        self.gs_s1(0x8b, reg, disp);
    }

    /// `mov reg, gs:[disp + S1*8]`.
    pub(crate) fn load_table8(&mut self, reg: Reg, disp: i32) {
        self.wrote(reg);
        self.bytes(&[0x65, 0x4a | (reg >> 3) << 2, 0x8b, (reg & 7) << 3 | 4, 0xfd]);
        self.imm32(disp);
    }

    /// `opcode reg, gs:[disp + S0]`, 64 bits.
    fn gs_s0(&mut self, opcode: u8, reg: Reg, disp: i32) {
        self.bytes(&[
            0x65,
            0x49 | (reg >> 3) << 2,
            opcode,
            0x80 | (reg & 7) << 3 | 6,
        ]);
        self.imm32(disp);
    }

    /// `cmp reg, gs:[disp + S0]`.
    pub(crate) fn cmp_entry(&mut self, reg: Reg, disp: i32) {
        self.gs_s0(0x3b, reg, disp);
    }

    /// `mov reg, gs:[disp + S0]`.
    pub(crate) fn load_entry(&mut self, reg: Reg, disp: i32) {
        self.wrote(reg);
        self.gs_s0(0x8b, reg, disp);
    }

    /// `cmp dword gs:[disp + S0], value`.
    pub(crate) fn cmp_entry_imm32(&mut self, disp: i32, value: u32) {
        self.bytes(&[0x65, 0x41, 0x81, 0xbe]);
        self.imm32(disp);
        self.bytes(&value.to_le_bytes());
    }

    /// `mov gs:[disp + S1*8], reg`.
    pub(crate) fn store_table8(&mut self, disp: i32, reg: Reg) {
        self.bytes(&[0x65, 0x4a | (reg >> 3) << 2, 0x89, (reg & 7) << 3 | 4, 0xfd]);
        self.imm32(disp);
    }

    /// `movzx ecx, byte gs:[disp + S1]`.
    pub(crate) fn load_byte_to_rcx(&mut self, disp: i32) {
        self.wrote(RCX);
        self.bytes(&[0x65, 0x41, 0x0f, 0xb6, 0x8f]);
        self.imm32(disp);
    }

    /// `pext dst, src, gs:[disp]`.
    pub(crate) fn pext(&mut self, dst: Reg, src: Reg, disp: i32) {
        self.wrote(dst);
        let r = (!dst >> 3 & 1) << 7;
        self.bytes(&[0x65, 0xc4, r | 0x62, 0x80 | (!src & 15) << 3 | 2, 0xf5]);
        self.bytes(&[(dst & 7) << 3 | 4, 0x25]);
        self.imm32(disp);
    }

    /// `pdep dst, src, gs:[disp]` (BMI2).
    pub(crate) fn pdep(&mut self, dst: Reg, src: Reg, disp: i32) {
        self.wrote(dst);
        let r = (!dst >> 3 & 1) << 7;
        self.bytes(&[0x65, 0xc4, r | 0x62, 0x80 | (!src & 15) << 3 | 3, 0xf5]);
        self.bytes(&[(dst & 7) << 3 | 4, 0x25]);
        self.imm32(disp);
    }
}
