//! Groups of accesses of a straight run that share an address check.
//!
//! Accesses of a group differ in their addresses by constants and cover at most `MAX_SPAN` bytes
//! together. The check comes at a point where all parts of the address are known and flags may be
//! clobbered; an access without such a point is checked by itself. The emitter calls `plan` for
//! traces, and `strides` computes the groups' movement from the plan.

use std::collections::BTreeSet;

use belljar_cpu::PAGE_SIZE;

use crate::guest::decode::{Follow, GuestInstruction};
use crate::guest::mode::{Mode, Origin};
use crate::guest::symbols::{Key, Symbols, analyse};

/// The largest number of bytes that a check covers. A wider range crosses page boundaries more
/// often, where the run falls back to checking each access.
const MAX_SPAN: i64 = 640;

/// Accesses whose addresses differ by constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessGroup {
    pub key: Key,
    /// Offset of the lowest byte from the key's sum.
    pub low: i64,
    /// Offset after the highest byte.
    pub high: i64,
    pub write: bool,
    /// The instruction before which the range is checked.
    pub at: usize,
    /// True if its address seldom repeats: each check uses the TLB.
    pub scattered: bool,
}

impl AccessGroup {
    /// Bytes in the range.
    pub(crate) fn span(&self) -> u16 {
        (self.high - self.low) as u16
    }
}

/// Instructions whose accesses seldom repeat their last address range.
#[derive(Clone, Copy, Debug)]
pub struct Scattered<'a> {
    /// RIPs of their accesses, with `from` added.
    pub instructions: &'a BTreeSet<u64>,
    /// An offset that distinguishes RIPs in this set.
    pub from: u64,
}

impl Scattered<'_> {
    /// The offset for instructions of code of this `mode` from `origin`: relative ones are
    /// identified by physical addresses, in a part of the address space without RIPs.
    pub fn origin(mode: Mode, origin: Origin) -> u64 {
        const RELATIVE: u64 = 1 << 62;
        if mode.relative {
            RELATIVE | origin.first & !(PAGE_SIZE - 1)
        } else {
            0
        }
    }

    fn contains(self, rip: u64) -> bool {
        self.instructions.contains(&rip.wrapping_add(self.from))
    }
}

/// The result of [`plan`].
#[derive(Debug, Default)]
pub(crate) struct GroupPlan {
    pub symbols: Symbols,
    pub groups: Vec<AccessGroup>,
    /// For each instruction: the group that covers its access.
    pub uses: Vec<Option<usize>>,
}

/// Groups the accesses of `run`. `flags_dead` is true for instructions before which the flags may
/// be clobbered. Accesses at the addresses in `scattered` share checks only among themselves, and
/// remain ungrouped if there is only one.
pub(crate) fn plan(
    run: &[GuestInstruction],
    flags_dead: &[bool],
    scattered: Scattered<'_>,
) -> GroupPlan {
    let symbols = analyse(run.iter().map(|guest| (&guest.instruction, guest.class)));
    let mut plan = GroupPlan {
        symbols,
        groups: Vec::new(),
        uses: vec![None; run.len()],
    };
    for index in 0..run.len() {
        let Some(place) = plan.symbols.places[index] else {
            continue;
        };
        let apart = scattered.contains(run[index].instruction.ip());
        if apart && !place.key.is_free() {
            continue;
        }
        let (low, high) = (place.offset, place.offset + i64::from(place.size));
        let known = plan.groups.iter().rposition(|group| {
            let span = high.max(group.high) - low.min(group.low);
            group.key == place.key && group.scattered == apart && span <= MAX_SPAN
        });
        if let Some(id) = known {
            let group = &mut plan.groups[id];
            group.low = group.low.min(low);
            group.high = group.high.max(high);
            group.write |= place.write;
            plan.uses[index] = Some(id);
        } else if let Some(at) = plan.position(run, flags_dead, index, place.key) {
            plan.uses[index] = Some(plan.groups.len());
            plan.groups.push(AccessGroup {
                key: place.key,
                low,
                high,
                write: place.write,
                at,
                scattered: apart,
            });
        }
    }
    plan.leave_single();
    plan
}

impl GroupPlan {
    /// Ungroups scattered accesses that share no check.
    fn leave_single(&mut self) {
        let uses = &self.uses;
        let shared = |id| uses.iter().filter(|&&used| used == Some(id)).count() > 1;
        let stays: Vec<bool> = (0..self.groups.len())
            .map(|id| !self.groups[id].scattered || shared(id))
            .collect();
        let before = |id: usize| stays[..id].iter().filter(|&&stays| stays).count();
        for used in &mut self.uses {
            *used = used.filter(|&id| stays[id]).map(before);
        }
        let mut stays = stays.iter();
        self.groups.retain(|_| stays.next() == Some(&true));
    }

    /// The last position at or before `index` at which the flags may be clobbered and the address
    /// is known.
    fn position(
        &self,
        run: &[GuestInstruction],
        flags_dead: &[bool],
        index: usize,
        key: Key,
    ) -> Option<usize> {
        let steady = key.is_steady(self.symbols.stack[index]);
        let mut at = index;
        while !flags_dead[at] {
            at = at.checked_sub(1)?;
            let past_branch = matches!(
                run[at].follow,
                Follow::NotTaken | Follow::Taken | Follow::Return(_)
            );
            if (past_branch && !steady) || !self.is_known(key, at) {
                return None;
            }
        }
        Some(at)
    }

    fn is_known(&self, key: Key, at: usize) -> bool {
        let holds = |symbol| {
            self.symbols.before[at]
                .iter()
                .any(|value| value.symbol == symbol)
        };
        key.base.is_none_or(holds)
            && key
                .index
                .is_none_or(|(symbol, _)| self.index_holder(symbol, at).is_some())
    }

    /// As [`holder`](Self::holder), but only registers that can be an index.
    pub(crate) fn index_holder(&self, symbol: u32, at: usize) -> Option<(u8, i64)> {
        const RSP: usize = 4;
        let registers = &self.symbols.before[at];
        let number = (0..16).find(|&n| n != RSP && registers[n].symbol == symbol)?;
        Some((number as u8, registers[number].offset))
    }

    /// The register that holds `symbol` before instruction `at`, and the difference of its value.
    /// Lower registers, which have host registers, are preferred.
    pub(crate) fn holder(&self, symbol: u32, at: usize) -> Option<(u8, i64)> {
        let registers = &self.symbols.before[at];
        let number = registers.iter().position(|value| value.symbol == symbol)?;
        Some((number as u8, registers[number].offset))
    }
}

/// The plan of the code that `build` assembles, without scattered accesses.
#[cfg(test)]
pub(crate) fn planned(build: impl FnOnce(&mut iced_x86::code_asm::CodeAssembler)) -> GroupPlan {
    use crate::guest::flags::{are_all, dead_flags};
    let run = crate::guest::decode::assembled(build);
    let dead: Vec<bool> = dead_flags(&run, false)
        .dead
        .into_iter()
        .map(are_all)
        .collect();
    let none = BTreeSet::new();
    let scattered = Scattered {
        instructions: &none,
        from: 0,
    };
    plan(&run, &dead, scattered)
}

#[cfg(test)]
mod tests {
    use iced_x86::code_asm::*;

    use super::*;
    use crate::guest::decode::assembled;
    use crate::guest::flags::{are_all, dead_flags};

    #[test]
    fn what_moves_with_the_stack_pointer_shares_a_check() {
        let plan = planned(|a| {
            a.xor(eax, eax).unwrap();
            a.push(rbx).unwrap();
            a.push(rbp).unwrap();
            a.mov(qword_ptr(rsp + 8), rcx).unwrap();
            a.pop(rbp).unwrap();
            a.pop(rbx).unwrap();
            a.add(rax, rcx).unwrap();
        });
        assert_eq!(plan.groups.len(), 1);
        let group = &plan.groups[0];
        assert_eq!((group.low, group.high, group.write), (-16, 0, true));
    }

    #[test]
    fn scattered_accesses_share_a_check_among_themselves() {
        let run = assembled(|a| {
            a.mov(rax, qword_ptr(rbx)).unwrap();
            a.mov(rcx, qword_ptr(rbx + 8)).unwrap();
            a.mov(rdx, qword_ptr(rbx + 16)).unwrap();
            a.mov(rsi, qword_ptr(rdi)).unwrap();
            a.add(rax, rcx).unwrap();
        });
        let dead: Vec<bool> = dead_flags(&run, false)
            .dead
            .into_iter()
            .map(are_all)
            .collect();
        let at = |number: usize| run[number].instruction.ip();
        let instructions = BTreeSet::from([at(0), at(2), at(3)]);
        let scattered = Scattered {
            instructions: &instructions,
            from: 0,
        };
        let plan = plan(&run, &dead, scattered);
        assert_eq!(plan.uses[..4], [Some(0), Some(1), Some(0), None]);
        let each = plan.groups.iter();
        let spans: Vec<_> = each.map(|group| (group.scattered, group.span())).collect();
        assert_eq!(spans, [(true, 24), (false, 8)]);
    }

    #[test]
    fn a_pointer_that_advances_by_constants_stays_in_its_group() {
        let plan = planned(|a| {
            a.mov(rax, qword_ptr(rsi)).unwrap();
            a.add(rsi, 8).unwrap();
            a.mov(rdx, rsi).unwrap();
            a.add(rax, qword_ptr(rdx + 8)).unwrap();
            a.mov(rsi, rax).unwrap();
            a.add(rcx, qword_ptr(rsi)).unwrap();
        });
        assert_eq!(plan.uses[0], plan.uses[3]);
        assert_ne!(plan.uses[0], plan.uses[5], "RSI is another pointer there");
        assert_eq!((plan.groups[0].low, plan.groups[0].high), (0, 24));
    }

    #[test]
    fn an_index_that_is_a_constant_is_a_part_of_the_distance() {
        let plan = planned(|a| {
            a.xor(eax, eax).unwrap();
            a.mov(rdx, qword_ptr(rsi)).unwrap();
            a.mov(rdx, qword_ptr(rsi + rax * 8 + 8)).unwrap();
            a.mov(eax, 3).unwrap();
            a.mov(rdx, qword_ptr(rsi + rax * 8)).unwrap();
        });
        assert_eq!(plan.groups.len(), 1);
        assert_eq!((plan.groups[0].low, plan.groups[0].high), (0, 32));
        let plan = planned(|a| {
            a.mov(rdx, qword_ptr(rsi)).unwrap();
            // Not eight less, but 4 GiB more than that.
            a.mov(eax, 0xffff_fff8u32).unwrap();
            a.mov(rdx, qword_ptr(rsi + rax)).unwrap();
            a.add(rbx, rcx).unwrap();
        });
        assert_eq!(plan.groups.len(), 2);
    }

    #[test]
    fn a_check_stands_only_where_flags_are_dead_and_the_address_is_known() {
        let plan = planned(|a| {
            a.cmp(rax, rbx).unwrap();
            a.mov(rcx, qword_ptr(rdi)).unwrap();
            a.cmovl(rax, rcx).unwrap();
            a.add(rax, rbx).unwrap();
        });
        assert_eq!(plan.groups[0].at, 0, "in front of what sets the flags");
        let plan = planned(|a| {
            a.cmp(rax, rbx).unwrap();
            a.lea(rdi, ptr(rdx + rcx)).unwrap();
            a.mov(rcx, qword_ptr(rdi)).unwrap();
            a.cmovl(rax, rcx).unwrap();
            a.add(rax, rbx).unwrap();
        });
        assert_eq!(plan.uses[2], None, "the address comes after the comparison");
    }
}
