//! Guarded loops: rounds of a loop that are checked and counted together.
//!
//! A loop's usual form checks and counts once per round, even if addresses change only by
//! constants. In front of such a loop is a second form: it checks that the budget and the groups'
//! slots cover several rounds, and runs them with a counter of its own. Otherwise the usual form
//! runs a round at a time.
//!
//! Instructions of future rounds are subtracted from the budget before they run. `ahead` in the
//! context counts them; it is zero outside such rounds. It is always written as a whole word,
//! because exits read it immediately.

use iced_x86::Register;

use super::Emitter;
use super::group::{CONDITION_ABOVE_OR_EQUAL, segment_base};
use crate::context::{STEPS, at};
use crate::guest::analyse::InstructionClass;
use crate::guest::decode::{Follow, GuestBlock, GuestInstruction};
use crate::guest::groups::AccessGroup;
use crate::guest::strides::Family;
use crate::host::asm::{Hole, RCX, S0, S1};
use crate::host::shared::Counter;

/// The largest number of rounds, and the least for which a second form is worthwhile.
const MOST: i64 = 16;
const LEAST: i64 = 3;
/// The largest distance in bytes that a group moves in all rounds: the larger it is, the more often
/// it reaches the end of a contiguous range.
const FARTHEST: i64 = 1024;

/// The present run's guarded loop.
pub(super) struct GuardedLoop {
    /// Number of rounds.
    count: i64,
    /// Groups that are checked together, once for all rounds.
    families: Vec<Family>,
    /// For each group, the lead of its family; `None` if it is checked each round.
    leads: Vec<Option<usize>>,
    /// Host address of the loop's first instruction.
    body: u64,
}

impl GuardedLoop {
    /// Host address of the loop's first instruction.
    pub(super) fn body(&self) -> u64 {
        self.body
    }

    pub(super) fn covers(&self, group: usize) -> bool {
        self.leads[group].is_some()
    }

    /// The group whose check covers `group`.
    pub(super) fn lead(&self, group: usize) -> usize {
        self.leads[group].unwrap_or(group)
    }
}

impl Emitter {
    /// The guarded loop for `block`, a planned run, if it is possible.
    pub(super) fn plan_guarded_loop(
        &self,
        block: &GuestBlock,
        flags_dead: bool,
    ) -> Option<GuardedLoop> {
        let run = &block.instructions;
        let possible = flags_dead
            && self.counted > 0
            && self.rest.is_empty()
            && !self.follows_path
            && run.iter().all(is_plain)
            && run.last().is_some_and(|last| leads_to(last, block));
        if !possible {
            return None;
        }
        let values = block.entered_with.as_ref();
        let most = |family: &Family| rounds_within_reach(family, values);
        let fit = |family: &Family| most(family).is_some_and(|most| most >= LEAST);
        let (families, of) = self.plan.families(fit);
        let shortest = families.iter().filter_map(most).min()?;
        let lead = |family: usize| families[family].lead;
        let leads = of.iter().map(|family| family.map(lead)).collect();
        let count = shortest.min(MOST).min(STEPS as i64 / run.len() as i64);
        (count >= LEAST).then_some(GuardedLoop {
            count,
            families,
            leads,
            body: 0,
        })
    }

    /// The entry of several rounds: continues after it, or takes one of the returned jumps if they
    /// are not covered.
    pub(super) fn begin_guarded_loop(&mut self, mut rounds: GuardedLoop) -> Vec<Hole> {
        let all = rounds.count as i32 * i32::from(self.counted);
        self.asm.spoil();
        let mut failed = vec![self.unless_covers(all)];
        for family in &rounds.families {
            self.check_guarded_loop(family, rounds.count, &mut failed);
        }
        if self.counter() == Counter::Memory {
            self.asm.sub_imm(at::COUNT, all);
        } else {
            self.add_to_register(at::step(-all));
        }
        let ahead = all - i32::from(self.counted);
        self.asm.store_imm(at::AHEAD, ahead);
        self.lend_to_guarded_loop(&rounds);
        self.asm.spoil();
        rounds.body = self.asm.here();
        self.guarded_loop = Some(rounds);
        failed
    }

    /// Jumps if the budget does not cover `instructions`.
    fn unless_covers(&mut self, instructions: i32) -> Hole {
        self.load_budget();
        self.asm.cmp(S1, instructions);
        self.asm.jump_if(CONDITION_LESS)
    }

    /// Jumps if the slot of the lead of `family` does not cover all groups of it for `rounds`
    /// rounds.
    fn check_guarded_loop(&mut self, family: &Family, rounds: i64, failed: &mut Vec<Hole>) {
        let group = family.lead;
        let slot = self.slot(group);
        if self.plan.groups[group].key.page.is_some() {
            self.asm.cmp_slot_zero(at::slot_limit(slot));
            failed.push(self.asm.jump_if(super::group::CONDITION_EQUAL));
            return;
        }
        let reach = family.reach(rounds);
        if let Some((number, ..)) = reach {
            failed.push(self.unless_narrow(number));
        }
        let distance = family.stride.bytes * (rounds - 1);
        self.first_address(group, distance.min(0));
        self.asm.sub_slot(S0, at::slot_base(slot));
        let Some((number, from, to)) = reach else {
            return self.check_distance(slot, distance, failed);
        };
        // If both ends are covered, everything between them is.
        self.add_times(number, from);
        self.check_distance(slot, distance, failed);
        self.add_times(number, to - from);
        self.check_distance(slot, distance, failed);
    }

    /// Jumps if a register's value is not a sign-extended 32-bit number: its multiples might wrap
    /// around the address space, so checking both ends would not suffice. Clobbers S0 and S1.
    fn unless_narrow(&mut self, number: u8) -> Hole {
        let register = self.standing(number, S1);
        self.asm.sign_extend32(S0, register);
        self.asm.cmp_registers(S0, register);
        self.asm.jump_if(CONDITION_NOT_EQUAL)
    }

    /// Adds a multiple of a register's value to S0. Clobbers S1.
    fn add_times(&mut self, number: u8, times: i64) {
        if times != 0 {
            let register = self.standing(number, S1);
            self.asm.multiply(S1, register, times as i32);
            self.asm.lea_sum(S0, S0, S1, 0);
        }
    }

    /// Jumps unless the slot covers the address S0 bytes beyond its base, and the `distance` bytes
    /// after (or before) it. Clobbers S1, keeps S0.
    fn check_distance(&mut self, slot: u32, distance: i64, failed: &mut Vec<Hole>) {
        if distance == 0 {
            self.asm.cmp_slot(S0, at::slot_limit(slot));
        } else {
            self.asm.load(S1, at::slot_limit(slot));
            self.asm.sub_from(S1, distance.unsigned_abs() as i32);
            failed.push(self.asm.jump_if(CONDITION_BELOW));
            self.asm.cmp_registers(S0, S1);
        }
        failed.push(self.asm.jump_if(CONDITION_ABOVE_OR_EQUAL));
    }

    /// Computes in S0 the linear address of a group's lowest byte in the first round, plus `by`
    /// bytes: all terms are in registers then.
    fn first_address(&mut self, group: usize, by: i64) {
        let AccessGroup { key, low, .. } = self.plan.groups[group];
        let disp = (low + by) as i32;
        if key.segment != Register::None {
            self.asm.load(S0, segment_base(key.segment));
            self.asm.lea(S0, S0, disp);
            return;
        }
        let terms = key
            .base
            .and_then(|base| self.plan.symbols.terms_of(base))
            .unwrap_or_default();
        let mut terms = terms.repeated();
        let base = terms.next().map(|number| self.standing(number, S0));
        let index = key
            .index
            .map(|(number, scale)| (self.standing(number as u8, S1), scale));
        self.asm.lea_full(S0, base, index, disp, false);
        for number in terms {
            self.add_base(S0, number, 0);
        }
    }

    /// The end of a round: jumps to the next one, or back to the loop's entry.
    pub(super) fn end_round(&mut self, body: u64, entry: u64) {
        self.asm.sub_imm(at::AHEAD, i32::from(self.counted));
        self.asm.jump_back_if(CONDITION_ABOVE_OR_EQUAL, body);
        self.asm.store_imm(at::AHEAD, 0);
        self.asm.jump_to(entry);
    }

    /// Refunds the instructions of future rounds at an exit. Changes no flag, and no register but
    /// S1.
    pub(super) fn give_guarded_loop(&mut self) {
        if self.counter() != Counter::Memory {
            self.add_to_register(at::AHEAD);
        } else {
            self.asm.store(at::BORROWED, RCX);
            self.asm.load(RCX, at::AHEAD);
            self.asm.load(S1, at::COUNT);
            self.asm.lea_sum(S1, S1, RCX, 0);
            self.asm.store(at::COUNT, S1);
            self.asm.load(RCX, at::BORROWED);
        }
        self.asm.store_imm(at::AHEAD, 0);
    }

    /// The code after the last of several rounds.
    pub(super) fn end_guarded_loop(&mut self, failed: Vec<Hole>) {
        self.guarded_loop = None;
        self.forget_held();
        for hole in failed {
            self.asm.land(hole);
        }
        self.asm.spoil();
    }
}

/// The number of rounds in which the groups of `family` stay within the maximum distance, if
/// registers keep these `values`; `None` if a value is unknown.
fn rounds_within_reach(family: &Family, values: Option<&[u64; 16]>) -> Option<i64> {
    let (mut moved, mut left) = (family.stride.bytes.abs(), FARTHEST);
    if let Some((number, from, to)) = family.reach(1) {
        let value = (values?[usize::from(number)] as i64).checked_abs()?;
        let times = family.stride.register.map_or(0, |(_, times)| times.abs());
        left = left.checked_sub(value.checked_mul(to - from)?)?;
        moved = moved.checked_add(value.checked_mul(times)?)?;
    }
    (left >= 0).then(|| left / moved.max(1) + 1)
}

/// True if `guest` runs without a check of the budget, and leaves the block only by jumps.
fn is_plain(guest: &GuestInstruction) -> bool {
    use InstructionClass as C;
    let computes = matches!(
        guest.class,
        C::Plain | C::Lea | C::Nop | C::Memory { .. } | C::Push | C::Pop
    );
    computes || matches!(guest.class, C::Jump | C::JumpIf)
}

/// True if `last`, the last of `block`, jumps to its beginning.
fn leads_to(last: &GuestInstruction, block: &GuestBlock) -> bool {
    matches!(
        last.class,
        InstructionClass::Jump | InstructionClass::JumpIf
    ) && match last.follow {
        Follow::Leave => last.instruction.near_branch_target() == block.rip,
        _ => block.end == block.rip,
    }
}

/// The low nibble of JL.
const CONDITION_LESS: u8 = 12;
/// The low nibble of JNE.
const CONDITION_NOT_EQUAL: u8 = 5;
/// The low nibble of JB.
const CONDITION_BELOW: u8 = 2;
