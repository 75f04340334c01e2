//! The vCPU engine trait, its exits, registers and guest memory.
//!
//! Code above an engine uses it through [`Vcpu`]: run until a virtual cycle, handle the exit, answer it, run on. Exits
//! are plain values; an engine never calls upward.
//!
//! Most files are independent of each other. `memory` has RAM with its `watch` and the pages of `beside`; `saved` and
//! `state` use `registers`.

use std::sync::Arc;

use belljar_sim::Seed;

/// Accounts of a processor's time.
mod account;
/// Pages of guest RAM with a second host address.
mod beside;
/// The answers of CPUID.
mod cpuid;
/// Reasons for a vCPU's return to its caller.
mod exit;
/// Instruction sets of a guest's processor.
mod isa;
/// Guest physical memory.
mod memory;
/// Probes: addresses in guest programs at which the host inspects the guest.
mod probes;
/// Architectural registers as plain values.
mod registers;
/// Engines' reports of a run.
mod report;
/// A processor's whole state, which every engine can load.
mod saved;
/// Architectural state as a list of named values, for comparison.
mod state;
/// Watching guest pages that hold translated code.
mod watch;
/// Watchpoints: ranges of memory whose accesses end runs.
mod watchpoint;
/// The layout of an XSAVE area.
mod xstate;

pub use account::{PathUse, SHARED_PATHS, TimeAccount};
pub use beside::BesidePages;
pub use cpuid::{CpuidEntry, CpuidTable};
pub use exit::{Exit, ShutdownCause};
pub use isa::{CpuidBit, CpuidRegister, Feature, InstructionSet, IsaError, Level};
pub use memory::{GuestRam, PAGE_SIZE, guest_ram, guest_ram_over, prefer_huge_pages, ram_ranges};
pub use probes::{MOST_RETURNS, Probed, ProbedPage, Probes};
pub use registers::{DescriptorTable, Registers, Segment, SegmentRegister, SystemRegisters};
pub use report::{EngineReport, Unimplemented};
pub use saved::CpuState;
pub use state::{StateItem, register_items};
pub use watch::{CodeWatch, CodeWatchSlice};
pub use watchpoint::buffers::{BufferAccess, BufferRanges, WatchedBuffer, WatchedBuffers};
pub use watchpoint::{WatchKind, Watchpoint};
pub use xstate::{
    COMPONENT_AVX, COMPONENT_HIGH_ZMM, COMPONENT_OPMASK, COMPONENT_ZMM_HIGH, STATE_COMPONENTS,
    StateComponent, XSAVE_BYTES, XSAVE_HEADER_END, compacted_size, standard_size,
};

/// A count of virtual processor cycles since the node's reset: the value of `RDTSC` if the guest never wrote its TSC.
pub type Cycles = u64;

/// Errors of an engine. The guest cannot cause them: a guest's errors are exceptions inside the guest, or
/// [`Exit::Shutdown`].
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// The host refused a necessary resource.
    #[error("the vCPU engine could not {action}: {source}")]
    Host {
        /// The failed operation, as an infinitive.
        action: &'static str,
        /// The host's own reason.
        source: std::io::Error,
    },
    /// The host's processor lacks an instruction-set extension that translated code uses.
    #[error(
        "this host's processor has no {0}, which the exact engine needs; run on a processor of 2015 or newer"
    )]
    HostFeature(&'static str),
    /// The host's processor lacks instructions of the guest's instruction set.
    #[error(
        "this host's processor has no {missing}, which a guest of {set} needs; set a lower nodes.level, fewer nodes.extensions, or run on another host"
    )]
    HostLevel {
        /// The guest's instruction set.
        set: String,
        /// Names of the missing features.
        missing: String,
    },
    /// The host lacks a facility that this engine requires; the text says which, and how to enable it.
    #[error("the vCPU engine cannot work here: {0}")]
    Unusable(String),
    /// State that this processor cannot load.
    #[error("a processor's saved state is not usable: {0}")]
    State(String),
    /// The engine violated an invariant of its own: a defect of the engine.
    #[error("the vCPU engine broke an invariant: {0}; please report it with the scenario")]
    Internal(String),
}

/// The kind of access for which a linear address is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Data read.
    Read,
    /// Data write.
    Write,
    /// Instruction fetch.
    Fetch,
}

/// One virtual processor.
///
/// The life of a vCPU: [`set_registers`](Vcpu::set_registers) and [`set_system`](Vcpu::set_system) once, then
/// [`run`](Vcpu::run) again and again; after an exit that needs an answer (`PioRead`, `MmioRead`, `MsrRead`) call
/// exactly one of [`complete_read`](Vcpu::complete_read) and [`refuse_msr`](Vcpu::refuse_msr) before the next `run`.
///
/// ```
/// use belljar_cpu::{CpuError, Cycles, Exit, Vcpu};
///
/// /// Runs a vCPU for at most `until`, with registers of all devices zero, and says when it halted.
/// fn halted(vcpu: &mut impl Vcpu, until: Cycles) -> Result<Option<Cycles>, CpuError> {
///     loop {
///         match vcpu.run(until)? {
///             Exit::Deadline => return Ok(None),
///             Exit::Halt => return Ok(Some(vcpu.now())),
///             Exit::PioRead { .. } | Exit::MmioRead { .. } => vcpu.complete_read(0),
///             Exit::MsrRead { .. } | Exit::MsrWrite { .. } => vcpu.refuse_msr(),
///             _ => {}
///         }
///     }
/// }
/// ```
pub trait Vcpu {
    /// Runs guest code until the virtual clock reaches `until` (the first instruction boundary at which `now() >=
    /// until`), or until an exit needs the caller.
    ///
    /// # Errors
    /// [`CpuError`] if the host fails the engine; the guest cannot cause one.
    fn run(&mut self, until: Cycles) -> Result<Exit, CpuError>;

    /// As [`run`](Self::run), but may return [`Exit::Deadline`] some instructions before `until`, where stopping is
    /// cheaper: for a caller that only needs `until` as an upper bound. Executes at least one instruction.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn run_about(&mut self, until: Cycles) -> Result<Exit, CpuError> {
        self.run(until)
    }

    /// The virtual clock, in cycles, at the current instruction boundary.
    fn now(&self) -> Cycles;

    /// Advances the virtual clock to `to` without executing instructions (the processor is halted, or its node is idle).
    /// A `to` in the past is ignored.
    fn skip_to(&mut self, to: Cycles);

    /// Guest instructions retired since reset, except in traced stubs; zero under an engine that does not count them.
    fn retired(&self) -> u64;

    /// The account of the time so far; `None` under engines whose only cost is the instruction.
    fn account(&self) -> Option<TimeAccount> {
        None
    }

    /// The lines that this processor moved over paths from caches and memory that a node's processors share; `None`
    /// without a processor model with memory.
    fn path_use(&self) -> Option<PathUse> {
        None
    }

    /// Begins a span of shared paths at cycle `now`. `moved` has the lines that each of the node's processors moved over
    /// each path in the last one: lines cost more if they did not fit.
    fn share_paths(&mut self, now: Cycles, moved: &[[u64; SHARED_PATHS]]) {
        let _ = (now, moved);
    }

    /// Answers the last `PioRead`, `MmioRead` or `MsrRead` exit.
    fn complete_read(&mut self, data: u64);

    /// The account of the time so far; `None` if time is a function of the number of instructions.
    fn refuse_msr(&mut self);

    /// True if an external interrupt can be delivered now: `RFLAGS.IF` is set and no `STI` or `MOV SS` shadow is open.
    fn interruptible(&self) -> bool;

    /// Delivers external interrupt `vector` now. Only legal while [`interruptible`](Vcpu::interruptible); wakes a halted
    /// processor.
    fn interrupt(&mut self, vector: u8);

    /// Requests [`Exit::InterruptWindow`] as soon as an external interrupt can be delivered.
    fn request_interrupt_window(&mut self, wanted: bool);

    /// True if a non-maskable interrupt can be delivered now: there was none since the last `IRET`, and no `STI` or `MOV
    /// SS` shadow is open.
    fn takes_nmi(&self) -> bool;

    /// Delivers a non-maskable interrupt now. Only legal while [`takes_nmi`](Vcpu::takes_nmi); wakes a halted processor.
    fn nmi(&mut self);

    /// Requests [`Exit::InterruptWindow`] as soon as a non-maskable interrupt can be delivered.
    fn request_nmi_window(&mut self, wanted: bool);

    /// The task priority (CR8), 0 to 15: interrupts of this class or lower wait.
    fn task_priority(&self) -> u8;

    /// Sets CR8, for a guest that changes the task priority through its local APIC.
    fn set_task_priority(&mut self, class: u8);

    /// General registers, RIP and RFLAGS.
    fn registers(&self) -> Registers;

    /// Replaces general registers, RIP and RFLAGS.
    fn set_registers(&mut self, registers: &Registers);

    /// Resets the processor as INIT does (Intel SDM volume 3, "Processor State After Reset"): registers and control
    /// registers to their initial values. Model-specific registers except EFER, the clock, x87 and vectors keep their
    /// values.
    fn init(&mut self);

    /// Segments, tables, control registers.
    fn system(&self) -> SystemRegisters;

    /// Replaces segments, tables and control registers.
    fn set_system(&mut self, system: &SystemRegisters);

    /// Translates a linear address through the guest's current page tables, with the privileges of the running code,
    /// without setting accessed or dirty bits. `None` if it is not mapped for `access`, or not accessible to users while
    /// user code runs. (Guests have neither supervisor-mode access prevention nor protection keys, which no level
    /// includes.)
    fn translate(&self, linear: u64, access: Access) -> Option<u64>;

    /// Completes a magic exit: the guest continues after the magic instruction with `target` in R11 and all other
    /// registers unchanged.
    fn complete_magic(&mut self, target: u64);

    /// Makes runs return [`Exit::Probe`] when user code reaches one of `probes`, which replace all earlier ones. Returns
    /// false if this engine has no probes.
    fn set_probes(&mut self, probes: &Arc<Probes>) -> bool {
        let _ = probes;
        false
    }

    /// Makes runs return [`Exit::Return`] when user code reaches the linear address `target`, a call's return address,
    /// other than by falling through to it. Returns false if this engine has no such watches, or already has
    /// [`MOST_RETURNS`].
    fn watch_return(&mut self, target: u64) -> bool {
        let _ = target;
        false
    }

    /// Removes all watches of return addresses.
    fn forget_returns(&mut self) {}

    /// Makes runs return [`Exit::Return`] before every instruction at one of these linear addresses, for a debugger;
    /// they replace all earlier ones. They apply in all address spaces: to user code, or in the upper half to the
    /// kernel. Returns false if this engine has no breakpoints.
    fn set_breakpoints(&mut self, addresses: &[u64]) -> bool {
        let _ = addresses;
        false
    }

    /// Makes runs return [`Exit::Watchpoint`] after every instruction that accesses one of these ranges, for a debugger;
    /// they replace all earlier ones. Returns false if this engine has no watchpoints.
    fn set_watchpoints(&mut self, points: &[Watchpoint]) -> bool {
        let _ = points;
        false
    }

    /// The number of the first watchpoint for stores in the `bytes` bytes at guest-physical address `physical`, which a
    /// device has written.
    fn watchpoint_at(&mut self, physical: u64, bytes: u64) -> Option<u32> {
        let _ = (physical, bytes);
        None
    }

    /// Makes runs return [`Exit::Buffer`] after every instruction in user mode that accesses one of these buffers in its own
    /// address space, except for exempt threads; they replace all earlier ones. Returns false if this engine has no watched
    /// buffers.
    fn set_watched_buffers(&mut self, buffers: &WatchedBuffers) -> bool {
        let _ = buffers;
        false
    }

    /// The access of the last [`Exit::Buffer`].
    fn buffer_access(&self) -> Option<BufferAccess> {
        None
    }

    /// The processor's state at the probe of the last [`Exit::Probe`].
    fn probed(&self) -> Option<Probed> {
        None
    }

    /// The present low halves of XMM0 to XMM7: floating-point arguments and results. Zeros if this engine has no probes.
    fn scalars(&self) -> [u64; 8] {
        [0; 8]
    }

    /// Limits all runs by a number of retired instructions besides the requested cycle: a run returns [`Exit::Deadline`]
    /// at the first boundary at which `retired() >= instructions`. `u64::MAX` is no limit.
    fn stop_at(&mut self, instructions: u64);

    /// All of the processor's state that can become visible to the guest, in a fixed order.
    fn state(&self) -> Vec<StateItem>;

    /// The whole state between two runs. The processor drops cached page-table entries, because a processor that
    /// [loads](Self::load) the state has none: both then continue alike, even if the guest changes its tables.
    ///
    /// # Errors
    /// [`CpuError::State`] if the state exceeds the size limit.
    fn save(&mut self) -> Result<CpuState, CpuError>;

    /// Loads the state of another processor of the same kind. Call it before the first run.
    ///
    /// # Errors
    /// [`CpuError::State`] if it does not fit such a processor.
    fn load(&mut self, state: &CpuState) -> Result<(), CpuError>;

    /// Continues with the random stream that `seed` has for processor `index`.
    fn reseed(&mut self, seed: Seed, index: u64);

    /// Releases host memory that only makes it faster, before a long time without runs.
    fn rest(&mut self) {}

    /// The engine's report of the run so far.
    fn report(&self) -> EngineReport;
}
