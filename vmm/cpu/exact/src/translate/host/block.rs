//! Translated blocks and the exit stubs by which they leave translated code.
//!
//! A `Block` is what the store, or a pool, knows of a translation: where it came from, under which
//! `Mode` it may run, and how to refund what its entry took off the budget when it is left early. A
//! `Site` says what an exit stub needs. Blocks are made by `store` and `pool`, and read by `visit`
//! and `access`.

use iced_x86::Instruction;

use crate::memory::masked::is_masked;
use crate::translate::guest::allocation::Allocation;
use crate::translate::guest::analyse::Class;
use crate::translate::guest::decode::{GuestBlock, GuestInstruction, MAX_INSTRUCTIONS};
use crate::translate::guest::size::{CodeSize, Nulls};
use crate::translate::host::emit::Emitted;

/// Index of a block.
pub(crate) type BlockId = u32;
/// Index of an exit stub.
pub(crate) type SiteId = u32;

/// Blocks and exit stubs with this bit in their number belong to a
/// [pool](crate::code::pool::Pool), the others to the store.
pub(crate) const POOLED: u32 = 1 << 31;

/// Under which circumstances a block was translated, and so may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    /// Privilege level 3.
    pub user: bool,
    /// x87 and SSE run.
    pub fpu: bool,
    /// How much of the code it may run at once.
    pub pace: Pace,
    /// Stub instructions do not count.
    pub free_stubs: bool,
    /// What kind of code it is.
    pub size: CodeSize,
    /// Segments through which accesses raise #GP.
    pub nulls: Nulls,
    /// The base of CS modulo the page size: what separates RIP from a page offset.
    pub skew: u16,
    /// The number of the features that decide how it is translated.
    pub features: u8,
    /// Its addresses count from its page's beginning, wherever that is mapped; see
    /// [`relative`](crate::find::relative).
    pub relative: bool,
    /// It counts in MM7, since the guest's x87 is as after reset and need not be in the host's;
    /// the guest's instructions that touch it leave. See [`apart`](crate::instructions::apart).
    pub apart: bool,
}

/// How much code runs between two looks at the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Whole blocks, and hot ones where there are.
    Full,
    /// Whole blocks, none of them hot: the budget is nearly spent.
    Slow,
    /// Two to this power instructions at most: it does not cover the block.
    Piece(u8),
}

impl Pace {
    /// The largest piece that a budget of instructions covers, of two to the power of
    /// `largest` at most.
    pub(crate) fn piece_of(budget: i64, largest: u8) -> Self {
        let most = budget.clamp(1, MAX_INSTRUCTIONS as i64);
        Self::Piece(largest.min(most.ilog2() as u8))
    }

    /// Instructions that a block may have.
    pub(crate) fn limit(self) -> usize {
        match self {
            Self::Full | Self::Slow => MAX_INSTRUCTIONS,
            Self::Piece(power) => 1 << power,
        }
    }

    fn bits(self) -> u32 {
        match self {
            Self::Full => 0,
            Self::Slow => 1,
            Self::Piece(power) => 2 + u32::from(power),
        }
    }
}

impl Mode {
    /// Whether what runs is a part of a block.
    pub(crate) fn is_piece(self) -> bool {
        matches!(self.pace, Pace::Piece(_))
    }

    /// Sets of features that modes tell apart.
    pub(crate) const FEATURE_SETS: usize = 16;

    /// Whether code in this mode may stand in a [pool](crate::code::pool::Pool): 64-bit code, of
    /// which a cluster's nodes run little else.
    pub(crate) fn is_poolable(self) -> bool {
        self.size == CodeSize::Long && !self.relative
    }

    /// The same for code whose addresses are its own.
    pub(crate) fn absolute(self) -> Self {
        Self {
            relative: false,
            ..self
        }
    }

    /// A number that tells modes apart.
    pub(crate) fn bits(self) -> u32 {
        u32::from(self.user)
            | u32::from(self.fpu) << 1
            | u32::from(self.relative) << 2
            | self.pace.bits() << 24
            | u32::from(self.free_stubs) << 3
            | (self.size as u32) << 4
            | u32::from(self.nulls.bits() & 3) << 6
            | u32::from(self.nulls.bits() >> 2) << 21
            | u32::from(self.skew) << 8
            | u32::from(self.apart) << 20
            | u32::from(self.features) << 28
    }
}

/// A linked jump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    /// Host address of the `rel32`, or in a pool of the cell.
    pub hole: u64,
    /// Where it led before.
    pub stub: u64,
    /// It must not lead to hot code.
    pub plain: bool,
}

/// Guest-physical addresses of a block's first byte, and of its first in a second page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub first: u64,
    pub second: Option<u64>,
}

impl Origin {
    /// An address in each of its pages.
    pub(crate) fn each(self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first).chain(self.second)
    }
}

/// A translated block.
#[derive(Debug)]
pub(crate) struct Block {
    /// Where it begins; with relative addresses its place in the page.
    pub rip: u64,
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
    pub valid: bool,
}

/// What running code takes off the budget and adds to the count of instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    pub ticks: i64,
    pub instructions: i64,
}

/// Where a block comes to stand, and as what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    pub mode: Mode,
    pub hot: bool,
    pub origin: Origin,
    /// Host address of its code, and how many bytes it has.
    pub base: u64,
    pub bytes: usize,
    pub heat: Option<u32>,
    pub first_slot: u32,
}

impl Block {
    /// The block that `guest` was translated to.
    pub(crate) fn new(guest: &GuestBlock, emitted: Emitted, placement: Placement) -> Self {
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
    pub(crate) fn charge_from(&self, index: u16) -> Charge {
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
    pub(crate) fn charge_of(&self, index: u16) -> Charge {
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
    pub(crate) fn rip_in(&self, code_page: u64) -> u64 {
        self.rip.wrapping_add(self.origin_in(code_page))
    }

    /// RIP of instruction `index` while it runs in `code_page`.
    pub(crate) fn rip_of(&self, index: u16, code_page: u64) -> u64 {
        self.rip_in(code_page)
            .wrapping_add_signed(i64::from(self.offsets[index as usize]))
    }

    /// RIP after its last instruction, likewise.
    pub(crate) fn end_in(&self, code_page: u64) -> u64 {
        self.end.wrapping_add(self.origin_in(code_page))
    }

    /// Instruction `index`, if a mask decides which bytes of memory it touches.
    pub(crate) fn masked(&self, index: u16) -> Option<&Instruction> {
        self.masked
            .iter()
            .find_map(|(number, instruction)| (*number == index).then_some(instruction))
    }

    /// The instruction whose host code holds host address `pc`.
    pub(crate) fn instruction_at(&self, pc: u64) -> Option<u16> {
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

/// How the first instructions of a TLB check left the scratch registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckForm {
    /// S0 is the address XOR the tag, S1 the entry's byte offset.
    Xor,
    /// S0 is the address minus the tag, S1 the entry's index.
    Difference,
}

/// Which slot was to be filled often, and what for the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refill {
    pub slot: u32,
    /// Bytes that its group covers.
    pub span: u16,
    pub write: bool,
}

/// What left translated code, and what it needs.
#[derive(Clone, Debug)]
pub(crate) enum SiteKind {
    /// The budget does not cover this block.
    Stop,
    /// More stub instructions than a magic call needs.
    FreeSpent,
    /// An access missed the TLB. Continues at `resume` with a page offset in S0 and
    /// a host page in S1; a store into the bounce buffer continues at `bounce`.
    Miss {
        size: u16,
        write: bool,
        form: CheckForm,
        resume: u64,
        bounce: u64,
    },
    /// A store into the bounce buffer was carried out; continues at `resume`. What a
    /// call pushes is followed by its jump alone, which still holds when the store
    /// changed this very block.
    Commit { size: u16, resume: u64, call: bool },
    /// A jump to `target` whose `rel32`, or in a pool whose cell, at host address `hole`
    /// leads to `stub`, which leaves, as long as it is not linked. A `plain` one leads to
    /// a block that checks each access by itself.
    Link {
        target: u64,
        hole: u64,
        stub: u64,
        plain: bool,
    },
    /// The block was run so often that it is worth more work.
    Hot,
    /// A group's slot, whose check found nothing in the TLB for the `span` bytes at
    /// the address in S0. Continues at `resume`, with the address in S0, once the TLB
    /// has them.
    Group { span: u16, write: bool, resume: u64 },
    /// A group's slot was to be filled often, the last time for the bytes at the address
    /// in S0.
    Refilled(Refill),
    /// Carried out in Rust.
    Helper(Box<Instruction>),
    /// Raises an exception; the bytes are not an instruction that is offered.
    Fault { vector: u8 },
}

/// A place at which a block leaves translated code.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub block: BlockId,
    /// The instruction in execution.
    pub index: u16,
    /// Its block has guest registers elsewhere than usual.
    pub allocates: bool,
    /// The addresses in `kind` count from the page that runs.
    pub relative: bool,
    pub kind: SiteKind,
}
