//! The part of a vCPU that translated code accesses, at fixed offsets from the host's GS base.
//!
//! There is one per vCPU. Translated code addresses its fields by the offsets in `at`, which are
//! fixed when this program is compiled. Besides it, translated code only accesses guest memory.
//! Host code may use it freely while no translated code runs.

use belljar_cpu::CpuError;

use crate::architecture::flag;
use crate::context::explored::Explored;
use crate::context::jumps::{FIRST_MASK, Jumps, SECOND_MASK};
use crate::context::path::{
    COUNTERS, HISTORY_BITS, HISTORY_JUMPS, PATH_ENTRIES, PathEntry, PathSlot, Predictor, RETURNS,
    TARGETS, TRACE_SEGMENTS, TraceSegment,
};
use crate::defined::lanes::{Own, SharedOperands};
use crate::defined::reciprocal::Approximation;
use crate::prices::timing::LINE_BYTES;

/// Offsets from the GS base, as encoded in translated code.
pub mod at;
/// Linear addresses known to be contiguous in host memory.
pub mod explored;
/// The jump caches.
pub mod jumps;
/// Tables of cache lines.
mod lines;
/// The memory that holds a context.
mod memory;
/// The guest's path, under a processor model.
pub mod path;
/// Slots of group checks.
mod slots;
/// The software TLB.
mod tlb;

pub use lines::{LineFilter, Lines, NarrowLines, WideLines};
pub use memory::ContextMemory;
pub use slots::{SLOT_CLUSTER, Slot, Slots};
pub use tlb::{TLB_ENTRIES, Tlb, tlb_index};

/// The largest number of lent registers.
pub const LENT: usize = 4;
/// Size of the buffer for accesses without a host page: page crossings, device registers, pages
/// that contain translated code. Data lies in it at its own offset modulo 64, so that alignment
/// faults are preserved.
pub(crate) const BOUNCE_BYTES: usize = 128;

/// Number of uncounted stub instructions in a magic call before further ones are counted.
pub const FREE_INSTRUCTIONS: i64 = 4096;

/// The arithmetic flags: CF, PF, AF, ZF, SF, OF.
pub const ARITHMETIC: u64 = 0x8d5;

/// Bits of a linear address in the lower half of the address space.
const USER_BITS: u32 = 47;

/// Values of `crossed`, this and the next two: neither.
pub const NOT_CROSSED: u64 = 0;
/// SYSCALL.
pub const ENTERED_KERNEL: u64 = 1;
pub(crate) const LEFT_KERNEL: u64 = 2;

/// `exit_site` of an indirect jump whose target is in R14 and missing in the jump cache.
pub const EXIT_LOOKUP: u32 = u32::MAX;
/// `exit_site` after a host signal in translated code; see `fault_pc`.
pub const EXIT_SIGNAL: u32 = u32::MAX - 1;

/// Slots of group checks, which remember the last accessed memory: the pool's slots come first,
/// then the node's own. Without a pool there are only the latter.
pub const POOL_SLOTS: usize = 49152;
/// The node's own slots.
pub const OWN_SLOTS: usize = 16384;
/// All slots.
pub const SLOTS: usize = POOL_SLOTS + OWN_SLOTS;
/// Blocks with a run counter in the pool.
pub const POOL_HEATS: usize = 3 << 17;
/// Blocks with a run counter of the node.
pub const OWN_HEATS: usize = 1 << 18;
const HEATS: usize = POOL_HEATS + OWN_HEATS;
/// The path slot of an instruction that runs by itself; blocks have those of their run counters.
pub const PIECE_SLOT: u32 = HEATS as u32;
/// Longest run of instructions that is counted in a single step.
pub const STEPS: usize = 512;
/// Number of runs after which a block is hot.
pub const HOT_RUNS: i32 = 600;
/// A bound above the bytes covered by a group of accesses, by which a slot's limit is smaller than
/// its range.
const LONGEST_SPAN: u64 = 1 << 16;
/// Number of fills of a slot before its usefulness is checked.
pub const SLOT_FILLS: i32 = 1024;

/// One privilege level's view of memory and code.
#[repr(C)]
pub struct PrivilegeView {
    /// Readable pages, and writable pages.
    pub tlb: [Tlb; 2],
    /// Jump targets.
    pub jumps: Jumps,
    /// Ranges of contiguous readable memory, and of writable memory.
    pub explored: [Explored; 2],
}

/// The bounce buffer, with the largest operand's alignment.
#[repr(C, align(64))]
pub struct Bounce(pub [u8; BOUNCE_BYTES]);

/// A vector register of the largest width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Vector(pub [u8; 64]);

/// All memory that translated code accesses besides guest memory.
#[repr(C, align(64))]
pub struct Context {
    /// General registers. R14 and R15 are always here: the host's R14 and R15 are the translator's
    /// scratch registers.
    pub gpr: [u64; 16],
    /// Host R14 and R15: saved at the exit, loaded at the entry.
    pub scratch: [u64; 2],
    /// Arithmetic flags: saved at the exit, loaded at the entry.
    pub flags: u64,
    /// Guest instructions left until the run must stop. Translated code may hold it in a register;
    /// see [`Counter`](crate::host::shared::Counter).
    pub count: i64,
    /// Linear address of the running page, for relative code.
    pub code_page: u64,
    /// Instructions of future loop rounds that are already subtracted from the budget.
    pub ahead: u64,
    /// Instructions retired in this run, if a time model counts them apart from ticks. Translated
    /// code may hold it in a register along with `count`.
    pub retired: i64,
    /// IF, in RFLAGS's position.
    pub interrupt_flag: u64,
    /// Nonzero while the caller waits for IF to be set.
    pub window_wanted: u64,
    /// The other flags that PUSHF stores, besides IF and the arithmetic flags.
    pub pushed_flags: u64,
    /// Mask of the arithmetic flags, for PEXT and PDEP.
    pub arithmetic_mask: u64,
    /// Uncounted stub instructions left before further ones are counted.
    pub free: i64,
    /// Save slot for RCX or another register that a code sequence borrows.
    pub borrowed: u64,
    /// A loaded value that a second memory access will use.
    pub carried: u64,
    /// Flags saved during a trace's checks of its accesses: AH from LAHF, and OF in AL.
    pub kept_flags: u64,
    /// RCX before a shift by CL.
    pub shift_count: u64,
    /// Guest registers whose host registers are lent; see [`Allocation`].
    ///
    /// [`Allocation`]: crate::host::allocation::Allocation
    pub lent: [u64; LENT],
    /// Mask of the page-number bits that index the TLB, for PEXT.
    pub tlb_mask: u64,
    /// Mask of the bits above a page offset, for PEXT.
    pub page_mask: u64,
    /// Masks of the index bits of the jump caches, for PEXT.
    pub jump_masks: [u64; 2],
    /// The sign bit, for PEXT.
    pub sign_mask: u64,
    /// Base of FS.
    pub fs_base: u64,
    /// Base of GS.
    pub gs_base: u64,
    /// The base that SWAPGS exchanges it with.
    pub kernel_gs_base: u64,
    /// The time-stamp counter at the point where the count of instructions left is zero.
    pub tsc_at_zero: u64,
    /// Nonzero if the counter is not simply the difference of that and the count.
    pub tsc_hidden: u64,
    /// The second result of RDTSCP.
    pub tsc_aux: u64,
    /// Nonzero if SYSCALL and SYSRET are left to the dispatcher.
    pub crossing_closed: u64,
    /// The last executed one of SYSCALL and SYSRET, until the dispatcher handles it.
    pub crossed: u64,
    /// The target of SYSCALL.
    pub system_entry: u64,
    /// Masks for PEXT, this and the next three: IF.
    pub interrupt_mask: u64,
    /// System flags that SYSRET seldom sets.
    pub seldom_mask: u64,
    /// Address bits that no user address has.
    pub above_users_mask: u64,
    /// DF.
    pub direction_mask: u64,
    /// Masks of the bits of a bit offset beyond its operand of 16, 32 or 64 bits, for PEXT.
    pub beyond_bits: [u64; 3],
    /// Bases of ES, CS, SS and DS, in modes in which they may be nonzero.
    pub segment_bases: [u64; 4],
    /// The exit stub that left translated code: an index, or one of the `EXIT_` values.
    pub exit_site: u32,
    /// Host MXCSR while guest code runs.
    pub host_mxcsr: u32,
    /// Guest MXCSR while host code runs.
    pub guest_mxcsr: u32,
    /// x86 trap number of the host signal.
    pub fault_trap: u32,
    /// Host program counter of the host signal.
    pub fault_pc: u64,
    /// Jump target of the entry code.
    pub target: u64,
    /// Address at which translated code continues after that.
    pub resume: u64,
    /// Host address of the code that leaves translated code, with the budget already in the
    /// context.
    pub leave: u64,
    /// Host address of the preceding code: the same code, or code that stores the budget from MM7
    /// in the context.
    pub settle: u64,
    /// Host stack pointer while guest code runs.
    pub host_rsp: u64,
    /// Nonzero after this run reached code that may change the x87 state.
    pub x87_used: u64,
    /// The vector registers while host code runs, with the guest's width and number; the others are
    /// zero.
    pub vectors: [Vector; 32],
    /// Vector registers lent to an approximation.
    pub lent_vectors: [Vector; 4],
    /// Common constants of approximations.
    pub lanes: SharedOperands,
    /// Constants of reciprocals, and of reciprocal square roots.
    pub curves: [Own; 2],
    /// K0 to K7 while host code runs, if the guest has them.
    pub masks: [u64; 8],
    /// The numbers from minus to plus [`STEPS`], as addends for a counter.
    pub steps: [i64; 2 * STEPS + 1],
    /// See [`BOUNCE_BYTES`].
    pub bounce: Bounce,
    /// For the supervisor, then for users.
    pub views: [PrivilegeView; 2],
    /// See [`Slot`].
    pub slots: Slots,
    /// Number of runs left until a block is hot.
    pub heat: [i32; HEATS],
    /// Mask of the address bits that index `lines`, for PEXT.
    pub line_mask: u64,
    /// Mask of the bits above an offset in a line, for PEXT.
    pub above_line_mask: u64,
    /// For the supervisor, then for users; readable lines, then writable ones.
    pub lines: [[NarrowLines; 2]; 2],
    /// Beginning and end of each part of translated code, as host addresses.
    pub code: [[u64; 2]; 2],
    /// Host address of the code that ends every visit and jumps to `leave`.
    pub way_out: u64,
    /// Address at which a jump continues after the update of its counters; RAX, the counter's index and the history at
    /// the trace's head meanwhile.
    pub train: [u64; 4],
    /// The present context of a processor model.
    pub path: u64,
    /// Masks of the indices of the predictor's tables, for PEXT.
    pub path_masks: [u64; 3],
    /// Masks without as many of the lowest bits, for PDEP.
    pub history_masks: [u64; HISTORY_BITS],
    /// The same below the highest bit by which counters are selected.
    pub counter_masks: [u64; HISTORY_JUMPS],
    /// Branch predictors of a processor model.
    pub predictor: Predictor,
    /// By the number of a block's run counter; the last one is [`PIECE_SLOT`].
    pub path_slots: [PathSlot; HEATS + 1],
    /// Contents of slots that blocks were entered with, by context and slot.
    pub path_entries: [PathEntry; PATH_ENTRIES],
    /// The blocks of traces, by the slots that were filled for them.
    pub trace_segments: [TraceSegment; TRACE_SEGMENTS],
    /// Number of mispredicted jumps.
    pub mispredictions: u64,
    /// As `lines`, under a processor model with caches.
    pub wide_lines: [[WideLines; 2]; 2],
}

impl PrivilegeView {
    /// Discards every translation.
    pub fn flush_tlb(&mut self) {
        self.tlb.iter_mut().for_each(Tlb::flush);
        self.explored.iter_mut().for_each(Explored::forget);
    }

    /// Discards translations of the lower half of the address space.
    pub fn flush_below(&mut self) {
        self.tlb.iter_mut().for_each(Tlb::flush_below);
        self.explored.iter_mut().for_each(Explored::forget_below);
    }

    /// Discards the translations of a page without other cached information.
    #[inline]
    pub fn forget_translation(&mut self, page: u64) {
        for tlb in &mut self.tlb {
            tlb.flush_page(page);
        }
    }

    /// Discards all cached information on the page that contains `linear`.
    #[inline]
    pub fn flush_page(&mut self, linear: u64) {
        for (tlb, explored) in self.tlb.iter_mut().zip(&mut self.explored) {
            tlb.flush_page(linear);
            tlb.forget_ranges_around(linear);
            explored.forget_around(linear);
        }
    }

    /// Discards contiguous ranges.
    pub fn forget_ranges(&mut self) {
        for way in 0..2 {
            self.tlb[way].forget_ranges();
            self.explored[way].forget();
        }
    }

    /// Discards writable translations of the host page at `page`.
    #[inline]
    pub fn forbid_writes_to(&mut self, page: u64) {
        let tlb = &mut self.tlb[1];
        tlb.forget_host(page);
        tlb.forget_ranges_over(page);
        self.explored[1].forget_over(page);
    }
}

impl Context {
    /// A context with initialised masks, empty caches, and zeros otherwise.
    ///
    /// # Errors
    /// If the host has no address space left.
    pub fn mapped() -> Result<ContextMemory, CpuError> {
        let mut context = ContextMemory::zeroed()?;
        context.tlb_mask = ((TLB_ENTRIES - 1) as u64) << 12;
        context.page_mask = !0xfff;
        context.jump_masks = [FIRST_MASK, SECOND_MASK];
        context.sign_mask = 1 << 63;
        context.arithmetic_mask = ARITHMETIC;
        context.interrupt_mask = flag::IF;
        context.seldom_mask = flag::SYSTEM & !flag::IF;
        context.above_users_mask = !0 << USER_BITS;
        context.direction_mask = flag::DF;
        context.beyond_bits = [0xfff0, 0xffff_ffe0, !63];
        context.filter_lines(LineFilter::Narrow);
        context.above_line_mask = !(LINE_BYTES - 1);
        context.path_masks = [COUNTERS / 2, TARGETS, RETURNS].map(|entries| entries as u64 - 1);
        for (bits, mask) in context.history_masks.iter_mut().enumerate() {
            *mask = !0 << bits;
        }
        for (bits, mask) in context.counter_masks.iter_mut().enumerate() {
            *mask = !0 << bits & (COUNTERS / 2 - 1) as u64;
        }
        context.lines.iter_mut().flatten().for_each(Lines::flush);
        context
            .wide_lines
            .iter_mut()
            .flatten()
            .for_each(Lines::begin);
        context.lanes = SharedOperands::new();
        context.curves = [Approximation::Reciprocal, Approximation::ReciprocalRoot].map(Own::new);
        for (index, step) in context.steps.iter_mut().enumerate() {
            *step = index as i64 - STEPS as i64;
        }
        context.guest_mxcsr = 0x1f80;
        let views = &mut context.views;
        let tlbs = views.iter_mut().flat_map(|view| &mut view.tlb);
        tlbs.for_each(Tlb::begin);
        Ok(context)
    }
}

impl Context {
    /// Sets the tables in which code checks lines.
    pub fn filter_lines(&mut self, filter: LineFilter) {
        self.line_mask = (filter.entries() as u64 - 1) * LINE_BYTES;
    }

    /// True if `pc` is a host address of translated code.
    #[inline]
    pub fn is_translated(&self, pc: u64) -> bool {
        self.code
            .iter()
            .any(|&[start, end]| pc >= start && pc < end)
    }
}
