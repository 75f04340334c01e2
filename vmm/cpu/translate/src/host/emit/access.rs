//! Guest addresses, and the check that turns one into a host address.
//!
//! After the check, S0 and S1 hold the operand's host address, and all other registers are
//! unchanged. If flags are live, the check preserves them. `open` and `end_access` enclose every
//! access without a group.

use belljar_cpu::PAGE_SIZE;
use iced_x86::{Instruction, Register};

use super::{Cold, ColdKind, Emitter};
use crate::context::{LineFilter, TLB_ENTRIES, at};
use crate::guest::size::CodeSize;
use crate::host::asm::{Operand, RCX, Reg, S0, S1};
use crate::host::exit_stub::CheckForm;
use crate::host::rewrite::general_number;
use crate::prices::timing::LINE_BYTES;

/// Guest registers from this number on are kept in memory.
pub(super) const FIRST_SPILLED: u8 = 14;

/// An open access: state for the code of a miss, which is emitted later.
#[must_use]
pub(super) struct OpenAccess {
    cold: Option<usize>,
    resume: u32,
}

/// The guest address of an access.
#[derive(Clone, Copy)]
pub(super) enum Address<'a> {
    /// The memory operand of an instruction.
    Of(&'a Instruction),
    /// A host register that holds the guest register, and a displacement.
    On(Reg, i32),
}

/// The extent of a check, and the tables that it reads.
struct Reach {
    bytes: i32,
    entries: usize,
    tags: i32,
    hosts: i32,
    index_mask: i32,
    above_mask: i32,
}

impl Reach {
    /// A page, by the TLB.
    fn page(user: bool, write: bool) -> Self {
        Self {
            bytes: PAGE_SIZE as i32,
            entries: TLB_ENTRIES,
            tags: at::tags(user, write),
            hosts: at::pages(user, write),
            index_mask: at::TLB_MASK,
            above_mask: at::PAGE_MASK,
        }
    }

    /// A cache line, if caches are modelled.
    fn line(filter: LineFilter, user: bool, write: bool) -> Self {
        Self {
            bytes: LINE_BYTES as i32,
            entries: filter.entries(),
            tags: at::line_tags(filter, user, write),
            hosts: at::line_hosts(filter, user, write),
            index_mask: at::LINE_MASK,
            above_mask: at::ABOVE_LINE_MASK,
        }
    }
}

impl Emitter {
    /// Opens the access of the present instruction. Returns the host operand, which may use S0 and
    /// S1. [`end_access`](Self::end_access) must follow it.
    pub(super) fn open(
        &mut self,
        address: Address<'_>,
        size: u16,
        write: bool,
        flags_dead: bool,
    ) -> (Operand, OpenAccess) {
        if let Some(group) = self.plan.uses.get(self.index as usize).copied().flatten() {
            let operand = self.grouped(address, group);
            let access = OpenAccess {
                cold: None,
                resume: 0,
            };
            return (operand, access);
        }
        match address {
            Address::Of(instruction) => self.linear_address(instruction),
            Address::On(register, 0) => self.asm.mov(S0, register),
            Address::On(register, disp) => self.asm.lea(S0, register, disp),
        }
        self.open_linear(size, write, flags_dead)
    }

    /// As [`open`](Self::open), for the linear address in S0 and outside any group.
    pub(super) fn open_linear(
        &mut self,
        size: u16,
        write: bool,
        flags_dead: bool,
    ) -> (Operand, OpenAccess) {
        let access = self.begin_access(size, write, flags_dead);
        let operand = Operand {
            base: S0,
            index: Some((S1, 1)),
            disp: 0,
        };
        (operand, access)
    }

    /// Moves the operand's address into S1 alone, so that S0 is free.
    pub(super) fn free_first(&mut self, operand: Operand) -> Operand {
        if operand.base != S0 && operand.index.is_none_or(|(index, _)| index != S0) {
            return operand;
        }
        self.asm.lea_operand(S1, operand);
        Operand {
            base: S1,
            index: None,
            disp: 0,
        }
    }

    /// Computes the linear address of the memory operand in S0. Changes no flag.
    pub(super) fn linear_address(&mut self, instruction: &Instruction) {
        if self.mode.size != CodeSize::Long {
            self.legacy_address(instruction);
            return;
        }
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        if instruction.is_ip_rel_memory_operand()
            || (base == Register::None && index == Register::None)
        {
            let address = instruction.memory_displacement64();
            match base {
                Register::RIP => self.guest_address(S0, address),
                Register::EIP => self.asm.mov_imm(S0, address & 0xffff_ffff),
                _ => self.asm.mov_imm(S0, address),
            }
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

    pub(super) fn based_address(&mut self, instruction: &Instruction) {
        let mut narrow = false;
        let mut place = |register: Register, scratch: Reg, emitter: &mut Self| -> Option<Reg> {
            let (number, is_narrow) = general_number(register)?;
            narrow |= is_narrow;
            Some(emitter.standing(number, scratch))
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

    /// The host register that holds guest register `number`: its own, or `scratch` loaded from
    /// memory.
    pub(super) fn standing(&mut self, number: u8, scratch: Reg) -> Reg {
        if number < FIRST_SPILLED {
            return number;
        }
        self.asm.load(scratch, at::gpr(number as usize));
        scratch
    }

    /// Checks the `size` bytes at linear address S0; then S0 is an offset in a
    /// page and S1 the page's host address, so that `[S0 + S1]` is the operand.
    /// Must be followed by the access and [`end_access`](Self::end_access).
    pub(super) fn begin_access(&mut self, size: u16, write: bool, flags_dead: bool) -> OpenAccess {
        let reach = match self.lines {
            Some(filter) => Reach::line(filter, self.mode.user, write),
            None => Reach::page(self.mode.user, write),
        };
        let (hole, form) = if flags_dead {
            self.index_in(&reach);
            self.asm.xor_table(S0, reach.tags);
            self.asm.cmp(S0, reach.bytes - i32::from(size));
            let hole = self.asm.jump_if(CONDITION_ABOVE);
            self.asm.load_table(S1, reach.hosts);
            (hole, CheckForm::Xor)
        } else {
            self.asm.pext(S1, S0, reach.index_mask);
            self.asm.store(at::BORROWED, RCX);
            self.asm.load_table8(RCX, reach.tags);
            self.asm.not(RCX);
            self.asm.lea_sum(S0, S0, RCX, 1);
            self.asm.lea(RCX, S0, i32::from(size) - 1);
            self.asm.pext(RCX, RCX, reach.above_mask);
            let hit = self.asm.jump_rcx_zero();
            let hole = self.asm.jump();
            self.asm.land(hit);
            self.asm.load(RCX, at::BORROWED);
            self.asm.load_table8(S1, reach.hosts);
            (hole, CheckForm::Difference)
        };
        self.cold.push(Cold {
            hole,
            index: self.index,
            deferred: self.deferred,
            flags_kept: self.flags_kept,
            folded: self.folded,
            in_guarded_loop: self.guarded_loop.is_some(),
            kind: ColdKind::Miss {
                size,
                write,
                form,
                resume: 0,
                body: (0, 0),
                restore: form == CheckForm::Difference,
            },
        });
        OpenAccess {
            cold: Some(self.cold.len() - 1),
            resume: self.asm.offset(),
        }
    }

    /// S1: byte offset in a TLB table for the address in S0. Changes the flags.
    pub(super) fn table_index(&mut self) {
        self.index_in(&Reach::page(false, false));
    }

    fn index_in(&mut self, reach: &Reach) {
        self.asm.rorx(S1, S0, reach.bytes.ilog2() as u8 - 3);
        self.asm.and32(S1, ((reach.entries - 1) << 3) as u32);
    }

    /// Ends the access begun by [`open`](Self::open): a store into the bounce buffer repeats the
    /// code between the two.
    pub(super) fn end_access(&mut self, access: OpenAccess) {
        let end = self.asm.offset();
        if let Some(cold) = access.cold
            && let ColdKind::Miss { resume, body, .. } = &mut self.cold[cold].kind
        {
            *resume = access.resume;
            *body = (access.resume, end);
        }
    }
}

/// The low nibble of JA.
pub(super) const CONDITION_ABOVE: u8 = 7;
