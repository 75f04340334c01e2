//! Translated blocks.
//!
//! A `Block` is what the store, or a pool, knows of a translation: where it came from, under which
//! `Mode` it may run, and how to refund what its entry took off the budget when it is left early.
//! Blocks are made by `store` and `pool`, and read by `visit` and `access`.

use iced_x86::Instruction;

use crate::guest::analyse::Class;
use crate::guest::analyse::masked::is_masked;
use crate::guest::decode::{GuestBlock, GuestInstruction};
use crate::guest::mode::{Mode, Origin};
use crate::host::allocation::Allocation;
use crate::host::emit::Emitted;

/// A linked jump.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// Host address of the `rel32`, or in a pool of the cell.
    pub hole: u64,
    /// Where it led before.
    pub stub: u64,
    /// It must not lead to hot code.
    pub plain: bool,
}

/// A translated block.
#[derive(Debug)]
pub struct Block {
    /// Where it begins; with relative addresses its place in the page.
    pub rip: u64,
    /// What it may run under.
    pub mode: Mode,
    /// Made from a hot block and those that follow it.
    pub hot: bool,
    /// Where it was decoded from.
    pub origin: Origin,
    /// Guest addresses of the first and after the last byte that it was decoded from.
    pub bytes: (u64, u64),
    /// RIP after the last instruction.
    pub end: u64,
    /// Host address for chained jumps.
    pub entry: u64,
    /// Host address for indirect jumps, which verify R14 first.
    pub indirect_entry: u64,
    /// Host address after the block.
    pub host_end: u64,
    /// Counted instructions; zero for a stub.
    pub counted: u16,
    /// With a time model: ticks of each counted instruction and those after it.
    pub rest: Box<[i32]>,
    /// Distance of each instruction from `rip`.
    pub offsets: Box<[i16]>,
    /// Where host code for an instruction begins (offset from `indirect_entry`), ascending.
    pub host_map: Box<[(u32, u16)]>,
    /// Its instructions with masked memory operands, by their number.
    pub masked: Box<[(u16, Instruction)]>,
    /// The `rel32`s that lead here.
    pub incoming: Vec<Incoming>,
    /// Where its runs are counted.
    pub heat: Option<u32>,
    /// The slots of a hot one's group checks.
    pub slots: std::ops::Range<u32>,
    /// RIPs of the accesses that share each slot.
    pub members: Box<[Box<[u64]>]>,
    /// Whether it jumps back to its beginning.
    pub loops: bool,
    /// Where guest registers stand while it runs.
    pub allocation: Allocation,
    /// The arithmetic flags that are dead on entry, in iced's bits.
    pub dead_flags: u32,
    /// Its bytes have not changed since.
    pub valid: bool,
}

/// What running code takes off the budget and adds to the count of instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Off the budget.
    pub ticks: i64,
    /// To the count.
    pub instructions: i64,
}

/// Where a block is put, and as what.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// What it may run under.
    pub mode: Mode,
    /// It is a trace.
    pub hot: bool,
    /// Where it was decoded from.
    pub origin: Origin,
    /// Host address of its code, and how many bytes it has.
    pub base: u64,
    /// How many bytes it has.
    pub bytes: usize,
    /// Where its runs are counted.
    pub heat: Option<u32>,
    /// Number of its group checks' first slot.
    pub first_slot: u32,
}

impl Block {
    /// The block that `guest` was translated to.
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

    /// What the entry took for counted instruction `index` and those after it.
    #[inline]
    pub fn charge_from(&self, index: u16) -> Charge {
        let instructions = i64::from(self.counted.saturating_sub(index));
        let ticks = self.rest.get(usize::from(index)).copied();
        Charge {
            // Without a time model each is one tick, and after the last there is none.
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

    /// What the entry took for instruction `index` alone.
    #[inline]
    pub fn charge_of(&self, index: u16) -> Charge {
        let (from, behind) = (self.charge_from(index), self.charge_from(index + 1));
        Charge {
            ticks: from.ticks - behind.ticks,
            instructions: from.instructions - behind.instructions,
        }
    }

    /// What its addresses count from while it runs in `code_page`.
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

    /// RIP after its last instruction, likewise.
    #[inline]
    pub fn end_in(&self, code_page: u64) -> u64 {
        self.end.wrapping_add(self.origin_in(code_page))
    }

    /// Instruction `index`, if a mask decides which bytes of memory it touches.
    #[inline]
    pub fn masked(&self, index: u16) -> Option<&Instruction> {
        self.masked
            .iter()
            .find_map(|(number, instruction)| (*number == index).then_some(instruction))
    }

    /// The instruction whose host code holds host address `pc`.
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
            matches!(guest.class, Class::Memory { .. }) && is_masked(&guest.instruction)
        })
        .map(|(index, guest)| (index as u16, guest.instruction))
        .collect()
}
