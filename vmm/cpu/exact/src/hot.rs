//! Hot code: traces of blocks that were run often, whose accesses are checked in
//! groups.
//!
//! Which code becomes hot, and when, is for speed alone: no result depends on it.

use belljar_cpu::PAGE_SIZE;
use iced_x86::Instruction;

use crate::analyse::Class;
use crate::block::{BlockId, Mode, Origin, POOLED, Pace, Refill};
use crate::context::{HOT_RUNS, SLOT_FILLS};
use crate::decode::{Follow, GuestBlock, GuestInstruction, MAX_INSTRUCTIONS};
use crate::dispatch::Next;
use crate::flags::are_all;
use crate::rename::{choose, rename};
use crate::share::News;
use crate::size::CodeSize;
use crate::vcpu::ExactVcpu;

/// Longest trace, in instructions.
pub(crate) const MAX_RUN: usize = 256;
/// A loop is repeated within its trace up to this many instructions.
const MAX_UNROLLED: usize = 96;
const MAX_REPEATS: usize = 8;
/// A trace is not followed where this small a part of the runs goes, as a divisor.
const SELDOM: i32 = 12;
/// A loop of at most this many rounds is followed to its end.
const SHORT: i32 = 8;
/// Turns that end in a block before it is hot.
const SAMPLES: i32 = 4;

/// What a turn's end in front of a block says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnHeat {
    /// Nothing.
    Known,
    /// More of them may make it hot.
    Warm,
    /// It was run so often that it is worth more work.
    Hot,
}

/// What became of following a trace one block further.
enum Step {
    To(u64),
    /// Back to the trace's beginning.
    Loop,
    End,
}

impl ExactVcpu {
    /// Block `head`, at which the guest stands, was run so often that it is worth more work.
    pub(crate) fn ran_hot(&mut self, head: BlockId) {
        let block = self.store.block(head);
        let (rip, mode, origin) = (block.rip, block.mode, block.origin);
        if let Some(heat) = block.heat {
            if self.is_new_heat(heat) {
                return;
            }
            self.context.heat[heat as usize] = i32::MAX;
        }
        if head & POOLED != 0 {
            return self.promote_pooled(head, rip, mode);
        }
        if !self.store.has_room() {
            self.flush_code();
            return;
        }
        // Other code is not worth the work: only its first steps of booting run there.
        if mode.size != CodeSize::Long
            || origin.second.is_some()
            || !self.store.block(head).valid
            || self.found(origin.first, rip, mode, false) != Some(head)
        {
            return;
        }
        let Some(trace) = self.renamed_trace(rip, origin.first, mode) else {
            return;
        };
        if let Some(first) = self.first_of_loop(&trace, origin.first, mode) {
            self.count_again(head);
            return self.ran_hot(first);
        }
        let hot = self.store.add(&trace, origin, mode, false, true).id;
        for slot in self.store.block(hot).slots.clone() {
            self.begin_slot(slot);
        }
        self.begin_hot(head, hot, &trace);
    }

    /// A turn ends in front of block `head`. One that begins with flags which may be read
    /// does not count its runs: turns that end in it are a sample of them.
    pub(crate) fn ends_turn(&mut self, head: BlockId) -> TurnHeat {
        let block = self.store.block(head);
        let samples = !block.hot && block.mode.pace == Pace::Full && !are_all(block.dead_flags);
        let Some(heat) = block.heat.filter(|_| samples) else {
            return TurnHeat::Known;
        };
        if self.is_new_heat(heat) {
            return TurnHeat::Warm;
        }
        let left = &mut self.context.heat[heat as usize];
        if *left > HOT_RUNS {
            return TurnHeat::Known;
        }
        *left -= HOT_RUNS / SAMPLES;
        if *left > 0 {
            TurnHeat::Warm
        } else {
            TurnHeat::Hot
        }
    }

    /// Makes hot code of a pool's block for all nodes, unless another did already.
    fn promote_pooled(&mut self, head: BlockId, rip: u64, mode: Mode) {
        let linear = self.state.code_address(rip);
        let Ok(physical) = self.fetch_address(linear) else {
            return;
        };
        let found = self.found(physical, rip, mode, false);
        if let Some(hot) = found.filter(|&found| found != head) {
            return self.lead_to(hot);
        }
        let Some(trace) = self.renamed_trace(rip, physical, mode) else {
            return;
        };
        if let Some(first) = self.first_of_loop(&trace, physical, mode) {
            self.count_again(head);
            return self.ran_hot(first);
        }
        if found.is_none() || !self.still_shares(physical, rip) {
            return;
        }
        if let Some(hot) = self.store.add_pooled(&trace, physical, mode, false, true) {
            self.begin_heats();
            self.begin_hot(head, hot.id, &trace);
        }
    }

    /// The plain block at the first address of the loop that `trace` is, if it begins at
    /// another: an inner loop is hot before the loop around it. What the rounds of the outer
    /// loop begin with is known at its beginning alone.
    fn first_of_loop(&self, trace: &GuestBlock, physical: u64, mode: Mode) -> Option<BlockId> {
        let first = trace.bytes.0;
        if !trace.loops || first == trace.rip {
            return None;
        }
        let page = physical & !(PAGE_SIZE - 1);
        let found = self
            .store
            .find(page + first % PAGE_SIZE, first, mode, false)?;
        let block = self.store.block(found.id);
        (!block.hot && block.valid).then_some(found.id)
    }

    /// Counts the runs of block `head` from the first one again.
    fn count_again(&mut self, head: BlockId) {
        if let Some(heat) = self.store.block(head).heat {
            self.context.heat[heat as usize] = HOT_RUNS;
        }
    }

    /// Runs `hot`, which was made from `trace`, in the place of `head`.
    fn begin_hot(&mut self, head: BlockId, hot: BlockId, trace: &GuestBlock) {
        self.store.redirect(head, hot);
        self.statistics.promoted += 1;
        self.statistics.translated += trace.instructions.len() as u64;
        self.lead_to(hot);
    }

    /// Lets indirect jumps find block `id`.
    fn lead_to(&mut self, id: BlockId) {
        let block = self.store.block(id);
        let (rip, code, user) = (block.rip, block.indirect_entry, block.mode.user);
        self.context.views[usize::from(user)].jumps.set(rip, code);
    }

    fn renamed_trace(&mut self, rip: u64, physical: u64, mode: Mode) -> Option<GuestBlock> {
        let mut trace = self.trace(rip, physical, mode)?;
        self.guess_return(&mut trace);
        trace.renamed = choose(&trace.instructions);
        if let Some(pairs) = trace.renamed {
            rename(&mut trace.instructions, pairs);
        }
        Some(trace)
    }

    /// Follows the blocks from `head` on along the way that most runs take, within
    /// its page.
    pub(crate) fn trace(&mut self, head: u64, physical: u64, mode: Mode) -> Option<GuestBlock> {
        let page = physical & !(PAGE_SIZE - 1);
        let mut trace = GuestBlock {
            rip: head,
            bytes: (head, head),
            ..GuestBlock::default()
        };
        let mut returns = Vec::new();
        let mut seen = Vec::new();
        let mut rip = head;
        loop {
            let in_page = rip % PAGE_SIZE;
            let Ok((block, Origin { second: None, .. })) =
                self.decode_at(rip, page + in_page, MAX_INSTRUCTIONS)
            else {
                break;
            };
            if trace.instructions.len() + block.instructions.len() > MAX_RUN {
                break;
            }
            trace.bytes.0 = trace.bytes.0.min(block.bytes.0);
            trace.bytes.1 = trace.bytes.1.max(block.bytes.1);
            trace.end = block.end;
            seen.push(rip);
            let step = self.step(&block, &seen, page, mode, &returns);
            trace.instructions.extend(block.instructions);
            let last = trace.instructions.last_mut()?;
            let next = match step {
                Step::To(next) => next,
                Step::Loop => {
                    follow(last, head, &mut returns);
                    return Some(unrolled(trace));
                }
                Step::End => return finished(trace),
            };
            let again = seen.contains(&next) && !is_short_loop(last);
            let stops = next / PAGE_SIZE != head / PAGE_SIZE
                || again
                || self.begins_loop(page + next % PAGE_SIZE, next, mode);
            if stops {
                return finished(trace);
            }
            follow(last, next, &mut returns);
            rip = next;
        }
        // The block just decoded does not fit: the trace ends in front of it.
        if trace.instructions.is_empty() {
            return None;
        }
        trace.end = rip;
        Some(trace)
    }

    /// Where most runs go behind `block`, the last of the blocks at `seen`.
    fn step(
        &mut self,
        block: &GuestBlock,
        seen: &[u64],
        page: u64,
        mode: Mode,
        returns: &[u64],
    ) -> Step {
        let Some(last) = block.instructions.last() else {
            return Step::End;
        };
        let instruction = &last.instruction;
        let to = |next| {
            // A call back is no loop: its returns pile up.
            if Some(&next) == seen.first() && last.class != Class::Call {
                Step::Loop
            } else {
                Step::To(next)
            }
        };
        match last.class {
            _ if last.follow == Follow::Split => to(block.end),
            Class::Jump | Class::Call => to(instruction.near_branch64()),
            Class::Ret => returns.last().map_or(Step::End, |&next| to(next)),
            Class::JumpIf if instruction.is_jcc_short_or_near() => {
                let (taken, not) = (instruction.near_branch64(), instruction.next_ip());
                let counted = [taken, not].map(|next| self.runs(page, next, mode));
                let jump = page + instruction.ip() % PAGE_SIZE;
                let [jumps, stays] = self.store.ways.learn(jump, counted);
                if jumps.max(stays) < HOT_RUNS / SELDOM {
                    return Step::End;
                }
                if seen.contains(&taken) {
                    return self.round_again((taken, jumps), (not, stays), seen);
                }
                to(if jumps > stays { taken } else { not })
            }
            _ => Step::End,
        }
    }

    /// At the end of a loop's body that leads back to a block of the trace: a loop of a
    /// few rounds is followed as often as it goes round, and then left.
    fn round_again(&self, back: (u64, i32), out: (u64, i32), seen: &[u64]) -> Step {
        let rounds = (back.1 + out.1 / 2) / out.1.max(1);
        let since = seen.iter().rposition(|&rip| rip == out.0).unwrap_or(0);
        let done = seen[since..].iter().filter(|&&rip| rip == back.0).count() as i32;
        if out.1 < HOT_RUNS / SELDOM || rounds > SHORT {
            return if seen.first() == Some(&back.0) {
                Step::Loop
            } else {
                Step::End
            };
        }
        if since > 0 && seen.first() == Some(&back.0) {
            return Step::Loop;
        }
        Step::To(if done < rounds { back.0 } else { out.0 })
    }

    /// How often the block at `rip` was run, as far as it is counted.
    fn runs(&self, page: u64, rip: u64, mode: Mode) -> i32 {
        let physical = page + rip % PAGE_SIZE;
        let block = self.found(physical, rip, mode, true);
        let heat = block.and_then(|id| self.store.block(id).heat);
        heat.map_or(0, |heat| {
            let left = self.context.heat[heat as usize];
            if left > HOT_RUNS {
                HOT_RUNS
            } else {
                HOT_RUNS - left
            }
        })
    }

    fn found(&self, physical: u64, rip: u64, mode: Mode, plain: bool) -> Option<BlockId> {
        let found = self.store.find(physical, rip, mode, plain);
        found.map(|found| found.id)
    }

    fn begins_loop(&self, physical: u64, rip: u64, mode: Mode) -> bool {
        self.found(physical, rip, mode, false)
            .is_some_and(|id| self.store.block(id).loops)
    }

    /// A group's check found no room in the TLB for its range: sees whether memory
    /// hangs together there, or lets a plain block go on.
    pub(crate) fn group_miss(
        &mut self,
        (block, index): (BlockId, u16),
        span: u16,
        write: bool,
        resume: u64,
    ) -> Next {
        self.statistics.group_misses += 1;
        let linear = self.context.scratch[0];
        if let Some((start, bytes)) = self.explore(linear, write)
            && linear - start + u64::from(span) <= bytes
        {
            return Next::Resume(resume);
        }
        self.refund(block, index);
        Next::Plain
    }

    /// A slot was filled as often as it may without being asked: accesses that go
    /// somewhere else nearly every time are better off without.
    pub(crate) fn refilled(&mut self, (id, index): (BlockId, u16), refill: Refill) -> Next {
        let slot = refill.slot;
        let low = self.context.scratch[0];
        self.refund(id, index);
        if self.is_new_slot(slot) {
            return Next::Plain;
        }
        if self.mend_seam(refill, low) {
            self.context.slots.0[slot as usize].fills = SLOT_FILLS;
            return Next::Plain;
        }
        let now = self.retired_now();
        let block = self.store.block(id);
        let since = now - std::mem::replace(&mut self.slot_asked[slot as usize], now);
        let runs = since / u64::from(block.counted).max(1);
        self.context.slots.0[slot as usize].fills = SLOT_FILLS;
        if runs < SLOT_FILLS as u64 * WORTH {
            let group = (slot - block.slots.start) as usize;
            let (rip, mode, physical) = (block.rip, block.mode, block.origin.first);
            let members = block.members[group].clone();
            let plain = if id & POOLED != 0 {
                let plain = self.store.retire(id, members);
                self.forget_jumps_to(id);
                plain
            } else {
                self.store.scatter(members);
                self.forget_hot(id);
                self.found(physical, rip, mode, true)
            };
            if let Some(plain) = plain
                && let Some(heat) = self.store.block(plain).heat
            {
                self.context.heat[heat as usize] = 1;
            }
        }
        Next::Plain
    }

    fn forget_hot(&mut self, id: BlockId) {
        let clean = self.store.discard(id);
        for page in clean {
            self.memory.watch(page, false);
        }
        self.forget_jumps_to(id);
    }

    fn forget_jumps_to(&mut self, id: BlockId) {
        let block = self.store.block(id);
        let (rip, code, user) = (block.rip, block.indirect_entry, block.mode.user);
        self.context.views[usize::from(user)]
            .jumps
            .forget(rip, code);
        self.store.tell(News::Forgotten { rip, code, user });
    }
}

/// Runs per filling of a slot below which it is not worth having.
const WORTH: u64 = 6;

/// Whether a run goes through this jump again and again.
fn is_short_loop(last: &GuestInstruction) -> bool {
    last.class == Class::JumpIf
}

fn finished(mut trace: GuestBlock) -> Option<GuestBlock> {
    let last = trace.instructions.last_mut()?;
    if last.class.ends_block() {
        last.follow = Follow::Leave;
    }
    Some(trace)
}

/// Lets the trace go on behind `last` with the instruction at `next`.
fn follow(last: &mut GuestInstruction, next: u64, returns: &mut Vec<u64>) {
    let instruction = &last.instruction;
    last.follow = match last.class {
        Class::Call => {
            returns.push(instruction.next_ip());
            Follow::Target
        }
        Class::Jump => Follow::Target,
        Class::Ret => {
            returns.pop();
            Follow::Return(next)
        }
        Class::JumpIf if jumps(instruction, next) => Follow::Taken,
        Class::JumpIf => Follow::NotTaken,
        _ => Follow::Split,
    };
}

fn jumps(instruction: &Instruction, to: u64) -> bool {
    instruction.near_branch64() == to
}

/// Repeats a loop's body, so that counting and checking cost less.
fn unrolled(mut trace: GuestBlock) -> GuestBlock {
    let body = trace.instructions.clone();
    let mut repeats = 1;
    while repeats < MAX_REPEATS && trace.instructions.len() + body.len() <= MAX_UNROLLED {
        trace.instructions.extend_from_slice(&body);
        repeats += 1;
    }
    trace.end = trace.rip;
    trace.loops = true;
    trace
}
