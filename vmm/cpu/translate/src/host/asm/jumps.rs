//! Jumps, and holes that are filled in when their target is known.
//!
//! A `Hole` is a displacement that is not known yet; each one is landed in the code being written,
//! or patched when the code has been placed. The emitter and `stubs` write all their jumps with
//! these functions.

use super::{Asm, Hole, S0};

impl Asm {
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

    /// `lea S0, [rip + rel32]`, to be filled in.
    pub(crate) fn address_to_s0(&mut self) -> Hole {
        self.wrote(S0);
        self.bytes(&[0x4c, 0x8d, 0x35, 0, 0, 0, 0]);
        self.hole(4)
    }

    pub(super) fn hole(&self, width: usize) -> Hole {
        Hole {
            at: self.code.len() - width,
            short: width == 1,
        }
    }

    /// Host address of the byte at `offset`.
    pub(crate) fn address_of(&self, offset: u32) -> u64 {
        self.base + u64::from(offset)
    }

    /// Offset of a hole's displacement, for patching after placement.
    pub(crate) fn hole_offset(&self, hole: Hole) -> u32 {
        hole.at as u32
    }

    /// Makes a hole lead here.
    pub(crate) fn land(&mut self, hole: Hole) {
        let width = if hole.short { 1 } else { 4 };
        let rel = (self.code.len() - hole.at - width) as i32;
        let end = hole.at + width;
        self.code[hole.at..end].copy_from_slice(&rel.to_le_bytes()[..width]);
    }
}
