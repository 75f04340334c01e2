//! The part of a vCPU that translated code touches, at fixed offsets from the
//! host's GS base.
//!
//! There is one per vCPU. Translated code knows it by the offsets in `at`, so what stands where is
//! fixed when the program is compiled; beyond it and guest memory translated code touches nothing.
//! Host code may use it freely while no translated code runs.

use belljar_cpu::{CpuError, PAGE_SIZE};

use crate::architecture::flag;
use crate::context::explored::Explored;
use crate::context::jumps::{FIRST_MASK, Jumps, SECOND_MASK};
use crate::defined::lanes::{Own, Shared};
use crate::defined::reciprocal::Approximation;
use crate::prices::timing::LINE_BYTES;

/// Offsets from the GS base, as translated code encodes them.
pub mod at;
/// Linear addresses found to lie in one piece of the host's memory.
pub mod explored;
/// The jump caches.
pub mod jumps;
/// The memory that a context stands in.
mod memory;
/// Slots of group checks.
mod slots;
/// The software TLB.
mod tlb;

pub use memory::ContextMemory;
pub use slots::{SLOT_CLUSTER, Slot, Slots};
pub use tlb::{TLB_ENTRIES, Tlb, tlb_index};

/// Registers that may be lent at a time.
pub const LENT: usize = 4;
/// Lines of a page.
pub const LINE_ENTRIES: usize = (PAGE_SIZE / LINE_BYTES) as usize;
/// Bytes of the buffer through which an access goes that has no host page:
/// page crossings, device registers, pages that hold translated code. Data stands
/// there at its own offset modulo 64, so that alignment faults stay what they are.
pub(crate) const BOUNCE_BYTES: usize = 128;

/// Stub instructions that a magic call may take before they count after all.
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

/// `exit_site` of an indirect jump whose target is in R14 and not in the jump cache.
pub const EXIT_LOOKUP: u32 = u32::MAX;
/// `exit_site` after a host signal in translated code; see `fault_pc`.
pub const EXIT_SIGNAL: u32 = u32::MAX - 1;

/// Checks of whole groups of accesses that remember where they last led: a pool's, then a
/// node's own, which has only these where there is no pool.
pub const POOL_SLOTS: usize = 49152;
/// The node's own.
pub const OWN_SLOTS: usize = 16384;
/// Both together.
pub const SLOTS: usize = POOL_SLOTS + OWN_SLOTS;
/// Blocks whose runs can be counted, likewise.
pub const POOL_HEATS: usize = 3 << 17;
/// The node's own.
pub const OWN_HEATS: usize = 1 << 18;
const HEATS: usize = POOL_HEATS + OWN_HEATS;
/// Longest run of instructions that is counted in one step.
pub const STEPS: usize = 512;
/// Runs after which a block is hot.
pub const HOT_RUNS: i32 = 600;
/// More than the bytes that a group of accesses covers, by which a slot's limit falls
/// short of its range.
const LONGEST_SPAN: u64 = 1 << 16;
/// Times that a slot may be filled before it is asked whether it is worth it.
pub const SLOT_FILLS: i32 = 1024;

/// Cache lines that may be accessed without a look at the caches, each at the index that
/// its place in a page has.
#[repr(C)]
pub struct Lines {
    /// Linear address of the line, or one that can never match.
    pub tag: [u64; LINE_ENTRIES],
    /// Its host address.
    pub host: [u64; LINE_ENTRIES],
}

/// One privilege level's view of memory and code.
#[repr(C)]
pub struct View {
    /// What may be read, and what may be written.
    pub tlb: [Tlb; 2],
    /// Where code leads.
    pub jumps: Jumps,
    /// What hangs together of what may be read, and of what may be written.
    pub explored: [Explored; 2],
}

/// The bounce buffer, aligned as the largest operand.
#[repr(C, align(64))]
pub struct Bounce(pub [u8; BOUNCE_BYTES]);

/// A vector register, as wide as any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Vector(pub [u8; 64]);

/// Everything translated code reads or writes besides guest memory.
#[repr(C, align(64))]
pub struct Context {
    /// General registers. R14 and R15 live here even while code runs: the host's
    /// R14 and R15 are the translator's scratch registers.
    pub gpr: [u64; 16],
    /// Host R14 and R15 as they were at the exit, and as entry loads them.
    pub scratch: [u64; 2],
    /// Arithmetic flags at the exit, and as entry loads them.
    pub flags: u64,
    /// Guest instructions left until the run must stop. Translated code may keep them
    /// in a register; see [`Counter`](crate::host::shared::Counter).
    pub count: i64,
    /// Linear address of the page that runs, where code is relative to that.
    pub code_page: u64,
    /// Instructions of rounds to come that were taken off the budget before they run.
    pub ahead: u64,
    /// Instructions retired in this run, where a time model counts them apart from
    /// ticks. Translated code may keep them along with `count`.
    pub retired: i64,
    /// IF, as RFLAGS has it.
    pub interrupt_flag: u64,
    /// Not zero when the caller waits for IF to be set.
    pub window_wanted: u64,
    /// What PUSHF stores besides IF and the arithmetic flags.
    pub pushed_flags: u64,
    /// Mask of the arithmetic flags, for PEXT and PDEP.
    pub arithmetic_mask: u64,
    /// Uncounted stub instructions left until they count after all.
    pub free: i64,
    /// Where a sequence keeps RCX, or another register, while it borrows it.
    pub borrowed: u64,
    /// A loaded value on its way to a second memory access.
    pub carried: u64,
    /// AH as LAHF leaves it and OF in AL, while a trace checks what it will access.
    pub kept_flags: u64,
    /// RCX before a shift by CL.
    pub shift_count: u64,
    /// Guest registers whose host registers hold something else; see [`Allocation`].
    ///
    /// [`Allocation`]: crate::host::allocation::Allocation
    pub lent: [u64; LENT],
    /// Mask of the page-number bits that index the TLB, for PEXT.
    pub tlb_mask: u64,
    /// Mask of the bits above a page offset, for PEXT.
    pub page_mask: u64,
    /// Masks of what indexes the jump caches, for PEXT.
    pub jump_masks: [u64; 2],
    /// The sign bit, for PEXT.
    pub sign_mask: u64,
    /// Base of FS.
    pub fs_base: u64,
    /// Base of GS.
    pub gs_base: u64,
    /// What SWAPGS exchanges it for.
    pub kernel_gs_base: u64,
    /// The time-stamp counter when the count of instructions left is zero.
    pub tsc_at_zero: u64,
    /// Not zero when the counter is not that less the count.
    pub tsc_hidden: u64,
    /// What RDTSCP tells besides the counter.
    pub tsc_aux: u64,
    /// Not zero when SYSCALL and SYSRET are left to the dispatcher.
    pub crossing_closed: u64,
    /// Which of the two was carried out last and is not yet known outside.
    pub crossed: u64,
    /// Where SYSCALL leads.
    pub system_entry: u64,
    /// Masks for PEXT, this and the next three: IF.
    pub interrupt_mask: u64,
    /// System flags that SYSRET seldom sets.
    pub seldom_mask: u64,
    /// Address bits that no user's has.
    pub above_users_mask: u64,
    /// DF.
    pub direction_mask: u64,
    /// Masks of what of a bit offset leads beyond its operand of 16, 32 or 64 bits, for PEXT.
    pub beyond_bits: [u64; 3],
    /// Bases of ES, CS, SS and DS, where they may not be zero.
    pub segment_bases: [u64; 4],
    /// Which exit stub left translated code: an index, or one of the `EXIT_` values.
    pub exit_site: u32,
    /// Host MXCSR while guest code runs.
    pub host_mxcsr: u32,
    /// Guest MXCSR while host code runs.
    pub guest_mxcsr: u32,
    /// x86 trap number of the host signal.
    pub fault_trap: u32,
    /// Host program counter of the host signal.
    pub fault_pc: u64,
    /// Where entry jumps to.
    pub target: u64,
    /// Where translated code continues from there.
    pub resume: u64,
    /// Host address of the code that leaves translated code, once the budget is in the context.
    pub leave: u64,
    /// Host address of what comes before that: it itself, or code that puts the budget from MM7
    /// into the context.
    pub settle: u64,
    /// Host stack pointer while guest code runs.
    pub host_rsp: u64,
    /// Not zero once this run came to code that may change the state of the x87.
    pub x87_used: u64,
    /// The vector registers while host code runs, as wide and as many as the guest
    /// has. The rest is zero.
    pub vectors: [Vector; 32],
    /// Vector registers that an approximation lends itself.
    pub lent_vectors: [Vector; 4],
    /// What approximations are computed with: what all have in common.
    pub lanes: Shared,
    /// Those of reciprocals, and of reciprocal roots.
    pub curves: [Own; 2],
    /// K0 to K7 while host code runs, where the guest has them.
    pub masks: [u64; 8],
    /// The numbers from minus to plus [`STEPS`], to be added to a counter.
    pub steps: [i64; 2 * STEPS + 1],
    /// See [`BOUNCE_BYTES`].
    pub bounce: Bounce,
    /// Supervisor, then user.
    pub views: [View; 2],
    /// See [`Slot`].
    pub slots: Slots,
    /// Runs left until a block is hot.
    pub heat: [i32; HEATS],
    /// Mask of the address bits that index `lines`, for PEXT.
    pub line_mask: u64,
    /// Mask of the bits above an offset in a line, for PEXT.
    pub above_line_mask: u64,
    /// Supervisor, then user; what may be read, then what may be written.
    pub lines: [[Lines; 2]; 2],
    /// Host addresses of translated code: where each part begins and ends.
    pub code: [[u64; 2]; 2],
    /// Host address of the code that every visit ends with, which leads to `leave`.
    pub way_out: u64,
}

impl View {
    /// Forgets every translation.
    pub fn flush_tlb(&mut self) {
        self.tlb.iter_mut().for_each(Tlb::flush);
        self.explored.iter_mut().for_each(Explored::forget);
    }

    /// Forgets translations of the lower half of the address space.
    pub fn flush_below(&mut self) {
        self.tlb.iter_mut().for_each(Tlb::flush_below);
        self.explored.iter_mut().for_each(Explored::forget_below);
    }

    /// Forgets the translations of a page that nothing else is cached of.
    #[inline]
    pub fn forget_translation(&mut self, page: u64) {
        for tlb in &mut self.tlb {
            tlb.flush_page(page);
        }
    }

    /// Forgets the page that holds `linear`.
    #[inline]
    pub fn flush_page(&mut self, linear: u64) {
        for (tlb, explored) in self.tlb.iter_mut().zip(&mut self.explored) {
            tlb.flush_page(linear);
            tlb.forget_ranges_around(linear);
            explored.forget_around(linear);
        }
    }

    /// Forgets what hangs together.
    pub fn forget_ranges(&mut self) {
        for way in 0..2 {
            self.tlb[way].forget_ranges();
            self.explored[way].forget();
        }
    }

    /// Forgets writable translations of the host page at `page`.
    #[inline]
    pub fn forbid_writes_to(&mut self, page: u64) {
        let tlb = &mut self.tlb[1];
        tlb.forget_host(page);
        tlb.forget_ranges_over(page);
        self.explored[1].forget_over(page);
    }
}

impl Lines {
    /// Forgets the line with this index. The tag is two lines off, so that an access which
    /// runs into the next line cannot match either.
    #[inline]
    pub fn forget(&mut self, index: usize) {
        self.tag[index] = (index ^ 2) as u64 * LINE_BYTES;
    }

    /// Forgets every line.
    pub fn flush(&mut self) {
        (0..LINE_ENTRIES).for_each(|index| self.forget(index));
    }
}

impl Context {
    /// A context with its masks set and its caches empty, the rest zeros.
    ///
    /// # Errors
    /// When the host has no address space left.
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
        context.line_mask = (LINE_ENTRIES as u64 - 1) * LINE_BYTES;
        context.above_line_mask = !(LINE_BYTES - 1);
        context.lines.iter_mut().flatten().for_each(Lines::flush);
        context.lanes = Shared::new();
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
    /// Whether that is the host address of translated code.
    #[inline]
    pub fn is_translated(&self, pc: u64) -> bool {
        self.code
            .iter()
            .any(|&[start, end]| pc >= start && pc < end)
    }
}

/// The index among [`Lines`] for an address.
#[inline]
pub fn line_index(address: u64) -> usize {
    (address / LINE_BYTES) as usize % LINE_ENTRIES
}
