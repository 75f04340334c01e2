//! Groups of accesses: one check, with a slot for the last accessed memory.
//!
//! The check compares the group's lowest address with its slot, before the first access and at a
//! point where flags may be clobbered; no access of the group runs before it has succeeded.
//! `groups` decides the grouping; `emit` and `emit/access` get the check and the operands here.

use belljar_cpu::PAGE_SIZE;
use iced_x86::{Instruction, Register};

use super::access::{Address, CONDITION_ABOVE, FIRST_SPILLED};
use super::{ColdKind, Emitter};
use crate::context::{SLOT_CLUSTER, SLOTS, at};
use crate::guest::groups::AccessGroup;
use crate::host::asm::{Hole, Operand, Reg, S0, S1};

impl Emitter {
    /// The slot of group `group` of the present run.
    pub(super) fn slot(&self, group: usize) -> u32 {
        self.first_slot + group as u32
    }

    /// RIPs of the accesses that share each slot.
    pub(super) fn members(&self) -> Box<[Box<[u64]>]> {
        let members = |group| {
            let uses = self.plan.uses.iter().zip(&self.rips);
            let of = uses.filter(|(used, _)| **used == Some(group));
            of.map(|(_, &rip)| rip).collect()
        };
        (0..self.plan.groups.len()).map(members).collect()
    }

    /// The host operand of an access whose group was checked.
    pub(super) fn grouped(&mut self, address: Address<'_>, group: usize) -> Operand {
        let key = self.plan.groups[group].key;
        let instruction = match address {
            Address::On(register, disp) => return self.on_delta(group, register, disp),
            Address::Of(instruction) => instruction,
        };
        let disp = instruction.memory_displacement64();
        if key.page.is_some() {
            return Operand {
                base: self.hold(group, false, |_, _| ()),
                index: None,
                disp: (disp & 0xfff) as i32,
            };
        }
        if key.segment != Register::None {
            self.asm.load(S0, segment_base(key.segment));
            self.asm.load(S1, at::slot_delta(self.slot(group)));
            return Operand {
                base: S0,
                index: Some((S1, 1)),
                disp: disp as i32,
            };
        }
        let base = instruction.memory_base();
        let based = base != Register::None;
        let number = base.number() as u8;
        let index = self.index_register(instruction);
        let (index, disp) = match (key.index, index) {
            // The register's value is known.
            (None, Some((number, scale))) => {
                let value = self.plan.symbols.before[self.index as usize][number as usize];
                (None, disp as i64 + value.offset * i64::from(scale))
            }
            _ => (index, disp as i64),
        };
        if key.index.is_none() && number < FIRST_SPILLED {
            return self.on_delta(group, number, disp as i32);
        }
        let offset = if based {
            self.plan.symbols.before[self.index as usize][number as usize].offset
        } else {
            0
        };
        let held = self.hold(group, based, |emitter, register| {
            if based {
                emitter.add_base(register, number, -offset as i32);
            }
        });
        let operand = |index| Operand {
            base: held,
            index,
            disp: (disp + offset) as i32,
        };
        match index {
            Some((number, scale)) if number >= FIRST_SPILLED => {
                let other = Self::scratch_beside(held);
                self.asm.load(other, at::gpr(number as usize));
                operand(Some((other, scale)))
            }
            index => operand(index),
        }
    }

    fn index_register(&self, instruction: &Instruction) -> Option<(u8, u8)> {
        let index = instruction.memory_index();
        let scale = instruction.memory_index_scale() as u8;
        (index != Register::None).then(|| (index.number() as u8, scale))
    }

    fn on_delta(&mut self, group: usize, register: Reg, disp: i32) -> Operand {
        let delta = self.hold(group, false, |_, _| ());
        Operand {
            base: register,
            index: Some((delta, 1)),
            disp: disp + self.lag_of(register),
        }
    }

    /// Adds a guest register and a constant to a scratch or lent register.
    pub(super) fn add_base(&mut self, register: Reg, number: u8, disp: i32) {
        let other = Self::scratch_beside(register);
        let base = self.standing(number, other);
        self.asm
            .lea_sum(register, base, register, disp + self.lag_of(number));
    }

    /// Checks group `group` before the present instruction, where flags are dead.
    pub(super) fn check(&mut self, group: usize) {
        let slot = self.slot(group);
        self.asm.spoil();
        if self.plan.groups[group].scattered {
            return self.check_by_tlb(group);
        }
        let hole = if self.plan.groups[group].key.page.is_some() {
            self.asm.cmp_slot_zero(at::slot_limit(slot));
            self.asm.jump_if(CONDITION_EQUAL)
        } else {
            self.low_address(group, S1);
            self.asm.sub_slot(S1, at::slot_base(slot));
            self.asm.cmp_slot(S1, at::slot_limit(slot));
            self.asm.jump_if(CONDITION_ABOVE_OR_EQUAL)
        };
        let resume = self.asm.offset();
        self.put_off(hole, ColdKind::Group { group, resume });
    }

    /// Checks a scattered group through the TLB, and keeps the difference of host and guest
    /// addresses.
    fn check_by_tlb(&mut self, group: usize) {
        self.low_address(group, S0);
        let hole = self.look_into_tlb(group);
        let resume = self.asm.offset();
        self.put_off(hole, ColdKind::Group { group, resume });
        self.held_by_s1(group);
    }

    /// Looks up the TLB for the address in S0. If it has the page and the group's range lies in it,
    /// S1 and the slot's word get the difference of host and guest addresses.
    fn look_into_tlb(&mut self, group: usize) -> Hole {
        let AccessGroup { write, .. } = self.plan.groups[group];
        let span = i32::from(self.plan.groups[group].span());
        let (slot, user) = (self.slot(group), self.mode.user);
        self.table_index();
        self.asm.xor_table(S0, at::tags(user, write));
        self.asm.cmp(S0, PAGE_SIZE as i32 - span);
        let hole = self.asm.jump_if(CONDITION_ABOVE);
        self.asm.load_table(S1, at::deltas(user, write));
        self.asm.store(at::slot_delta(slot), S1);
        hole
    }

    /// The slow path of [`check_by_tlb`](Self::check_by_tlb): a page missing in the TLB is left to
    /// the dispatcher, a range across the end of its page to a plain block.
    pub(super) fn cold_scattered(&mut self, group: usize, resume: u32) -> GroupExits {
        let AccessGroup { write, .. } = self.plan.groups[group];
        self.low_address(group, S0);
        let probe = self.asm.offset();
        self.table_index();
        self.asm.xor_table(S0, at::tags(self.mode.user, write));
        self.asm.cmp(S0, 4095);
        let miss = self.asm.jump_if(CONDITION_ABOVE);
        self.low_address(group, S0);
        let crosses = self.look_into_tlb(group);
        self.asm.jump_to(self.asm.address_of(resume));
        GroupExits {
            missed: vec![miss],
            crosses,
            refilled: None,
            probe,
        }
    }

    /// Computes the linear address of a group's lowest byte, at the present instruction, in
    /// `target`, S0 or S1.
    pub(super) fn low_address(&mut self, group: usize, target: Reg) {
        let AccessGroup { key, low, at, .. } = self.plan.groups[group];
        if key.page.is_some() {
            self.guest_address(target, low as u64);
            return;
        }
        if key.segment != Register::None {
            self.asm.load(target, segment_base(key.segment));
            self.asm.lea(target, target, low as i32);
            return;
        }
        let mut disp = low;
        let base = key.base.and_then(|symbol| self.plan.holder(symbol, at));
        let base = base.map(|(number, offset)| {
            disp -= offset;
            self.standing(number, S0)
        });
        let index = key.index.and_then(|(symbol, scale)| {
            let (number, offset) = self.plan.index_holder(symbol, at)?;
            disp -= offset * i64::from(scale);
            Some((self.standing(number, S1), scale))
        });
        self.asm.lea_full(target, base, index, disp as i32, false);
    }

    /// The slow path of a failed check: it looks up the TLB. A range that lies in a known
    /// contiguous range fills the slot. One that extends beyond it is left to a block that checks
    /// each access; other cases are left to the dispatcher.
    pub(super) fn cold_group(&mut self, group: usize, resume: u32) -> GroupExits {
        let AccessGroup {
            key, low, write, ..
        } = self.plan.groups[group];
        let span = self.plan.groups[group].span();
        let (slot, user) = (self.slot(group), self.mode.user);
        self.low_address(group, S0);
        let probe = self.asm.offset();
        self.table_index();
        self.asm.xor_table(S0, at::tags(user, write));
        self.asm.cmp(S0, 4095);
        let miss = self.asm.jump_if(CONDITION_ABOVE);
        self.asm.cmp_table_zero(at::range_bytes(user, write));
        let unexplored = self.asm.jump_if(CONDITION_EQUAL);
        self.low_address_keeping_index(group);
        self.asm.sub_table(S0, at::ranges(user, write));
        self.asm.lea(S0, S0, i32::from(span));
        self.asm.decrement32(at::slot_fills(slot));
        let refilled = self.asm.jump_if(super::CONDITION_SIGN);
        self.asm.cmp_table(S0, at::range_bytes(user, write));
        let crosses = self.asm.jump_if(CONDITION_ABOVE);
        self.asm.load_table(S0, at::ranges(user, write));
        self.asm.store(at::slot_base(slot), S0);
        self.asm.load_table(S0, at::range_bytes(user, write));
        self.asm.lea(S0, S0, 1 - i32::from(span));
        self.asm.store(at::slot_limit(slot), S0);
        self.asm.load_table(S0, at::deltas(user, write));
        if key.page.is_some() {
            self.guest_address(S1, low as u64 & !0xfff);
            self.asm.lea_sum(S0, S0, S1, 0);
        }
        self.asm.store(at::slot_delta(slot), S0);
        self.mark_filled(slot);
        self.asm.jump_to(self.asm.address_of(resume));
        GroupExits {
            missed: vec![miss, unexplored],
            crosses,
            refilled: Some(refilled),
            probe,
        }
    }

    /// Marks the cluster of a slot that was just filled, for the half of the address space to which
    /// it refers. Clobbers S0 and the flags.
    fn mark_filled(&mut self, slot: u32) {
        self.asm.load(S0, at::slot_base(slot));
        // The highest bit selects one of two tables.
        const TABLE: u32 = (SLOTS / SLOT_CLUSTER) as u32;
        self.asm.rorx(S0, S0, 63 - TABLE.ilog2() as u8);
        self.asm.and32(S0, TABLE);
        self.asm.store_imm8_s0(at::filled(slot), 1);
    }

    /// Computes the group's lowest address in S0; S1 keeps the TLB index. An index register in
    /// memory, which would need S1, goes through the context.
    fn low_address_keeping_index(&mut self, group: usize) {
        self.asm.store(at::CARRIED, S1);
        self.low_address(group, S0);
        self.asm.load(S1, at::CARRIED);
    }
}

/// The exits of a failed check that cannot fill the slot.
pub(super) struct GroupExits {
    pub missed: Vec<Hole>,
    pub crosses: Hole,
    /// Taken if the slot was filled often.
    pub refilled: Option<Hole>,
    /// Offset of the code that looks up the TLB for the address in S0.
    pub probe: u32,
}

pub(super) fn segment_base(segment: Register) -> i32 {
    if segment == Register::FS {
        at::FS_BASE
    } else {
        at::GS_BASE
    }
}

/// The low nibble of JE.
pub(super) const CONDITION_EQUAL: u8 = 4;
/// The low nibble of JAE.
pub(super) const CONDITION_ABOVE_OR_EQUAL: u8 = 3;
