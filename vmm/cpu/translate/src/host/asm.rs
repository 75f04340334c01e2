//! The few host instructions that translation adds, encoded by hand: they are most of the emitted
//! code, and a general assembler is ten times as slow.
//!
//! Encodings follow the Intel SDM, volume 2. Registers are host registers by
//! their number in the encoding.

/// Words of the context, relative to GS, and entries of its tables, indexed by S1.
mod context;
/// The budget in a register that the guest lacks or does not use.
mod counter;
/// Saving and restoring the arithmetic flags through RAX.
mod flags;
/// Jumps, and holes for their displacements.
mod jumps;
/// Counters of branch predictors, indexed by S1.
mod tagged;

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
pub struct Asm {
    base: u64,
    code: Vec<u8>,
    /// For each scratch register, true if it was written since the last query.
    written: [bool; 2],
}

/// A `rel8` or `rel32` to be filled in later.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Hole {
    at: usize,
    short: bool,
}

impl Asm {
    /// Records that a register is written.
    fn wrote(&mut self, reg: Reg) {
        if reg >= S0 {
            self.written[usize::from(reg - S0)] = true;
        }
    }

    /// True if scratch register `index` was written since the last call.
    pub(crate) fn take_written(&mut self, index: usize) -> bool {
        std::mem::take(&mut self.written[index])
    }

    /// Records that code elsewhere, which returns here, writes the scratch registers.
    pub(crate) fn spoil(&mut self) {
        self.written = [true; 2];
    }

    /// Starts over with code for host address `base`.
    pub(crate) fn restart(&mut self, base: u64) {
        self.base = base;
        self.code.clear();
    }

    /// The bytes so far.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// Takes the buffer, for an encoder that appends to it.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.code)
    }

    /// Returns the buffer.
    pub(crate) fn put(&mut self, code: Vec<u8>) {
        self.code = code;
    }

    /// Drops the code from `offset` on.
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

    /// `movsxd dst, src32`.
    pub(crate) fn sign_extend32(&mut self, dst: Reg, src: Reg) {
        self.wrote(dst);
        let names = 0xc0 | (dst & 7) << 3 | src & 7;
        self.bytes(&[0x48 | (dst >> 3) << 2 | src >> 3, 0x63, names]);
    }

    /// `imul dst, src, value`, 64 bits.
    pub(crate) fn multiply(&mut self, dst: Reg, src: Reg, value: i32) {
        self.wrote(dst);
        let names = 0xc0 | (dst & 7) << 3 | src & 7;
        self.bytes(&[0x48 | (dst >> 3) << 2 | src >> 3, 0x69, names]);
        self.imm32(value);
    }

    /// `not reg`, which keeps the flags.
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
        self.with_address(0x48, 0x8d, dst, Some(base), None, disp);
    }

    /// `lea dst, [base + index + disp]`; `index` must not be RSP.
    pub(crate) fn lea_sum(&mut self, dst: Reg, base: Reg, index: Reg, disp: i32) {
        self.wrote(dst);
        self.with_address(0x48, 0x8d, dst, Some(base), Some((index, 1)), disp);
    }

    /// `opcode reg, [base + index*scale + disp]` in its shortest form: misses of the first-level
    /// instruction cache delay hot code more often than its execution, and a sum of three terms
    /// takes longer than one of two. `index` must not be RSP.
    fn with_address(
        &mut self,
        rex: u8,
        opcode: u8,
        reg: Reg,
        base: Option<Reg>,
        index: Option<(Reg, u8)>,
        disp: i32,
    ) {
        let number = base.unwrap_or(RBP);
        let (place, scale) = index.unwrap_or((RSP, 1));
        let needs_sib = index.is_some() || base.is_none() || number & 7 == RSP;
        let mode = match base {
            None => 0,
            // RBP and R13 require a displacement.
            Some(_) if disp == 0 && number & 7 != RBP => 0,
            Some(_) if i8::try_from(disp).is_ok() => 0x40,
            Some(_) => 0x80,
        };
        let high = (reg >> 3) << 2 | (place >> 3) << 1 | base.unwrap_or(0) >> 3;
        let fields = mode | (reg & 7) << 3 | if needs_sib { 4 } else { number & 7 };
        self.bytes(&[rex | high, opcode, fields]);
        if needs_sib {
            self.bytes(&[scale_bits(scale) | (place & 7) << 3 | number & 7]);
        }
        match mode {
            0 if base.is_some() => {}
            0x40 => self.bytes(&[disp as u8]),
            _ => self.imm32(disp),
        }
    }

    /// `opcode reg, operand`, 64 bits.
    fn with_operand(&mut self, opcode: u8, reg: Reg, operand: Operand) {
        let Operand { base, index, disp } = operand;
        self.with_address(0x48, opcode, reg, Some(base), index, disp);
    }

    /// `mov reg, operand`, 64 bits.
    pub(crate) fn load_operand(&mut self, reg: Reg, operand: Operand) {
        self.wrote(reg);
        self.with_operand(0x8b, reg, operand);
    }

    /// `mov reg, operand`, 32 bits.
    pub(crate) fn load_operand32(&mut self, reg: Reg, operand: Operand) {
        self.wrote(reg);
        let Operand { base, index, disp } = operand;
        self.with_address(0x40, 0x8b, reg, Some(base), index, disp);
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
        let rex = if narrow { 0x40 } else { 0x48 };
        self.with_address(rex, 0x8d, dst, base, index, disp);
    }

    /// Repeats the bytes from offset `start` to `end`, which must be position-independent.
    pub(crate) fn repeat(&mut self, start: u32, end: u32) {
        self.code.extend_from_within(start as usize..end as usize);
    }
}
