//! Guest addresses, and the check that turns one into a host address.

use iced_x86::{Instruction, Register};

use super::{Cold, ColdKind, Emitter};
use crate::asm::{RCX, Reg, S0, S1};
use crate::block::CheckForm;
use crate::context::{TLB_ENTRIES, at};
use crate::rewrite::general_number;
use crate::size::CodeSize;

/// Guest registers of this number and above live in memory.
const FIRST_SPILLED: u8 = 14;

/// An open access: what a miss needs to know once the access is emitted.
#[must_use]
pub(super) struct Access {
    cold: usize,
    resume: u32,
}

impl Emitter {
    /// Leaves the linear address of the memory operand in S0. Changes no flag.
    pub(super) fn linear_address(&mut self, instruction: &Instruction) {
        if self.mode.size != CodeSize::Long {
            self.legacy_address(instruction);
            return;
        }
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        if instruction.is_ip_rel_memory_operand()
            || (base == Register::None && index == Register::None)
        {
            let mut address = instruction.memory_displacement64();
            if base == Register::EIP {
                address &= 0xffff_ffff;
            }
            self.asm.mov_imm(S0, address);
        } else {
            self.based_address(instruction);
        }
        match instruction.memory_segment() {
            Register::FS => self.add_to_s0(at::FS_BASE),
            Register::GS => self.add_to_s0(at::GS_BASE),
            _ => {}
        }
    }

    fn add_to_s0(&mut self, slot: i32) {
        self.asm.load(S1, slot);
        self.asm.lea_sum(S0, S0, S1, 0);
    }

    fn based_address(&mut self, instruction: &Instruction) {
        let mut narrow = false;
        let mut place = |register: Register, scratch: Reg, emitter: &mut Self| -> Option<Reg> {
            let (number, is_narrow) = general_number(register)?;
            narrow |= is_narrow;
            if number < FIRST_SPILLED {
                return Some(number);
            }
            emitter.asm.load(scratch, at::gpr(number as usize));
            Some(scratch)
        };
        let base = place(instruction.memory_base(), S0, self);
        let index = place(instruction.memory_index(), S1, self);
        let scale = instruction.memory_index_scale();
        let disp = instruction.memory_displacement64() as i32;
        self.asm.lea_full(
            S0,
            base,
            index.map(|index| (index, scale as u8)),
            disp,
            narrow,
        );
    }

    /// Checks the `size` bytes at linear address S0; then S0 is an offset in a
    /// page and S1 the page's host address, so that `[S0 + S1]` is the operand.
    /// Must be followed by the access and [`end_access`](Self::end_access).
    pub(super) fn begin_access(&mut self, size: u16, write: bool, flags_dead: bool) -> Access {
        let user = self.mode.user;
        let (hole, form) = if flags_dead {
            self.asm.rorx(S1, S0, 12 - 3);
            self.asm.and32(S1, ((TLB_ENTRIES - 1) << 3) as u32);
            self.asm.xor_table(S0, at::tags(user, write));
            self.asm.cmp(S0, 4096 - i32::from(size));
            let hole = self.asm.jump_if(CONDITION_ABOVE);
            self.asm.load_table(S1, at::pages(user, write));
            (hole, CheckForm::Xor)
        } else {
            self.asm.pext(S1, S0, at::TLB_MASK);
            self.asm.store(at::BORROWED, RCX);
            self.asm.load_table8(RCX, at::tags(user, write));
            self.asm.not(RCX);
            self.asm.lea_sum(S0, S0, RCX, 1);
            self.asm.lea(RCX, S0, i32::from(size) - 1);
            self.asm.pext(RCX, RCX, at::PAGE_MASK);
            let hit = self.asm.jump_rcx_zero();
            let hole = self.asm.jump();
            self.asm.land(hit);
            self.asm.load(RCX, at::BORROWED);
            self.asm.load_table8(S1, at::pages(user, write));
            (hole, CheckForm::Difference)
        };
        self.cold.push(Cold {
            hole,
            index: self.index,
            kind: ColdKind::Miss {
                size,
                write,
                form,
                resume: 0,
                body: (0, 0),
                restore: form == CheckForm::Difference,
            },
        });
        Access {
            cold: self.cold.len() - 1,
            resume: self.asm.offset(),
        }
    }

    /// Ends what [`begin_access`](Self::begin_access) began: the code between the
    /// two is what a store into the bounce buffer repeats.
    pub(super) fn end_access(&mut self, access: Access) {
        let end = self.asm.offset();
        if let ColdKind::Miss { resume, body, .. } = &mut self.cold[access.cold].kind {
            *resume = access.resume;
            *body = (access.resume, end);
        }
    }
}

/// The low nibble of JA.
const CONDITION_ABOVE: u8 = 7;
