//! Jumps, calls and returns.
//!
//! A jump within the page may be linked to its target, since the page is mapped while this code
//! runs; all others go through the jump caches or the dispatcher. `emit/instruction` calls this for
//! the last instruction of a block, and for jumps inside a trace.

use iced_x86::{Instruction, Mnemonic, OpKind};

use super::access::Address;
use super::{Cold, ColdKind, Emitter, GuardedLoop, Links};
use crate::context::at;
use crate::guest::decode::Follow;
use crate::guest::mode::Pace;
use crate::host::asm::{Hole, RCX, RSP, Reg, S0, S1};
use crate::host::stubs::{distance_to_rcx, jump_cached, jump_cached_to};

/// Updates of branch predictors.
mod predict;
pub use predict::FoldedHistory;
pub(super) use predict::{JumpPlace, PredictedJump};

const PAGE_SHIFT: u32 = 12;

impl Emitter {
    /// Continues at guest address `target`.
    pub(super) fn jump_to_guest(&mut self, target: u64) {
        self.end_kept_flags();
        self.catch_up();
        self.settle_history();
        let itself = self.itself.filter(|&(rip, _)| rip == target);
        match (self.guarded_loop.as_ref().map(GuardedLoop::body), itself) {
            (Some(body), Some((_, entry))) => return self.end_round(body, entry),
            (Some(_), None) => self.give_guarded_loop(),
            _ => {}
        }
        if let Some((_, entry)) = itself {
            self.asm.jump_to(entry);
        } else if self.is_chainable(target) {
            self.release();
            let hole = self.asm.jump();
            self.link_from(hole, target);
        } else if self.mode.relative || !self.jumps_by_cache() {
            self.guest_address(S0, target);
            self.jump_cached();
        } else {
            self.release();
            jump_cached_to(&mut self.asm, target, self.mode.user);
        }
    }

    /// True if indirect jumps use the jump cache. Jumps out of a free stub go through the
    /// dispatcher, because events due in the stub wait for its end.
    fn jumps_by_cache(&self) -> bool {
        self.mode.pace == Pace::Full && !self.free
    }

    /// Within a page, a jump may lead directly to the next block: the page is mapped while this
    /// block runs. Across pages, only the jump cache has the present mapping. Single-stepped blocks
    /// return to the dispatcher every time.
    fn is_chainable(&self, target: u64) -> bool {
        let linear = target.wrapping_add(u64::from(self.mode.skew));
        self.links != Links::Cached && !self.mode.is_piece() && linear >> PAGE_SHIFT == self.page
    }

    fn link_from(&mut self, hole: Hole, target: u64) {
        self.put_off(hole, ColdKind::Link { target });
    }

    /// Continues at the guest address in S0.
    pub(super) fn jump_cached(&mut self) {
        self.end_kept_flags();
        self.catch_up();
        self.settle_history();
        if !self.jumps_by_cache() {
            self.asm.jump_to(self.shared.unknown);
            return;
        }
        self.release();
        jump_cached(&mut self.asm, self.mode.user);
    }

    pub(super) fn jump_if(&mut self, instruction: &Instruction) {
        let target = instruction.near_branch_target();
        self.settle_history();
        let taken = if instruction.is_jcc_short_or_near() {
            self.asm.jump_if(condition_nibble(instruction))
        } else {
            self.count_jump(instruction)
        };
        let predicted = self
            .path_slot
            .filter(|_| instruction.is_jcc_short_or_near());
        let jump = |taken| PredictedJump {
            rip: instruction.ip(),
            taken,
            place: JumpPlace::Last,
        };
        if predicted.is_some() {
            self.predict_jump(jump(false));
        }
        self.jump_to_guest(instruction.next_ip());
        let usual = self.allocation.is_usual() && self.guarded_loop.is_none();
        let direct = usual && self.is_chainable(target) && predicted.is_none();
        if direct && instruction.is_jcc_short_or_near() {
            self.link_from(taken, target);
        } else {
            self.asm.land(taken);
            if predicted.is_some() {
                self.predict_jump(jump(true));
            }
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

    /// A conditional jump in the middle of a run: one branch stays in the run, the other leaves it.
    pub(super) fn side_exit(&mut self, instruction: &Instruction, follow: Follow) {
        let condition = condition_nibble(instruction);
        let (taken, not) = (instruction.near_branch64(), instruction.next_ip());
        let (condition, target, next) = if follow == Follow::Taken {
            (condition ^ 1, not, taken)
        } else {
            (condition, taken, not)
        };
        let hole = self.asm.jump_if(condition);
        if self.path_slot.is_none() {
            return self.put_off(hole, ColdKind::SideExit { target });
        }
        let rip = instruction.ip();
        let kind = ColdKind::PathExit {
            rip,
            taken: follow != Follow::Taken,
            target,
        };
        self.put_off(hole, kind);
        let taken = follow == Follow::Taken;
        let place = JumpPlace::InTrace { next };
        self.predict_in_trace(PredictedJump { rip, taken, place });
        self.folded.push(taken);
    }

    pub(super) fn put_off(&mut self, hole: Hole, kind: ColdKind) {
        self.cold.push(Cold {
            hole,
            kind,
            index: self.index,
            deferred: self.deferred,
            flags_kept: self.flags_kept,
            folded: self.folded,
            in_guarded_loop: self.guarded_loop.is_some(),
        });
    }

    pub(super) fn call(&mut self, instruction: &Instruction, follow: Follow, flags_dead: bool) {
        self.push_return_address(instruction.next_ip(), flags_dead);
        if follow != Follow::Target {
            self.jump_to_guest(instruction.near_branch64());
        }
    }

    fn push_return_address(&mut self, address: u64, flags_dead: bool) {
        let (operand, access) = self.open(Address::On(RSP, -8), 8, true, flags_dead);
        let short = i32::try_from(address as i64).ok();
        if let Some(short) = short.filter(|_| !self.mode.relative) {
            self.asm.store_operand_imm(operand, short);
        } else {
            let operand = self.free_first(operand);
            self.guest_address(S0, address);
            self.asm.store_operand(operand, S0);
        }
        self.move_stack(-8);
        self.end_access(access);
        if self.follows_path {
            self.expect_return_to(address);
        }
    }

    pub(super) fn ret(&mut self, instruction: &Instruction, follow: Follow, flags_dead: bool) {
        let extra = if instruction.op_count() == 1 {
            i32::from(instruction.immediate16())
        } else {
            0
        };
        let (operand, access) = self.open(Address::On(RSP, 0), 8, false, flags_dead);
        self.asm.load_operand(S0, operand);
        self.move_stack(8 + extra);
        self.end_access(access);
        if self.follows_path {
            self.predict_return(matches!(follow, Follow::Return(_)));
        }
        match follow {
            Follow::Return(expected) => self.expect_return(expected),
            Follow::Predicted(expected) => {
                self.expect_return(expected);
                self.jump_to_guest(expected);
            }
            _ => self.jump_cached(),
        }
    }

    /// Loads a constant guest address into `reg`. Changes no flag.
    pub(super) fn guest_address(&mut self, reg: Reg, address: u64) {
        if self.mode.relative {
            self.asm.load(reg, at::CODE_PAGE);
            self.asm.lea(reg, reg, address as i32);
        } else {
            self.asm.mov_imm(reg, address);
        }
    }

    /// Continues only if S0 is `expected`. Keeps the flags, which may be live.
    fn expect_return(&mut self, expected: u64) {
        if self.mode.relative {
            self.asm.mov(S1, RCX);
            self.asm.load(RCX, at::CODE_PAGE);
            self.asm.not(RCX);
            self.asm.lea_sum(RCX, S0, RCX, 1 - expected as i32);
        } else {
            distance_to_rcx(&mut self.asm, expected);
        }
        let same = self.asm.jump_rcx_zero();
        let hole = self.asm.jump();
        self.put_off(hole, ColdKind::SideReturn);
        self.asm.land(same);
        self.asm.mov(RCX, S1);
    }

    pub(super) fn jump_indirect(&mut self, instruction: &Instruction, flags_dead: bool) {
        if instruction.op0_kind() == OpKind::Memory {
            let (operand, access) = self.open(Address::Of(instruction), 8, false, flags_dead);
            self.asm.load_operand(S0, operand);
            self.end_access(access);
        } else {
            let source = self.fetch(instruction.op0_register(), S0);
            if source != S0 {
                self.asm.mov(S0, source);
            }
        }
        self.predict_target(instruction.ip());
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
        self.predict_target(instruction.ip());
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
