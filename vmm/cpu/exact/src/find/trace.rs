//! Traces: the most frequent path from a block on, with loops unrolled.
//!
//! Traces only affect speed: other paths leave through side exits.

use belljar_cpu::PAGE_SIZE;
use belljar_translate::context::HOT_RUNS;
use belljar_translate::guest::analyse::InstructionClass;
use belljar_translate::guest::decode::{Follow, GuestBlock, GuestInstruction, MAX_RUN};
use belljar_translate::guest::mode::Mode;
use iced_x86::Instruction;

use crate::code::form::Sought;
use crate::processor::vcpu::ExactVcpu;
/// A loop is unrolled in its trace up to this many instructions.
const MAX_UNROLLED: usize = 96;
const MAX_REPEATS: usize = 8;
/// A trace does not follow a branch with less than this fraction of the runs, as a divisor.
const SELDOM: i32 = 12;
/// A loop of at most this many rounds is followed to its end.
const SHORT: i32 = 8;

/// The result of extending a trace by a block.
enum TraceExtension {
    To(u64),
    /// Back to the trace's beginning.
    Loop,
    End,
}

impl ExactVcpu {
    /// Follows the most frequent path of blocks from `head` on, within its page.
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
            let Some(block) = self.decode_within(rip, page + in_page, mode) else {
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
                TraceExtension::To(next) => next,
                TraceExtension::Loop => {
                    follow(last, head, &mut returns);
                    return Some(unrolled(trace));
                }
                TraceExtension::End => return finished(trace),
            };
            let again = seen.contains(&next) && !is_short_loop(last);
            let stops = next / PAGE_SIZE != head / PAGE_SIZE
                || again
                || self.is_probed(
                    page + next % PAGE_SIZE,
                    next.wrapping_add(self.origin_of(mode.relative)),
                )
                || self.begins_loop(page + next % PAGE_SIZE, next, mode);
            if stops {
                return finished(trace);
            }
            follow(last, next, &mut returns);
            rip = next;
        }
        // The block just decoded does not fit: the trace ends before it.
        if trace.instructions.is_empty() {
            return None;
        }
        trace.end = rip;
        Some(trace)
    }

    /// The most frequent successor of `block`, the last of the blocks at `seen`.
    fn step(
        &mut self,
        block: &GuestBlock,
        seen: &[u64],
        page: u64,
        mode: Mode,
        returns: &[u64],
    ) -> TraceExtension {
        let Some(last) = block.instructions.last() else {
            return TraceExtension::End;
        };
        let instruction = &last.instruction;
        let to = |next| {
            // A recursive call is not a loop: its returns accumulate.
            if Some(&next) == seen.first() && last.class != InstructionClass::Call {
                TraceExtension::Loop
            } else {
                TraceExtension::To(next)
            }
        };
        match last.class {
            _ if last.follow == Follow::Split => to(block.end),
            InstructionClass::Jump | InstructionClass::Call => to(instruction.near_branch64()),
            InstructionClass::Ret => returns.last().map_or(TraceExtension::End, |&next| to(next)),
            InstructionClass::JumpIf if instruction.is_jcc_short_or_near() => {
                let (taken, not) = (instruction.near_branch64(), instruction.next_ip());
                let counted = [taken, not].map(|next| self.runs(page, next, mode));
                let jump = page + instruction.ip() % PAGE_SIZE;
                let [jumps, stays] = self.store.profile.learn(jump, counted);
                if jumps.max(stays) < HOT_RUNS / SELDOM {
                    return TraceExtension::End;
                }
                if seen.contains(&taken) {
                    return self.round_again((taken, jumps), (not, stays), seen);
                }
                to(if jumps > stays { taken } else { not })
            }
            _ => TraceExtension::End,
        }
    }

    /// Handles the end of a loop's body that leads back to a block of the trace: a loop of few
    /// rounds is followed for its number of rounds, and then left.
    fn round_again(&self, back: (u64, i32), out: (u64, i32), seen: &[u64]) -> TraceExtension {
        let rounds = (back.1 + out.1 / 2) / out.1.max(1);
        let since = seen.iter().rposition(|&rip| rip == out.0).unwrap_or(0);
        let done = seen[since..].iter().filter(|&&rip| rip == back.0).count() as i32;
        if out.1 < HOT_RUNS / SELDOM || rounds > SHORT {
            return if seen.first() == Some(&back.0) {
                TraceExtension::Loop
            } else {
                TraceExtension::End
            };
        }
        if since > 0 && seen.first() == Some(&back.0) {
            return TraceExtension::Loop;
        }
        TraceExtension::To(if done < rounds { back.0 } else { out.0 })
    }

    /// Number of runs of the block at `rip`, as far as they are counted.
    fn runs(&self, page: u64, rip: u64, mode: Mode) -> i32 {
        let physical = page + rip % PAGE_SIZE;
        let block = self.found(physical, rip, mode, Sought::Plain);
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

    fn begins_loop(&self, physical: u64, rip: u64, mode: Mode) -> bool {
        self.found(physical, rip, mode, Sought::Best)
            .is_some_and(|id| self.store.block(id).loops)
    }
}

/// True if a loop may end in this jump.
fn is_short_loop(last: &GuestInstruction) -> bool {
    last.class == InstructionClass::JumpIf
}

fn finished(mut trace: GuestBlock) -> Option<GuestBlock> {
    let last = trace.instructions.last_mut()?;
    if last.class.ends_block() {
        last.follow = Follow::Leave;
    }
    Some(trace)
}

/// Makes the trace continue after `last` with the instruction at `next`.
fn follow(last: &mut GuestInstruction, next: u64, returns: &mut Vec<u64>) {
    let instruction = &last.instruction;
    last.follow = match last.class {
        InstructionClass::Call => {
            returns.push(instruction.next_ip());
            Follow::Target
        }
        InstructionClass::Jump => Follow::Target,
        InstructionClass::Ret => {
            returns.pop();
            Follow::Return(next)
        }
        InstructionClass::JumpIf if jumps(instruction, next) => Follow::Taken,
        InstructionClass::JumpIf => Follow::NotTaken,
        _ => Follow::Split,
    };
}

fn jumps(instruction: &Instruction, to: u64) -> bool {
    instruction.near_branch64() == to
}

/// Unrolls a loop's body, so that counting and checking cost less.
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
