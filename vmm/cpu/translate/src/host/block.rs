//! Translated blocks.
//!
//! A `Block` describes a translation for the store or a pool: its origin, the `Mode` under which it
//! may run, and the refunds when it is left early, because its entry charges all of its
//! instructions. `store` and `pool` make blocks; `visit` and `access` read them.

use iced_x86::Instruction;

use crate::guest::analyse::InstructionClass;
use crate::guest::analyse::masked::is_masked;
use crate::guest::decode::{GuestBlock, GuestInstruction};
use crate::guest::mode::{Mode, Origin};
use crate::host::allocation::Allocation;
use crate::host::emit::{BlockSegment, Emitted, segments_of};

/// A linked jump.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// Host address of the `rel32`; if it is [wide](Self::wide) or in a pool, of a word with the target.
    pub hole: u64,
    /// Its target before it was linked.
    pub stub: u64,
    /// True if it must not lead to hot code.
    pub plain: bool,
    /// True for a jump of a node's own code through a word, which reaches the pool's code as well.
    pub wide: bool,
}

/// A translated block.
#[derive(Debug)]
pub struct Block {
    /// Its RIP; with relative addresses, its offset in the page.
    pub rip: u64,
    /// The mode under which it may run.
    pub mode: Mode,
    /// True if it was made from a hot block and its successors.
    pub hot: bool,
    /// Guest-physical addresses of its bytes.
    pub origin: Origin,
    /// Guest addresses of the first and after the last decoded byte.
    pub bytes: (u64, u64),
    /// RIP after the last instruction.
    pub end: u64,
    /// Host address for chained jumps.
    pub entry: u64,
    /// Host address for indirect jumps, which verify R14 first.
    pub indirect_entry: u64,
    /// Host address after the block.
    pub host_end: u64,
    /// Number of counted instructions; zero for a stub.
    pub counted: u16,
    /// With a time model: for each counted instruction, the ticks of it and all later ones.
    pub rest: Box<[i32]>,
    /// Distance of each instruction from `rip`.
    pub offsets: Box<[i16]>,
    /// The blocks of a trace.
    pub segments: Box<[BlockSegment]>,
    /// The beginning of each instruction's host code (offset from `indirect_entry`), ascending.
    pub host_map: Box<[(u32, u16)]>,
    /// Its instructions with masked memory operands, by their number.
    pub masked: Box<[(u16, Instruction)]>,
    /// The `rel32`s that lead to it.
    pub incoming: Vec<Incoming>,
    /// Index of its run counter.
    pub heat: Option<u32>,
    /// The slots of a hot block's group checks.
    pub slots: std::ops::Range<u32>,
    /// RIPs of the accesses that share each slot.
    pub members: Box<[Box<[u64]>]>,
    /// True if it jumps back to its beginning.
    pub loops: bool,
    /// The places of guest registers while it runs.
    pub allocation: Allocation,
    /// The arithmetic flags that are dead on entry, in iced's bits.
    pub dead_flags: u32,
    /// True if its bytes have not changed since.
    pub valid: bool,
}

/// Amounts that running code subtracts from the budget and adds to the count of instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Subtracted from the budget.
    pub ticks: i64,
    /// Added to the count.
    pub instructions: i64,
}

/// The placement and kind of a block.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// The mode under which it may run.
    pub mode: Mode,
    /// True for a trace.
    pub hot: bool,
    /// Guest-physical addresses of its bytes.
    pub origin: Origin,
    /// Host address of its code.
    pub base: u64,
    /// Length of its code in bytes.
    pub bytes: usize,
    /// Index of its run counter.
    pub heat: Option<u32>,
    /// Number of the first slot of its group checks.
    pub first_slot: u32,
}

impl Block {
    /// The block translated from `guest`.
    pub fn new(guest: &GuestBlock, emitted: Emitted, placement: Placement) -> Self {
        let Placement { base, .. } = placement;
        let offset = |one: &GuestInstruction| one.instruction.ip().wrapping_sub(guest.rip) as i16;
        Self {
            rip: guest.rip,
            mode: placement.mode,
            hot: placement.hot,
            origin: placement.origin,
            bytes: guest.bytes,
            end: guest.end,
            entry: base + u64::from(emitted.entry),
            indirect_entry: base,
            host_end: base + placement.bytes as u64,
            counted: emitted.counted,
            rest: emitted.rest,
            offsets: guest.instructions.iter().map(offset).collect(),
            segments: match placement.hot {
                true => segments_of(guest).into(),
                false => Box::default(),
            },
            host_map: emitted.host_map,
            masked: masked_accesses(guest),
            incoming: Vec::new(),
            heat: placement.heat,
            slots: placement.first_slot..placement.first_slot + emitted.slots,
            members: emitted.members,
            loops: guest.loops,
            allocation: emitted.allocation,
            dead_flags: emitted.dead_flags,
            valid: true,
        }
    }

    /// The part of the entry's charge for counted instruction `index` and later ones.
    #[inline]
    pub fn charge_from(&self, index: u16) -> Charge {
        let instructions = i64::from(self.counted.saturating_sub(index));
        let ticks = self.rest.get(usize::from(index)).copied();
        Charge {
            // Without a time model, each is one tick, and there are no ticks after the last.
            ticks: ticks.map_or(
                if self.rest.is_empty() {
                    instructions
                } else {
                    0
                },
                i64::from,
            ),
            instructions,
        }
    }

    /// The part of the entry's charge for instruction `index` alone.
    #[inline]
    pub fn charge_of(&self, index: u16) -> Charge {
        let (from, behind) = (self.charge_from(index), self.charge_from(index + 1));
        Charge {
            ticks: from.ticks - behind.ticks,
            instructions: from.instructions - behind.instructions,
        }
    }

    /// The base of its addresses while it runs in `code_page`.
    pub(crate) fn origin_in(&self, code_page: u64) -> u64 {
        if self.mode.relative { code_page } else { 0 }
    }

    /// Its RIP while it runs in `code_page`.
    #[inline]
    pub fn rip_in(&self, code_page: u64) -> u64 {
        self.rip.wrapping_add(self.origin_in(code_page))
    }

    /// RIP of instruction `index` while it runs in `code_page`.
    #[inline]
    pub fn rip_of(&self, index: u16, code_page: u64) -> u64 {
        self.rip_in(code_page)
            .wrapping_add_signed(i64::from(self.offsets[index as usize]))
    }

    /// RIP after its last instruction while it runs in `code_page`.
    #[inline]
    pub fn end_in(&self, code_page: u64) -> u64 {
        self.end.wrapping_add(self.origin_in(code_page))
    }

    /// Instruction `index`, if a mask selects the bytes of memory that it accesses.
    #[inline]
    pub fn masked(&self, index: u16) -> Option<&Instruction> {
        self.masked
            .iter()
            .find_map(|(number, instruction)| (*number == index).then_some(instruction))
    }

    /// The instruction whose host code contains host address `pc`.
    #[inline]
    pub fn instruction_at(&self, pc: u64) -> Option<u16> {
        let offset = (pc - self.indirect_entry) as u32;
        let after = self.host_map.partition_point(|&(start, _)| start <= offset);
        after.checked_sub(1).map(|at| self.host_map[at].1)
    }
}

fn masked_accesses(guest: &GuestBlock) -> Box<[(u16, Instruction)]> {
    guest
        .instructions
        .iter()
        .enumerate()
        .filter(|(_, guest)| {
            matches!(guest.class, InstructionClass::Memory { .. }) && is_masked(&guest.instruction)
        })
        .map(|(index, guest)| (index as u16, guest.instruction))
        .collect()
}
