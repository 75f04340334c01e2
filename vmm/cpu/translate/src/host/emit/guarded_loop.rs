//! Guarded loops: rounds of a loop that are checked and counted together.
//!
//! A loop checks and counts once per round what changes from round to round by constants
//! alone. In front of such a loop stands a second form of it: it sees whether the budget and
//! the groups' slots cover several rounds, and runs them with one counter of its own. What
//! does not cover them is left to the first form, a round at a time.
//!
//! Instructions of rounds to come are taken off the budget before they run. `ahead` in the
//! context counts them; it is zero outside such rounds. It is always written whole: what leaves
//! reads it at once.

use iced_x86::Register;

use super::Emitter;
use super::group::{CONDITION_ABOVE_OR_EQUAL, segment_base};
use crate::context::{STEPS, at};
use crate::guest::analyse::Class;
use crate::guest::decode::{Follow, GuestBlock, GuestInstruction};
use crate::guest::groups::Group;
use crate::guest::strides::Family;
use crate::host::asm::{Hole, RCX, S0, S1};
use crate::host::shared::Counter;

/// GuardedLoop at most, and what it takes at least to be worth a second form.
const MOST: i64 = 16;
const LEAST: i64 = 3;
/// Bytes that a group moves over in all rounds: it meets the end of what hangs together more
/// often, the more they are.
const FARTHEST: i64 = 1024;

/// How several rounds of the present run's loop are run.
pub(super) struct GuardedLoop {
    /// How many.
    count: i64,
    /// Groups that are checked together, once for all rounds.
    families: Vec<Family>,
    /// For each group the lead of its family; none if it is checked each round.
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

    /// The group whose check was that of `group`, too.
    pub(super) fn lead(&self, group: usize) -> usize {
        self.leads[group].unwrap_or(group)
    }
}

impl Emitter {
    /// How several rounds of `block`, a planned run, may run together.
    pub(super) fn plan_guarded_loop(
        &self,
        block: &GuestBlock,
        flags_dead: bool,
    ) -> Option<GuardedLoop> {
        let run = &block.instructions;
        let possible = flags_dead
            && self.counted > 0
            && self.rest.is_empty()
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

    /// The entry of several rounds: continues after it, or takes one of the returned jumps
    /// when something does not cover them.
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

    /// Jumps if the slot of the lead of `family` does not cover all groups of it for so many
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
        // What lies between the two ends is covered if they are.
        self.add_times(number, from);
        self.check_distance(slot, distance, failed);
        self.add_times(number, to - from);
        self.check_distance(slot, distance, failed);
    }

    /// Jumps if a register's value is not one of 32 bits with a sign: its multiples might go
    /// around the address space, and its ends say nothing of what is between. Takes S0 and S1.
    fn unless_narrow(&mut self, number: u8) -> Hole {
        let register = self.standing(number, S1);
        self.asm.sign_extend32(S0, register);
        self.asm.cmp_registers(S0, register);
        self.asm.jump_if(CONDITION_NOT_EQUAL)
    }

    /// Adds a register's value to S0 so many times. Takes S1.
    fn add_times(&mut self, number: u8, times: i64) {
        if times != 0 {
            let register = self.standing(number, S1);
            self.asm.multiply(S1, register, times as i32);
            self.asm.lea_sum(S0, S0, S1, 0);
        }
    }

    /// Jumps if what is S0 bytes beyond the slot's base is not covered by it, or not what is
    /// up to `distance` bytes further on, in whichever direction. Takes S1, keeps S0.
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

    /// Leaves in S0 what the linear address of a group's lowest byte, `by` bytes on, is the
    /// first time that the run is gone through: all that it is made of is in registers then.
    fn first_address(&mut self, group: usize, by: i64) {
        let Group { key, low, .. } = self.plan.groups[group];
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

    /// The end of a round: the next one, or back to where several are begun.
    pub(super) fn end_round(&mut self, body: u64, entry: u64) {
        self.asm.sub_imm(at::AHEAD, i32::from(self.counted));
        self.asm.jump_back_if(CONDITION_ABOVE_OR_EQUAL, body);
        self.asm.store_imm(at::AHEAD, 0);
        self.asm.jump_to(entry);
    }

    /// Gives back the instructions of rounds to come, in code that leaves them. Changes no
    /// flag, and of the registers S1 at most.
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

    /// After the last of several rounds.
    pub(super) fn end_guarded_loop(&mut self, failed: Vec<Hole>) {
        self.guarded_loop = None;
        self.forget_held();
        for hole in failed {
            self.asm.land(hole);
        }
        self.asm.spoil();
    }
}

/// How many rounds the groups of `family` may go without moving farther than is worth it, if
/// registers keep these `values`; none where one is not known.
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

/// Whether `guest` runs without a look at the count and without leaving for good but by jumps.
fn is_plain(guest: &GuestInstruction) -> bool {
    use Class as C;
    let computes = matches!(
        guest.class,
        C::Plain | C::Lea | C::Nop | C::Memory { .. } | C::Push | C::Pop
    );
    computes || matches!(guest.class, C::Jump | C::JumpIf)
}

/// Whether `last`, the last of `block`, jumps to its beginning.
fn leads_to(last: &GuestInstruction, block: &GuestBlock) -> bool {
    matches!(last.class, Class::Jump | Class::JumpIf)
        && match last.follow {
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
