//! Host code for one block of guest code.
//!
//! The emitted code depends only on the block, its mode, its tier and the code's character. At
//! every exit, registers hold the guest's values, or as the block's allocation defines. `store` and
//! `pool` emit through an `Emitter` and place the result.

use iced_x86::{Encoder, InstructionInfoFactory};

use crate::context::{LENT, LineFilter, at};
use crate::guest::analyse::{InstructionClass, touches_x87};
use crate::guest::decode::GuestBlock;
use crate::guest::flags::{are_all, dead_flags};
use crate::guest::groups::{GroupPlan, Scattered};
use crate::guest::mode::{Mode, Pace};
use crate::guest::size::{CodeSize, Nulls};
use crate::host::allocation::Allocation;
use crate::host::asm::{Asm, Hole};
use crate::host::exit_stub::{ExitStub, ExitStubId, ExitStubKind};
use crate::host::shared::{Character, SharedCode};
use crate::prices::classes::Prices;

/// Guest addresses, and the check that turns one into a host address.
mod access;
/// RCPSS, RSQRTSS and similar instructions, in lanes.
mod approximate;
/// Code after the block: exits, and rarely executed paths.
mod cold;
/// Counting guest instructions, and the entry of a block.
mod count;
/// The deferred stack pointer of a trace.
mod deferred;
/// Jumps, calls and returns.
mod flow;
/// Groups of accesses: one check, with a slot for the last accessed memory.
mod group;
/// Guarded loops: rounds of a loop that are checked and counted together.
mod guarded_loop;
/// Contents of scratch and lent registers that later accesses can reuse.
mod held;
/// One guest instruction, by its class.
mod instruction;
/// Saved flags: stored in the context while checks change them.
mod kept;
/// 16- and 32-bit code, emitted as 64-bit code.
mod legacy;
/// Instructions that compute: on registers directly, on memory through a check.
mod operands;
/// System instructions that kernels and the C library's clocks execute often.
mod system;
/// Flags and results that an instruction leaves undefined.
mod undefined;

pub use count::BlockSegment;
pub(super) use count::segments_of;
pub use flow::FoldedHistory;

use cold::{Cold, ColdKind};
use deferred::Deferred;
use guarded_loop::GuardedLoop;
use held::{Held, Lending};
use kept::Keeps;

/// The host code of a block and its metadata, ready to be placed.
pub struct Emitted {
    /// Its exit stubs.
    pub sites: Vec<ExitStub>,
    /// The beginning of each instruction's host code, and its number; ascending.
    pub host_map: Box<[(u32, u16)]>,
    /// Offset of the entry for chained jumps.
    pub entry: u32,
    /// Number of counted instructions.
    pub counted: u16,
    /// With a time model: for each counted instruction, the ticks of it and all later ones.
    pub rest: Box<[i32]>,
    /// Number of slots of group checks.
    pub slots: u32,
    /// Initial values of its jumps' cells.
    pub cells: Vec<u64>,
    /// RIPs of the accesses that share each slot.
    pub members: Box<[Box<[u64]>]>,
    /// The arithmetic flags that are dead on entry, in iced's bits.
    pub dead_flags: u32,
    /// The places of guest registers while it runs.
    pub allocation: Allocation,
}

/// The kind of code for a block.
#[derive(Clone, Copy, Debug)]
pub enum Tier<'a> {
    /// Each access is checked by itself. With the index of its run counter.
    Plain(Option<u32>),
    /// Accesses are checked in groups, with slots numbered from `first_slot` on, except those at
    /// the addresses in `scattered`.
    Hot {
        /// Its path slot, under a processor model.
        path: Option<u32>,
        /// Number of the first slot.
        first_slot: u32,
        /// Accesses that are checked by themselves.
        scattered: Scattered<'a>,
    },
}

/// The way to link a jump to another block of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// By patching the jump.
    Patched,
    /// By writing a cell through which it jumps, because other threads may be executing the code.
    /// This is the host address of the next cell.
    Cells(u64),
    /// Not linked: it goes through the jump cache.
    Cached,
}

/// Translates decoded blocks to host code, one after the other.
pub struct Emitter {
    asm: Asm,
    encoder: Encoder,
    info: InstructionInfoFactory,
    shared: SharedCode,
    links: Links,
    cells: Vec<u64>,
    cold: Vec<Cold>,
    /// A spare list, whose memory is reused.
    settled: Vec<Cold>,
    host_map: Vec<(u32, u16)>,
    mode: Mode,
    /// Page number of the block's RIP.
    page: u64,
    index: u16,
    /// True for a block of a stub that takes no time.
    free: bool,
    /// Number of instructions that the entry counts.
    counted: u16,
    /// Costs of instructions, with a time model.
    prices: Option<Prices>,
    /// True if blocks follow the guest's path, for a processor model.
    follows_path: bool,
    /// The block's path slot, if it takes time under a processor model.
    path_slot: Option<u32>,
    /// The blocks of a trace.
    segments: Vec<BlockSegment>,
    /// Jumps of the trace that are not in the history yet.
    folded: FoldedHistory,
    /// True if flags are dead after the present instruction.
    dead_after: bool,
    /// True if approximations are the host's.
    host_results: bool,
    /// The tables in which accesses are checked line by line, for a cache model.
    lines: Option<LineFilter>,
    /// See [`Emitted::rest`].
    rest: Vec<i32>,
    plan: GroupPlan,
    first_slot: u32,
    /// Contents of the scratch registers for later accesses, and the register used last.
    held: [Option<Held>; 2],
    last_held: usize,
    /// RIP and entry of a run that may jump to itself.
    itself: Option<(u64, u64)>,
    /// The places of guest registers, and the contents of lent ones.
    allocation: Allocation,
    lending: Lending,
    deferred: Deferred,
    /// The instructions over which flags are saved, and whether they are saved now.
    keeps: Keeps,
    flags_kept: bool,
    /// For each instruction, true if undefined flags must be set to zero after it.
    zeroes: Vec<bool>,
    /// The present rounds that are counted together.
    guarded_loop: Option<GuardedLoop>,
    /// Guest addresses of the run's instructions.
    rips: Vec<u64>,
    /// For each instruction, true if it is a call.
    calls: Vec<bool>,
}

impl Emitter {
    /// An emitter of blocks with this shared code.
    pub fn new(shared: SharedCode) -> Self {
        Self {
            asm: Asm::default(),
            encoder: Encoder::new(64),
            info: InstructionInfoFactory::new(),
            shared,
            links: Links::Patched,
            cells: Vec::new(),
            cold: Vec::new(),
            settled: Vec::new(),
            host_map: Vec::new(),
            mode: Mode {
                user: false,
                fpu: true,
                pace: Pace::Full,
                free_stubs: false,
                size: CodeSize::Long,
                nulls: Nulls::NONE,
                skew: 0,
                features: 0,
                relative: false,
                apart: false,
            },
            page: 0,
            index: 0,
            free: false,
            counted: 0,
            prices: None,
            follows_path: false,
            path_slot: None,
            segments: Vec::new(),
            folded: FoldedHistory::default(),
            dead_after: false,
            host_results: false,
            lines: None,
            rest: Vec::new(),
            plan: GroupPlan::default(),
            first_slot: 0,
            held: [None; 2],
            last_held: 0,
            itself: None,
            allocation: Allocation::default(),
            lending: [None; LENT],
            deferred: Deferred::default(),
            keeps: Keeps::default(),
            flags_kept: false,
            zeroes: Vec::new(),
            guarded_loop: None,
            rips: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// An emitter for code of this `character`.
    pub fn of(character: &Character, shared: SharedCode) -> Self {
        Self {
            prices: character.prices.clone(),
            follows_path: character.follows_path,
            host_results: character.host_results,
            ..Self::new(shared)
        }
    }

    /// Makes accesses check line by line, for a cache model.
    pub fn check_lines(&mut self, filter: LineFilter) {
        self.lines = Some(filter);
    }

    /// Sets the way to link jumps.
    pub fn link_by(&mut self, links: Links) {
        self.links = links;
    }

    /// The code of the last emitted block.
    pub fn code(&self) -> &[u8] {
        self.asm.code()
    }

    /// Emits `block` for host address `base`; its exit stubs get ids from `first_site` on and
    /// belong to block `id`.
    pub fn emit(
        &mut self,
        block: &GuestBlock,
        mode: Mode,
        free: bool,
        tier: Tier<'_>,
        base: u64,
        (id, first_site): (u32, ExitStubId),
    ) -> Emitted {
        let run = &block.instructions;
        let flags = dead_flags(run, self.host_results);
        let dead: Vec<bool> = flags.dead.iter().map(|&flags| are_all(flags)).collect();
        self.zeroes = flags.zeroes;
        self.begin(block, mode, free, base);
        if !mode.relative {
            self.verify_target(block.rip);
        }
        let entry = self.asm.offset();
        if !mode.apart && run.iter().any(|guest| touches_x87(&guest.instruction)) {
            self.asm.store_imm32(at::X87_USED, 1);
        }
        match tier {
            Tier::Plain(heat) => {
                self.plan_keeping(run, &dead);
                self.keep_over(0);
                if self.follows_path {
                    self.check_path(heat, dead[0], self.asm.address_of(entry));
                }
                // With caches, exits for misses would cost more in hot code than it saves.
                let counts = mode.pace == Pace::Full && self.lines.is_none();
                if let Some(heat) = heat.filter(|_| counts) {
                    self.count_run(heat, dead[0]);
                }
            }
            Tier::Hot {
                path,
                first_slot,
                scattered,
            } => {
                self.segments.extend(segments_of(block));
                self.plan_checks(run, &dead, scattered);
                self.first_slot = first_slot;
                self.allocation.lent = self.lend(block);
                self.allocate();
                let again = self.asm.here();
                self.itself = Some((block.rip, again));
                if self.follows_path {
                    self.check_path(path, dead[0], again);
                }
                if let Some(rounds) = self.plan_guarded_loop(block, dead[0]) {
                    let failed = self.begin_guarded_loop(rounds);
                    self.body(block, &dead);
                    self.end_guarded_loop(failed);
                }
                if self.keeps.checks && !self.flags_kept {
                    self.keep_flags();
                }
            }
        }
        self.count(run.len() as i32, free, dead[0] || self.flags_kept);
        self.body(block, &dead);
        let counted = self.counted;
        let sites = self.emit_cold(id, first_site);
        Emitted {
            sites,
            host_map: self.host_map.as_slice().into(),
            entry,
            counted,
            rest: self.rest.as_slice().into(),
            slots: self.plan.groups.len() as u32,
            cells: std::mem::take(&mut self.cells),
            members: self.members(),
            dead_flags: flags.dead[0],
            allocation: self.allocation,
        }
    }

    /// Emits the block's instructions, and the continuation after the last. `dead` is true for
    /// instructions before which the flags may be clobbered.
    fn body(&mut self, block: &GuestBlock, dead: &[bool]) {
        for (index, guest) in block.instructions.iter().enumerate() {
            self.index = index as u16;
            let behind = if index + 1 < dead.len() { index + 1 } else { 0 };
            self.dead_after = dead[behind] && (behind > 0 || block.loops);
            self.host_map.push((self.asm.offset(), self.index));
            for group in 0..self.plan.groups.len() {
                if self.plan.groups[group].at == index && !self.covered(group) {
                    self.catch_up();
                    self.check(group);
                }
            }
            self.keep_over(index);
            self.begin_deferred(guest);
            let zeroes = self.zeroes[index];
            if zeroes {
                self.keep_count(&guest.instruction);
            }
            if self.host_results || !self.undefined_result(&guest.instruction) {
                self.instruction(guest, dead[index] || self.flags_kept);
            }
            if !self.host_results {
                self.clear_upper_half(&guest.instruction);
            }
            if zeroes {
                self.zero_undefined(&guest.instruction);
            }
        }
        if block
            .instructions
            .last()
            .is_none_or(|last| last.falls_off())
        {
            self.jump_to_guest(block.end);
        }
    }

    /// True if group `group` was checked for all the rounds that are counted together.
    fn covered(&self, group: usize) -> bool {
        let rounds = self.guarded_loop.as_ref();
        rounds.is_some_and(|rounds| rounds.covers(group))
    }

    /// The group whose slot was checked on behalf of `group`, or `group` itself.
    fn lead(&self, group: usize) -> usize {
        let rounds = self.guarded_loop.as_ref();
        rounds.map_or(group, |rounds| rounds.lead(group))
    }

    fn begin(&mut self, block: &GuestBlock, mode: Mode, free: bool, base: u64) {
        self.asm.restart(base);
        self.cold.clear();
        self.host_map.clear();
        self.mode = mode;
        self.page = block.rip.wrapping_add(u64::from(mode.skew)) >> 12;
        self.index = 0;
        let length = block.instructions.len() as u16;
        self.free = free;
        self.counted = if free { 0 } else { length };
        self.add_up(block);
        self.plan = GroupPlan::default();
        self.path_slot = None;
        self.segments.clear();
        self.folded = FoldedHistory::default();
        self.held = [None; 2];
        self.itself = None;
        self.allocation = Allocation {
            renamed: block.renamed,
            ..Allocation::default()
        };
        self.lending = [None; LENT];
        self.deferred = Deferred::default();
        self.keeps.clear();
        self.flags_kept = false;
        self.guarded_loop = None;
        let rips = block
            .instructions
            .iter()
            .map(|guest| guest.instruction.ip());
        self.rips.clear();
        self.rips.extend(rips);
        let calls = block.instructions.iter().map(|guest| {
            matches!(
                guest.class,
                InstructionClass::Call | InstructionClass::CallIndirect
            )
        });
        self.calls.clear();
        self.calls.extend(calls);
    }

    /// Fills `rest` for the block's counted instructions.
    fn add_up(&mut self, block: &GuestBlock) {
        self.rest.clear();
        let Some(prices) = self.prices.as_ref().filter(|_| self.counted > 0) else {
            return;
        };
        let mut sum = 0;
        for guest in block.instructions.iter().rev() {
            sum += prices.of(&guest.instruction, &mut self.info) as i32;
            self.rest.push(sum);
        }
        self.rest.reverse();
    }

    fn leave_from(&mut self, hole: Hole, kind: ExitStubKind, restore: bool) {
        self.put_off(hole, ColdKind::Leave { kind, restore });
    }
}

/// The low nibble of JS.
const CONDITION_SIGN: u8 = 8;
