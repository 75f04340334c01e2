//! Jumps, calls and returns.

use iced_x86::{Instruction, Mnemonic, OpKind};

use super::{Cold, ColdKind, Emitter};
use crate::asm::{Hole, RSP, S0, S1};
use crate::context::at;

const PAGE_SHIFT: u32 = 12;

impl Emitter {
    /// Goes on at guest address `target`.
    pub(super) fn jump_to_guest(&mut self, target: u64) {
        if self.is_chainable(target) {
            let hole = self.asm.jump();
            self.link_from(hole, target);
        } else {
            self.asm.mov_imm(S0, target);
            self.jump_cached();
        }
    }

    /// Within a page, a jump may lead straight to the next block: whoever runs
    /// this block has the page mapped. Across pages only the jump cache knows what
    /// is mapped. Single-stepped blocks return to the dispatcher every time.
    fn is_chainable(&self, target: u64) -> bool {
        let linear = target.wrapping_add(u64::from(self.mode.skew));
        !self.mode.single && linear >> PAGE_SHIFT == self.page
    }

    fn link_from(&mut self, hole: Hole, target: u64) {
        self.cold.push(Cold {
            hole,
            kind: ColdKind::Link { target },
            index: self.index,
        });
    }

    /// Goes on at the guest address in S0.
    pub(super) fn jump_cached(&mut self) {
        if self.mode.single {
            self.asm.jump_to(self.shared.lookup);
            return;
        }
        self.asm.pext(S1, S0, at::JUMP_MASK);
        self.asm.jump_table8(at::jumps(self.mode.user));
    }

    pub(super) fn jump_if(&mut self, instruction: &Instruction) {
        let target = instruction.near_branch_target();
        let taken = if instruction.is_jcc_short_or_near() {
            self.asm.jump_if(condition_nibble(instruction))
        } else {
            self.count_jump(instruction)
        };
        self.jump_to_guest(instruction.next_ip());
        if self.is_chainable(target) && instruction.is_jcc_short_or_near() {
            self.link_from(taken, target);
        } else {
            self.asm.land(taken);
            self.jump_to_guest(target);
        }
    }

    /// LOOP, LOOPE, LOOPNE, JRCXZ and JECXZ, whose displacement has 8 bits.
    fn count_jump(&mut self, instruction: &Instruction) -> Hole {
        use iced_x86::Code as C;
        let opcode = match instruction.mnemonic() {
            Mnemonic::Loopne => 0xe0,
            Mnemonic::Loope => 0xe1,
            Mnemonic::Loop => 0xe2,
            _ => 0xe3,
        };
        let wide = matches!(
            instruction.code(),
            C::Jrcxz_rel8_64 | C::Loop_rel8_64_RCX | C::Loope_rel8_64_RCX | C::Loopne_rel8_64_RCX
        );
        if !wide {
            self.asm.bytes(&[0x67]);
        }
        self.asm.jump_short(opcode)
    }

    pub(super) fn call(&mut self, instruction: &Instruction, flags_dead: bool) {
        self.push_return_address(instruction.next_ip(), flags_dead);
        self.jump_to_guest(instruction.near_branch64());
    }

    fn push_return_address(&mut self, address: u64, flags_dead: bool) {
        self.asm.lea(S0, RSP, -8);
        let access = self.begin_access(8, true, flags_dead);
        if let Ok(short) = i32::try_from(address as i64) {
            self.asm.store_host_imm(short);
        } else {
            self.asm.lea_sum(S1, S0, S1, 0);
            self.asm.mov_imm(S0, address);
            self.asm.store_at_s1(S0);
        }
        self.asm.lea(RSP, RSP, -8);
        self.end_access(access);
    }

    pub(super) fn ret(&mut self, instruction: &Instruction, flags_dead: bool) {
        let extra = if instruction.op_count() == 1 {
            i32::from(instruction.immediate16())
        } else {
            0
        };
        self.asm.mov(S0, RSP);
        let access = self.begin_access(8, false, flags_dead);
        self.asm.load_host(S0);
        self.asm.lea(RSP, RSP, 8 + extra);
        self.end_access(access);
        self.jump_cached();
    }

    pub(super) fn jump_indirect(&mut self, instruction: &Instruction, flags_dead: bool) {
        if instruction.op0_kind() == OpKind::Memory {
            self.linear_address(instruction);
            let access = self.begin_access(8, false, flags_dead);
            self.asm.load_host(S0);
            self.end_access(access);
        } else {
            let source = self.fetch(instruction.op0_register(), S0);
            if source != S0 {
                self.asm.mov(S0, source);
            }
        }
        self.jump_cached();
    }

    pub(super) fn call_indirect(&mut self, instruction: &Instruction, flags_dead: bool) {
        if instruction.op0_kind() == OpKind::Memory {
            self.load_carried(instruction, flags_dead);
        } else {
            let source = self.fetch(instruction.op0_register(), S0);
            self.asm.store(at::CARRIED, source);
        }
        self.push_return_address(instruction.next_ip(), flags_dead);
        self.asm.load(S0, at::CARRIED);
        self.jump_cached();
    }
}

/// The low nibble of a Jcc's opcode.
fn condition_nibble(instruction: &Instruction) -> u8 {
    use iced_x86::ConditionCode as Cc;
    match instruction.condition_code() {
        Cc::o => 0,
        Cc::no => 1,
        Cc::b => 2,
        Cc::ae => 3,
        Cc::e => 4,
        Cc::ne => 5,
        Cc::be => 6,
        Cc::a => 7,
        Cc::s => 8,
        Cc::ns => 9,
        Cc::p => 10,
        Cc::np => 11,
        Cc::l => 12,
        Cc::ge => 13,
        Cc::le => 14,
        Cc::g | Cc::None => 15,
    }
}
