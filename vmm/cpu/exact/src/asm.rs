//! The few host instructions that translation adds, encoded by hand: they are
//! most of what is emitted, and a general assembler costs ten times as much.
//!
//! Encodings follow the Intel SDM, volume 2. Registers are host registers by
//! their number in the encoding.

/// A host register's number.
pub(crate) type Reg = u8;

pub(crate) const RAX: Reg = 0;
pub(crate) const RCX: Reg = 1;
pub(crate) const RDX: Reg = 2;
pub(crate) const RSP: Reg = 4;
pub(crate) const RBP: Reg = 5;
pub(crate) const RSI: Reg = 6;
pub(crate) const RDI: Reg = 7;
pub(crate) const R11: Reg = 11;
/// First scratch register: an address, then a page offset.
pub(crate) const S0: Reg = 14;
/// Second scratch register: a table index, then a host page.
pub(crate) const S1: Reg = 15;

/// A host memory operand: `[base + index*scale + disp]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub base: Reg,
    /// With its scale; never RSP.
    pub index: Option<(Reg, u8)>,
    pub disp: i32,
}

fn scale_bits(scale: u8) -> u8 {
    (scale.trailing_zeros() as u8) << 6
}

/// Code being assembled for a known address.
#[derive(Debug, Default)]
pub(crate) struct Asm {
    base: u64,
    code: Vec<u8>,
    /// Which scratch registers were written since somebody asked.
    written: [bool; 2],
}

/// A `rel8` or `rel32` to be filled in.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Hole {
    at: usize,
    short: bool,
}

impl Asm {
    /// Notes that a register is written.
    fn wrote(&mut self, reg: Reg) {
        if reg >= S0 {
            self.written[usize::from(reg - S0)] = true;
        }
    }

    /// Whether scratch register `index` was written since the last call.
    pub(crate) fn take_written(&mut self, index: usize) -> bool {
        std::mem::take(&mut self.written[index])
    }

    /// Code elsewhere writes the scratch registers and comes back here.
    pub(crate) fn spoil(&mut self) {
        self.written = [true; 2];
    }

    /// Starts over for code that will stand at host address `base`.
    pub(crate) fn restart(&mut self, base: u64) {
        self.base = base;
        self.code.clear();
    }

    /// The bytes so far.
    pub(crate) fn code(&self) -> &[u8] {
        &self.code
    }

    /// Lends the buffer to an encoder that appends to it.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.code)
    }

    /// Takes the buffer back.
    pub(crate) fn put(&mut self, code: Vec<u8>) {
        self.code = code;
    }

    /// Drops what stands from `offset` on.
    pub(crate) fn cut(&mut self, offset: u32) {
        self.code.truncate(offset as usize);
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u32 {
        self.code.len() as u32
    }

    /// Host address of the next byte.
    pub(crate) fn here(&self) -> u64 {
        self.base + self.code.len() as u64
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    fn imm32(&mut self, value: i32) {
        self.bytes(&value.to_le_bytes());
    }

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

    /// `mov byte gs:[disp], value`.
    pub(crate) fn store_imm8(&mut self, disp: i32, value: u8) {
        self.bytes(&[0x65, 0xc6, 0x04, 0x25]);
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

    /// `vpaddq xmm31, xmm31, gs:[disp]{1to2}` (AVX-512VL).
    pub(crate) fn add_to_xmm31(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x62, 0x61, 0x85, 0x10, 0xd4, 0x3c, 0x25]);
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

    /// `test S1, S1`, 64 bits.
    pub(crate) fn test_s1(&mut self) {
        self.bytes(&[0x4d, 0x85, 0xff]);
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

    /// `jmp gs:[disp + S1*8]`.
    pub(crate) fn jump_table8(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x42, 0xff, 0x24, 0xfd]);
        self.imm32(disp);
    }

    /// `jmp [rip + ...]`, through the word at host address `address`.
    pub(crate) fn jump_through(&mut self, address: u64) {
        let rel = address.wrapping_sub(self.here() + 6) as i32;
        self.bytes(&[0xff, 0x25]);
        self.imm32(rel);
    }

    /// `jmp gs:[disp]`.
    pub(crate) fn jump_slot(&mut self, disp: i32) {
        self.bytes(&[0x65, 0xff, 0x24, 0x25]);
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

    /// `pushfq`.
    pub(crate) fn push_host_flags(&mut self) {
        self.bytes(&[0x9c]);
    }

    /// `pop` S1.
    pub(crate) fn pop_s1(&mut self) {
        self.wrote(S1);
        self.bytes(&[0x41, 0x5f]);
    }

    /// `rep stos` or `rep movs` of elements of `size` bytes.
    pub(crate) fn repeat_string(&mut self, size: u8, moves: bool) {
        let opcode = if moves { 0xa4 } else { 0xaa };
        match size {
            1 => self.bytes(&[0xf3, opcode]),
            2 => self.bytes(&[0x66, 0xf3, opcode | 1]),
            4 => self.bytes(&[0xf3, opcode | 1]),
            _ => self.bytes(&[0xf3, 0x48, opcode | 1]),
        }
    }

    /// `push` S1.
    pub(crate) fn push_s1(&mut self) {
        self.bytes(&[0x41, 0x57]);
    }

    /// `popfq`.
    pub(crate) fn pop_host_flags(&mut self) {
        self.bytes(&[0x9d]);
    }

    /// `rorx dst, src, count`.
    pub(crate) fn rorx(&mut self, dst: Reg, src: Reg, count: u8) {
        self.wrote(dst);
        let r = (!dst >> 3 & 1) << 7;
        let b = (!src >> 3 & 1) << 5;
        self.bytes(&[
            0xc4,
            r | 0x40 | b | 3,
            0xfb,
            0xf0,
            0xc0 | (dst & 7) << 3 | src & 7,
            count,
        ]);
    }

    /// `and reg32, value`.
    pub(crate) fn and32(&mut self, reg: Reg, value: u32) {
        self.wrote(reg);
        if reg >= 8 {
            self.bytes(&[0x41]);
        }
        self.bytes(&[0x81, 0xe0 | reg & 7]);
        self.bytes(&value.to_le_bytes());
    }

    /// `cmp reg, value`, 64 bits.
    pub(crate) fn cmp(&mut self, reg: Reg, value: i32) {
        self.bytes(&[0x48 | reg >> 3, 0x81, 0xf8 | reg & 7]);
        self.imm32(value);
    }

    /// `cmp a, b`, 64 bits.
    pub(crate) fn cmp_registers(&mut self, a: Reg, b: Reg) {
        self.bytes(&[
            0x48 | (b >> 3) << 2 | a >> 3,
            0x39,
            0xc0 | (b & 7) << 3 | a & 7,
        ]);
    }

    /// `sub reg, value`, 64 bits.
    pub(crate) fn sub_from(&mut self, reg: Reg, value: i32) {
        self.wrote(reg);
        self.bytes(&[0x48 | reg >> 3, 0x81, 0xe8 | reg & 7]);
        self.imm32(value);
    }

    /// `not reg`: changes no flag.
    pub(crate) fn not(&mut self, reg: Reg) {
        self.wrote(reg);
        self.bytes(&[0x48 | reg >> 3, 0xf7, 0xd0 | reg & 7]);
    }

    /// `mov dst, src`, 64 bits.
    pub(crate) fn mov(&mut self, dst: Reg, src: Reg) {
        self.wrote(dst);
        self.bytes(&[
            0x48 | (src >> 3) << 2 | dst >> 3,
            0x89,
            0xc0 | (src & 7) << 3 | dst & 7,
        ]);
    }

    /// `mov dst, src`, 32 bits: clears the upper half.
    pub(crate) fn mov32(&mut self, dst: Reg, src: Reg) {
        self.wrote(dst);
        let names = 0xc0 | (src & 7) << 3 | dst & 7;
        self.bytes(&[0x40 | (src >> 3) << 2 | dst >> 3, 0x89, names]);
    }

    /// `mov reg, value` in the shortest form that keeps the flags.
    pub(crate) fn mov_imm(&mut self, reg: Reg, value: u64) {
        self.wrote(reg);
        if let Ok(value) = u32::try_from(value) {
            if reg >= 8 {
                self.bytes(&[0x41]);
            }
            self.bytes(&[0xb8 | reg & 7]);
            self.bytes(&value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value as i64) {
            self.bytes(&[0x48 | reg >> 3, 0xc7, 0xc0 | reg & 7]);
            self.imm32(value);
        } else {
            self.bytes(&[0x48 | reg >> 3, 0xb8 | reg & 7]);
            self.bytes(&value.to_le_bytes());
        }
    }

    /// `lea dst, [base + disp]`.
    pub(crate) fn lea(&mut self, dst: Reg, base: Reg, disp: i32) {
        self.wrote(dst);
        let short = i8::try_from(disp);
        let mode = if short.is_ok() { 0x40 } else { 0x80 };
        self.bytes(&[
            0x48 | (dst >> 3) << 2 | base >> 3,
            0x8d,
            mode | (dst & 7) << 3 | base & 7,
        ]);
        if base & 7 == 4 {
            self.bytes(&[0x24]);
        }
        self.displacement(disp);
    }

    /// `disp8` where it fits, or `disp32`.
    fn displacement(&mut self, disp: i32) {
        match i8::try_from(disp) {
            Ok(short) => self.bytes(&[short as u8]),
            Err(_) => self.imm32(disp),
        }
    }

    /// `lea dst, [base + index + disp]`; `index` must not be RSP.
    pub(crate) fn lea_sum(&mut self, dst: Reg, base: Reg, index: Reg, disp: i32) {
        self.wrote(dst);
        let rex = 0x48 | (dst >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        self.bytes(&[
            rex,
            0x8d,
            0x80 | (dst & 7) << 3 | 4,
            (index & 7) << 3 | base & 7,
        ]);
        self.imm32(disp);
    }

    /// `opcode reg, operand`, 64 bits.
    fn with_operand(&mut self, opcode: u8, reg: Reg, operand: Operand) {
        let (index, scale) = operand.index.unwrap_or((RSP, 1));
        let rex = 0x48 | (reg >> 3) << 2 | (index >> 3) << 1 | operand.base >> 3;
        let sib = scale_bits(scale) | (index & 7) << 3 | operand.base & 7;
        match i8::try_from(operand.disp) {
            Ok(short) => self.bytes(&[rex, opcode, 0x40 | (reg & 7) << 3 | 4, sib, short as u8]),
            Err(_) => {
                self.bytes(&[rex, opcode, 0x80 | (reg & 7) << 3 | 4, sib]);
                self.imm32(operand.disp);
            }
        }
    }

    /// `mov reg, operand`, 64 bits.
    pub(crate) fn load_operand(&mut self, reg: Reg, operand: Operand) {
        self.wrote(reg);
        self.with_operand(0x8b, reg, operand);
    }

    /// `mov reg, operand`, 32 bits.
    pub(crate) fn load_operand32(&mut self, reg: Reg, operand: Operand) {
        self.wrote(reg);
        let (index, scale) = operand.index.unwrap_or((RSP, 1));
        let rex = 0x40 | (reg >> 3) << 2 | (index >> 3) << 1 | operand.base >> 3;
        let sib = scale_bits(scale) | (index & 7) << 3 | operand.base & 7;
        self.bytes(&[rex, 0x8b, 0x80 | (reg & 7) << 3 | 4, sib]);
        self.imm32(operand.disp);
    }

    /// `mov operand, reg`, 64 bits.
    pub(crate) fn store_operand(&mut self, operand: Operand, reg: Reg) {
        self.with_operand(0x89, reg, operand);
    }

    /// `mov qword operand, value`.
    pub(crate) fn store_operand_imm(&mut self, operand: Operand, value: i32) {
        self.with_operand(0xc7, 0, operand);
        self.imm32(value);
    }

    /// `lea reg, operand`.
    pub(crate) fn lea_operand(&mut self, reg: Reg, operand: Operand) {
        self.wrote(reg);
        self.with_operand(0x8d, reg, operand);
    }

    /// `jmp` to a known host address.
    pub(crate) fn jump_to(&mut self, target: u64) {
        let rel = target.wrapping_sub(self.here() + 5) as i32;
        self.bytes(&[0xe9]);
        self.imm32(rel);
    }

    /// `jmp rel32` to be filled in.
    pub(crate) fn jump(&mut self) -> Hole {
        self.bytes(&[0xe9, 0, 0, 0, 0]);
        self.hole(4)
    }

    /// `jcc rel32` to be filled in; `condition` is the low nibble of the opcode.
    pub(crate) fn jump_if(&mut self, condition: u8) -> Hole {
        self.bytes(&[0x0f, 0x80 | condition & 15, 0, 0, 0, 0]);
        self.hole(4)
    }

    /// A conditional jump to host address `target`.
    pub(crate) fn jump_back_if(&mut self, condition: u8, target: u64) {
        let rel = target.wrapping_sub(self.here() + 6) as i32;
        self.bytes(&[0x0f, 0x80 | condition & 15]);
        self.imm32(rel);
    }

    /// `jrcxz rel8` to be filled in.
    pub(crate) fn jump_rcx_zero(&mut self) -> Hole {
        self.jump_short(0xe3)
    }

    /// `opcode rel8` to be filled in: JRCXZ and the LOOP family.
    pub(crate) fn jump_short(&mut self, opcode: u8) -> Hole {
        self.bytes(&[opcode, 0]);
        self.hole(1)
    }

    /// `lea dst, [base + index*scale + disp]`, computed in 32 bits when `narrow`.
    /// `index` must not be RSP.
    pub(crate) fn lea_full(
        &mut self,
        dst: Reg,
        base: Option<Reg>,
        index: Option<(Reg, u8)>,
        disp: i32,
        narrow: bool,
    ) {
        self.wrote(dst);
        let (index, scale) = index.map_or((RSP, 1), |(index, scale)| (index, scale));
        let wide = if narrow { 0x40 } else { 0x48 };
        let rex = wide | (dst >> 3) << 2 | (index >> 3) << 1 | base.unwrap_or(0) >> 3;
        let short = base.is_some() && i8::try_from(disp).is_ok();
        let mode = match (base, short) {
            (None, _) => 0,
            (_, true) => 0x40,
            _ => 0x80,
        };
        let sib = scale_bits(scale) | (index & 7) << 3 | base.unwrap_or(RBP) & 7;
        self.bytes(&[rex, 0x8d, mode | (dst & 7) << 3 | 4, sib]);
        if short {
            self.displacement(disp);
        } else {
            self.imm32(disp);
        }
    }

    fn hole(&self, width: usize) -> Hole {
        Hole {
            at: self.code.len() - width,
            short: width == 1,
        }
    }

    /// Host address of the byte at `offset`.
    pub(crate) fn address_of(&self, offset: u32) -> u64 {
        self.base + u64::from(offset)
    }

    /// Repeats the bytes from offset `start` to `end`, which must not depend on
    /// where they stand.
    pub(crate) fn repeat(&mut self, start: u32, end: u32) {
        self.code.extend_from_within(start as usize..end as usize);
    }

    /// Offset of a hole's displacement, for patching after placement.
    pub(crate) fn hole_offset(&self, hole: Hole) -> u32 {
        hole.at as u32
    }

    /// Lets a hole lead here.
    pub(crate) fn land(&mut self, hole: Hole) {
        let width = if hole.short { 1 } else { 4 };
        let rel = (self.code.len() - hole.at - width) as i32;
        let end = hole.at + width;
        self.code[hole.at..end].copy_from_slice(&rel.to_le_bytes()[..width]);
    }
}
