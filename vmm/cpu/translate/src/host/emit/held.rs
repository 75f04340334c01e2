//! Contents of scratch and lent registers that later accesses can reuse: the deltas of checked
//! groups.
//!
//! Scratch registers are invalidated where code joins that did not load them. Lent ones are
//! restored at every exit: outside the trace, guest registers are in their usual places. `emit`
//! lends, `emit/group` queries the contents.

use std::collections::BTreeSet;

use iced_x86::Register;

use super::access::FIRST_SPILLED;
use super::{Emitter, GuardedLoop};
use crate::context::{LENT, at};
use crate::guest::analyse::InstructionClass;
use crate::guest::decode::{GuestBlock, GuestInstruction};
use crate::host::allocation::{Lent, unused};
use crate::host::asm::{Reg, S0, S1};

/// A register's content: a group's delta, or with `based` the sum of the delta and the value of
/// that symbol, its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    group: usize,
    based: Option<u32>,
}

/// The contents of the lent registers, and whether they were loaded already.
pub(super) type Lending = [Option<(Held, bool)>; LENT];

/// Number of loads and additions that a lent register must save in each run of a trace: it costs a
/// save before the trace and a restore after it, but not between the rounds of a loop.
const WORTH: usize = 5;
const WORTH_IN_LOOP: usize = 3;

impl Emitter {
    /// Lends registers of the present run, which was planned, to the most frequently loaded values.
    pub(super) fn lend(&mut self, block: &GuestBlock) -> Lent {
        let run = &block.instructions;
        let again = |last: &GuestInstruction| last.instruction.near_branch_target() == block.rip;
        let loops = block.loops || run.last().is_some_and(again);
        let worth = if loops { WORTH_IN_LOOP } else { WORTH };
        let mut wanted = self.saved_by_lending(run);
        wanted.retain(|&(_, saved)| saved >= worth);
        wanted.sort_by_key(|&(_, saved)| std::cmp::Reverse(saved));
        if wanted.is_empty() {
            return Lent::default();
        }
        let lent = Lent::first(&unused(run, block.renamed), wanted.len());
        for (place, &(held, _)) in wanted.iter().enumerate().take(lent.registers().len()) {
            self.lending[place] = Some((held, false));
        }
        lent
    }

    /// The values that the run's accesses use in registers, with the number of instructions that
    /// each would save compared to the two scratch registers.
    fn saved_by_lending(&self, run: &[GuestInstruction]) -> Vec<(Held, usize)> {
        let checks: BTreeSet<usize> = self.plan.groups.iter().map(|group| group.at).collect();
        let mut saved: Vec<(Held, usize)> = Vec::new();
        let (mut held, mut last) = ([None; 2], 0);
        for (index, guest) in run.iter().enumerate() {
            if checks.contains(&index) || names_spilled(guest) {
                held = [None; 2];
            }
            let Some(wanted) = self.wanted(index, guest) else {
                if self.plan.symbols.places[index].is_some() {
                    held = [None; 2];
                }
                continue;
            };
            if let Some(place) = held.iter().position(|&held| held == Some(wanted)) {
                last = place;
                continue;
            }
            last = 1 - last;
            held[last] = Some(wanted);
            let cost = 1 + usize::from(wanted.based.is_some());
            match saved.iter_mut().find(|(held, _)| *held == wanted) {
                Some((_, saved)) => *saved += cost,
                // The first load is needed in any case.
                None => saved.push((wanted, 0)),
            }
        }
        saved
    }

    /// The value that the access of instruction `index` uses in a register.
    fn wanted(&self, index: usize, guest: &GuestInstruction) -> Option<Held> {
        let group = self.plan.uses[index]?;
        let key = self.plan.groups[group].key;
        if key.segment != Register::None {
            return None;
        }
        let instruction = &guest.instruction;
        let own = matches!(
            guest.class,
            InstructionClass::Memory { .. } | InstructionClass::JumpIndirect
        );
        let based = own && key.page.is_none() && {
            let base = instruction.memory_base();
            let direct = key.index.is_none() && (base.number() as u8) < FIRST_SPILLED;
            base != Register::None && !direct
        };
        let based = key.base.filter(|_| based);
        Some(Held { group, based })
    }

    /// A register that holds the group's delta, or with `based` the sum of its delta and its base's
    /// symbol. `finish` computes the second from the first.
    pub(super) fn hold(
        &mut self,
        group: usize,
        based: bool,
        finish: impl FnOnce(&mut Self, Reg),
    ) -> Reg {
        let based = self.plan.groups[group].key.base.filter(|_| based);
        let group = self.lead(group);
        let wanted = Held { group, based };
        if let Some(register) = self.lent_for(wanted) {
            if let Some(place) = register.1 {
                self.lending[place] = Some((wanted, true));
                self.asm.load(register.0, at::slot_delta(self.slot(group)));
                finish(self, register.0);
            }
            return register.0;
        }
        for index in 0..2 {
            if self.asm.take_written(index) {
                self.held[index] = None;
            }
        }
        if let Some(index) = self.held.iter().position(|&held| held == Some(wanted)) {
            self.last_held = index;
            return S0 + index as Reg;
        }
        let index = 1 - self.last_held;
        let register = S0 + index as Reg;
        let delta = Held { group, based: None };
        match self.held.iter().position(|&held| held == Some(delta)) {
            Some(known) => self.asm.mov(register, S0 + known as Reg),
            None => self.asm.load(register, at::slot_delta(self.slot(group))),
        }
        finish(self, register);
        let other = 1 - index;
        if self.asm.take_written(other) {
            self.held[other] = None;
        }
        let _own = self.asm.take_written(index);
        self.held[index] = Some(wanted);
        self.last_held = index;
        register
    }

    /// Records that S1 was just loaded with the delta of `group`.
    pub(super) fn held_by_s1(&mut self, group: usize) {
        let _own = self.asm.take_written(1);
        let held = Held { group, based: None };
        self.held = [None, Some(held)];
        self.last_held = 1;
    }

    /// Loads the values that lent registers hold throughout `rounds`.
    pub(super) fn lend_to_guarded_loop(&mut self, rounds: &GuardedLoop) {
        let registers = self.allocation.lent;
        for (place, &register) in registers.registers().iter().enumerate() {
            let Some((held, _)) = self.lending[place] else {
                continue;
            };
            let stays = |base| self.plan.stays(base);
            let is_led = rounds.covers(held.group) && rounds.lead(held.group) != held.group;
            if is_led || !rounds.covers(held.group) || !held.based.is_none_or(stays) {
                continue;
            }
            let terms = held.based.and_then(|base| self.plan.symbols.terms_of(base));
            self.asm
                .load(register, at::slot_delta(self.slot(held.group)));
            for number in terms.unwrap_or_default().repeated() {
                self.add_base(register, number, 0);
            }
            self.lending[place] = Some((held, true));
        }
    }

    /// Invalidates the registers' contents: code that did not load them joins here.
    pub(super) fn forget_held(&mut self) {
        self.held = [None; 2];
        for (_, loaded) in self.lending.iter_mut().flatten() {
            *loaded = false;
        }
    }

    /// The register lent to `wanted`, with its place if it was not loaded yet.
    fn lent_for(&self, wanted: Held) -> Option<(Reg, Option<usize>)> {
        let lent = self.allocation.lent;
        let mut places = self.lending.iter().zip(lent.registers()).enumerate();
        places.find_map(|(place, (lending, &register))| match lending {
            Some((held, loaded)) if *held == wanted => Some((register, (!loaded).then_some(place))),
            _ => None,
        })
    }

    /// The scratch register other than `register`.
    pub(super) fn scratch_beside(register: Reg) -> Reg {
        if register == S0 { S1 } else { S0 }
    }

    /// The entry of a trace: moves guest registers to their places in its allocation. Clobbers S1,
    /// changes no flag.
    pub(super) fn allocate(&mut self) {
        self.exchange_renamed();
        let lent = self.allocation.lent;
        for (place, &register) in lent.registers().iter().enumerate() {
            self.asm.store(at::lent(place), register);
        }
    }

    /// An exit of a trace: moves guest registers to their usual places. Clobbers S1, keeps S0 and
    /// the flags.
    pub(super) fn release(&mut self) {
        let lent = self.allocation.lent;
        for (place, &register) in lent.registers().iter().enumerate() {
            self.asm.load(register, at::lent(place));
        }
        self.exchange_renamed();
    }

    /// Exchanges R14 and R15 with the registers renamed to them.
    fn exchange_renamed(&mut self) {
        let Some(pairs) = self.allocation.renamed else {
            return;
        };
        let elsewhere = |&(slot, register): &(Reg, Reg)| slot != register;
        for (slot, register) in [S0, S1].into_iter().zip(pairs).filter(elsewhere) {
            let slot = usize::from(slot);
            self.asm.load(S1, at::gpr(slot));
            self.asm.store(at::gpr(slot), register);
            self.asm.mov(register, S1);
        }
    }
}

/// True if an operand uses a scratch register.
fn names_spilled(guest: &GuestInstruction) -> bool {
    let instruction = &guest.instruction;
    let spilled = |register: Register| {
        let full = register.full_register();
        full.is_gpr64() && full.number() as u8 >= FIRST_SPILLED
    };
    (0..instruction.op_count()).any(|operand| spilled(instruction.op_register(operand)))
}
