//! REP STOS and REP MOVS within pages in the TLB, ascending: executed by the host on host
//! addresses. All others are executed in Rust, and so are all if elements have a price, caches are
//! modelled, or instructions run one by one.

use iced_x86::Instruction;

use crate::context::at;
use crate::host::asm::{RAX, RCX, RDI, RSI, Reg, S0, S1};
use crate::host::emit::Emitter;

impl Emitter {
    /// A REP instruction that stores or `moves` elements of `size` bytes. Changes no flag.
    pub(crate) fn repeat(&mut self, instruction: &Instruction, size: u8, moves: bool) {
        if self.lines.is_some()
            || self.prices.is_some()
            || self.follows_path
            || self.mode.is_piece()
        {
            return self.helper(instruction);
        }
        self.asm.store(at::CARRIED, RAX);
        self.asm.store(at::BORROWED, RCX);
        self.begin_reach();
        self.add_reach(RDI, size, true);
        if moves {
            self.add_reach(RSI, size, false);
        }
        self.asm.mov(RCX, RAX);
        self.asm.load(RAX, at::CARRIED);
        let within = self.asm.jump_rcx_zero();
        self.asm.load(RCX, at::BORROWED);
        self.helper(instruction);
        self.asm.land(within);
        self.asm.load(RCX, at::BORROWED);
        self.run_on_host(size, moves);
    }

    /// Sets RAX to nonzero if RCX counts more elements than fit into a page, or if DF is set.
    /// Clobbers S0.
    fn begin_reach(&mut self) {
        self.asm.pext(RAX, RCX, at::PAGE_MASK);
        self.asm.load(S0, at::PUSHED_FLAGS);
        self.asm.pext(S0, S0, at::DIRECTION_MASK);
        self.asm.lea_sum(RAX, RAX, S0, 0);
    }

    /// Adds a nonzero value to RAX unless the first and the last of RCX elements from `pointer` on
    /// lie in one page in the TLB. Each addend has 52 bits, so the sum cannot wrap around. Clobbers
    /// S0 and S1.
    fn add_reach(&mut self, pointer: Reg, size: u8, write: bool) {
        self.asm.pext(S1, pointer, at::TLB_MASK);
        self.asm.load_table8(S0, at::tags(self.mode.user, write));
        self.asm.not(S0);
        self.asm.lea_sum(S0, pointer, S0, 1);
        self.asm
            .lea_full(S1, Some(S0), Some((RCX, size)), -1, false);
        for end in [S0, S1] {
            self.asm.pext(end, end, at::PAGE_MASK);
            self.asm.lea_sum(RAX, RAX, end, 0);
        }
    }

    /// Executes the instruction with host addresses as pointers. S0 and S1 hold their differences
    /// to the guest's.
    fn run_on_host(&mut self, size: u8, moves: bool) {
        if moves {
            self.asm.pext(S1, RSI, at::TLB_MASK);
            self.asm.load_table8(S0, at::deltas(self.mode.user, false));
            self.asm.lea_sum(RSI, RSI, S0, 0);
        }
        self.asm.pext(S1, RDI, at::TLB_MASK);
        self.asm.load_table8(S1, at::deltas(self.mode.user, true));
        self.asm.lea_sum(RDI, RDI, S1, 0);
        self.asm.repeat_string(size, moves);
        self.asm.not(S1);
        self.asm.lea_sum(RDI, RDI, S1, 1);
        if moves {
            self.asm.not(S0);
            self.asm.lea_sum(RSI, RSI, S0, 1);
        }
    }

    /// CLD: the flag is seldom set. Changes no other flag.
    pub(crate) fn clear_direction(&mut self, instruction: &Instruction) {
        self.asm.load(S0, at::PUSHED_FLAGS);
        self.asm.mov(S1, RCX);
        self.asm.pext(RCX, S0, at::DIRECTION_MASK);
        let clear = self.asm.jump_rcx_zero();
        self.asm.mov(RCX, S1);
        self.helper(instruction);
        self.asm.land(clear);
        self.asm.mov(RCX, S1);
    }
}
