//! Sets flags that an instruction leaves undefined to zero, unless they are dead, and undefined
//! results to the engine's definition.
//!
//! Called around each instruction, unless the host's own results are requested.

use iced_x86::{Code, Instruction, Mnemonic, RflagsBits};

use super::Emitter;
use crate::context::at;
use crate::guest::flags::undefined::{Count, count, shifts, zeroed, zeroed_by};
use crate::host::asm::{RAX, RCX, S0, S1};

/// The low nibble of JZ.
const CONDITION_ZERO: u8 = 4;

impl Emitter {
    /// Emits `instruction` if its whole result is undefined: BSWAP of 16 bits, which gives zero.
    pub(super) fn undefined_result(&mut self, instruction: &Instruction) -> bool {
        let swaps_word = instruction.code() == Code::Bswap_r16;
        if swaps_word {
            self.set_low_half(instruction.op0_register(), 0);
        }
        swaps_word
    }

    /// BSF and BSR of zero keep their destination. Here, the 32-bit forms clear its upper half, as
    /// all other instructions do; processors differ in that. Changes no flag.
    pub(super) fn clear_upper_half(&mut self, instruction: &Instruction) {
        if !matches!(instruction.code(), Code::Bsf_r32_rm32 | Code::Bsr_r32_rm32) {
            return;
        }
        let target = instruction.op0_register();
        if let Ok(moves) = Instruction::with2(Code::Mov_r32_rm32, target, target) {
            self.plain(&moves);
        }
    }

    /// Saves CL for [`zero_undefined`](Self::zero_undefined), as the instruction may change it.
    pub(super) fn keep_count(&mut self, instruction: &Instruction) {
        if by_cl(instruction).is_some() {
            self.asm.store(at::SHIFT_COUNT, RCX);
        }
    }

    /// Sets the flags that `instruction` left undefined to zero. Clobbers both scratch registers.
    pub(super) fn zero_undefined(&mut self, instruction: &Instruction) {
        self.asm.spoil();
        self.asm.mov(S1, RAX);
        self.asm.flags_to_ax();
        match by_cl(instruction) {
            None => self.keep_in_ax(zeroed(instruction)),
            Some(mask) => self.keep_by_count(instruction.mnemonic(), mask),
        }
        self.asm.flags_from_ax();
        self.asm.mov(RAX, S1);
    }

    /// Depends on the count: zero leaves all flags, and one defines OF.
    fn keep_by_count(&mut self, mnemonic: Mnemonic, mask: u32) {
        self.asm.load(S0, at::SHIFT_COUNT);
        self.asm.and32(S0, mask);
        let none = self.asm.jump_if(CONDITION_ZERO);
        let [by_one, by_more] = [1, 2].map(|count| zeroed_by(mnemonic, count));
        if by_one != 0 {
            self.keep_in_ax(by_one);
        }
        self.asm.cmp(S0, 1);
        let one = self.asm.jump_if(CONDITION_ZERO);
        self.keep_in_ax(by_more);
        self.asm.land(one);
        self.asm.land(none);
    }

    /// Clears `flags`, in iced's bits, in AX, in the format of LAHF and SETO.
    fn keep_in_ax(&mut self, flags: u32) {
        let places = [
            (RflagsBits::OF, 0x1),
            (RflagsBits::CF, 0x100),
            (RflagsBits::PF, 0x400),
            (RflagsBits::AF, 0x1000),
            (RflagsBits::ZF, 0x4000),
            (RflagsBits::SF, 0x8000),
        ];
        let cleared = places.iter().filter(|(flag, _)| flags & flag != 0);
        let cleared: u32 = cleared.map(|(_, place)| place).sum();
        self.asm.and32(RAX, !cleared);
    }
}

/// The mask of the count of an instruction that shifts by CL.
fn by_cl(instruction: &Instruction) -> Option<u32> {
    if !shifts(instruction.mnemonic()) {
        return None;
    }
    match count(instruction) {
        Count::InCl { mask } => Some(mask),
        Count::Known(_) => None,
    }
}
