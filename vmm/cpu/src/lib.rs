//! The vCPU engine trait, its exits, registers and guest memory.
//!
//! Everything above an engine talks to it through [`Vcpu`]: run until a virtual
//! cycle, look at why it stopped, answer, run on. Exits are plain values; an
//! engine never calls upward.
//!
//! Nearly every file stands by itself. `memory` has RAM with its `watch` and the pages `beside` it; `saved` and
//! `state` are made of `registers`.

use std::sync::Arc;

use belljar_sim::Seed;

/// What a processor's time went into.
mod account;
/// Pages of guest RAM that have a second host address.
mod beside;
/// What CPUID answers.
mod cpuid;
/// Why a vCPU came back to its caller.
mod exit;
/// Which instructions a guest's processor has.
mod isa;
/// Guest physical memory.
mod memory;
/// Places in the files of guest programs at which the host looks in.
mod probes;
/// Architectural registers as plain values.
mod registers;
/// What an engine tells of a run.
mod report;
/// A processor's whole state, from which any engine continues.
mod saved;
/// Architectural state as a list of named values, for comparing.
mod state;
/// Watching guest pages that hold translated code.
mod watch;
/// The layout of an XSAVE area.
mod xstate;

pub use account::TimeAccount;
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
pub use xstate::{
    COMPONENT_AVX, COMPONENT_HIGH_ZMM, COMPONENT_OPMASK, COMPONENT_ZMM_HIGH, STATE_COMPONENTS,
    StateComponent, XSAVE_BYTES, XSAVE_HEADER_END, compacted_size, standard_size,
};

/// A count of virtual processor cycles since the node's reset: what `RDTSC`
/// shows the guest when it never wrote its TSC.
pub type Cycles = u64;

/// Why an engine could not continue. None of these is the guest's doing; what a
/// guest does wrong comes back as an exception inside the guest or as
/// [`Exit::Shutdown`].
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// The host refused a resource that the engine cannot do without.
    #[error("the vCPU engine could not {action}: {source}")]
    Host {
        /// What was attempted, as an infinitive.
        action: &'static str,
        /// The host's own reason.
        source: std::io::Error,
    },
    /// The host's processor lacks an instruction-set extension that the engine's
    /// translated code is made of.
    #[error(
        "this host's processor has no {0}, which the exact engine needs; run on a processor of 2015 or newer"
    )]
    HostFeature(&'static str),
    /// The host's processor lacks instructions that the guest's is to have.
    #[error(
        "this host's processor has no {missing}, which a guest of {set} needs; set a lower nodes.level, fewer nodes.extensions, or run on another host"
    )]
    HostLevel {
        /// The instruction set asked for.
        set: String,
        /// What is missing, by name.
        missing: String,
    },
    /// The host has nothing for this engine to work with; in words, with what to do.
    #[error("the vCPU engine cannot work here: {0}")]
    Unusable(String),
    /// State that this processor cannot take over.
    #[error("a processor's saved state is not usable: {0}")]
    State(String),
    /// The engine broke one of its own rules; a defect of the engine.
    #[error("the vCPU engine broke an invariant: {0}; please report it with the scenario")]
    Internal(String),
}

/// The access for which a linear address is translated.
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
/// The life of a vCPU: [`set_registers`](Vcpu::set_registers) and
/// [`set_system`](Vcpu::set_system) once, then [`run`](Vcpu::run) again and again;
/// after an exit that asks a question (`PioRead`, `MmioRead`, `MsrRead`) exactly
/// one [`complete_read`](Vcpu::complete_read) or [`refuse_msr`](Vcpu::refuse_msr) before the next `run`.
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
    /// Runs guest code until the virtual clock reaches `until` (the first
    /// instruction boundary at which `now() >= until`), or until something
    /// needs the caller.
    ///
    /// # Errors
    /// [`CpuError`] when the host fails the engine; the guest cannot cause one.
    fn run(&mut self, until: Cycles) -> Result<Exit, CpuError>;

    /// As [`run`](Self::run), but may end with [`Exit::Deadline`] some instructions before
    /// `until`, where stopping costs less than on the cycle: for a caller that only must
    /// not let the guest go further. Executes one instruction at least.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn run_about(&mut self, until: Cycles) -> Result<Exit, CpuError> {
        self.run(until)
    }

    /// The virtual clock, in cycles, at the current instruction boundary.
    fn now(&self) -> Cycles;

    /// Moves the virtual clock forward to `to` while no instruction executes (the
    /// processor is halted, or its node is idle). A `to` in the past is ignored.
    fn skip_to(&mut self, to: Cycles);

    /// Guest instructions retired since reset, those of traced stubs left out; zero under
    /// an engine that does not count them.
    fn retired(&self) -> u64;

    /// What the time went into so far; `None` where time is nothing but instructions.
    fn account(&self) -> Option<TimeAccount> {
        None
    }

    /// Answers the question of the last `PioRead`, `MmioRead` or `MsrRead` exit.
    fn complete_read(&mut self, data: u64);

    /// Answers the last `MsrRead` or `MsrWrite` exit with a general-protection
    /// fault in the guest: there is no such register.
    fn refuse_msr(&mut self);

    /// Whether an external interrupt would be taken now: `RFLAGS.IF` is set and no
    /// `STI` or `MOV SS` shadow is open.
    fn interruptible(&self) -> bool;

    /// Takes external interrupt `vector` now. Only legal while
    /// [`interruptible`](Vcpu::interruptible); wakes a halted processor.
    fn interrupt(&mut self, vector: u8);

    /// Asks for [`Exit::InterruptWindow`] as soon as an external interrupt can be taken.
    fn request_interrupt_window(&mut self, wanted: bool);

    /// Whether a non-maskable interrupt would be taken now: none was taken since the last
    /// `IRET`, and no `STI` or `MOV SS` shadow is open.
    fn takes_nmi(&self) -> bool;

    /// Takes a non-maskable interrupt now. Only legal while
    /// [`takes_nmi`](Vcpu::takes_nmi); wakes a halted processor.
    fn nmi(&mut self);

    /// Asks for [`Exit::InterruptWindow`] as soon as a non-maskable interrupt can be taken.
    fn request_nmi_window(&mut self, wanted: bool);

    /// The task priority (CR8), 0 to 15: interrupts of this class or lower wait.
    fn task_priority(&self) -> u8;

    /// Sets CR8, when the guest changes the task priority through its local APIC.
    fn set_task_priority(&mut self, class: u8);

    /// General registers, RIP and RFLAGS.
    fn registers(&self) -> Registers;

    /// Replaces general registers, RIP and RFLAGS.
    fn set_registers(&mut self, registers: &Registers);

    /// Resets the processor as INIT does (Intel SDM volume 3, "Processor State After
    /// Reset"): registers and control registers to their first values; model-specific
    /// registers but EFER, the clock, x87 and vectors stay as they are.
    fn init(&mut self);

    /// Segments, tables, control registers.
    fn system(&self) -> SystemRegisters;

    /// Replaces segments, tables and control registers.
    fn set_system(&mut self, system: &SystemRegisters);

    /// Translates a linear address through the guest's current page tables, with the
    /// rights of the code that runs, without setting accessed or dirty bits. `None` when it
    /// is not mapped for `access`, or not for users where a user's code runs. (Guests have
    /// neither supervisor-mode access prevention nor protection keys, which no level offers.)
    fn translate(&self, linear: u64, access: Access) -> Option<u64>;

    /// Ends a magic exit: the guest continues after the magic instruction with
    /// `target` in R11 and no other register changed.
    fn complete_magic(&mut self, target: u64);

    /// Ends runs with [`Exit::Probe`] from now on where a user's code comes to one of
    /// `probes`, which take the place of those before. `false` when this engine can't.
    fn set_probes(&mut self, probes: &Arc<Probes>) -> bool {
        let _ = probes;
        false
    }

    /// Ends runs with [`Exit::Return`] from now on when a user's code comes to the linear
    /// address `target` other than by running into it: the address to which a call returns.
    /// `false` when this engine can't, or watches [`MOST_RETURNS`] others.
    fn watch_return(&mut self, target: u64) -> bool {
        let _ = target;
        false
    }

    /// Ends no run with [`Exit::Return`] any more, but for addresses that are watched anew.
    fn forget_returns(&mut self) {}

    /// What the processor was when it came to the probe of the last [`Exit::Probe`].
    fn probed(&self) -> Option<Probed> {
        None
    }

    /// The low halves of XMM0 to XMM7 now: floating-point arguments, and results. Zeros where this engine has no probes.
    fn scalars(&self) -> [u64; 8] {
        [0; 8]
    }

    /// Bounds all runs by a number of retired instructions besides the cycle asked for:
    /// a run ends with [`Exit::Deadline`] at the first boundary at which
    /// `retired() >= instructions`. `u64::MAX` is no bound.
    fn stop_at(&mut self, instructions: u64);

    /// All state of the processor that the guest could come to see, in a fixed order.
    fn state(&self) -> Vec<StateItem>;

    /// The whole state between two runs. The processor forgets what it holds of page
    /// tables meanwhile, as a new one must that is [loaded](Self::load) with it: both go
    /// on alike, whatever the guest does with its tables.
    ///
    /// # Errors
    /// [`CpuError::State`] when there is more of it than can be saved.
    fn save(&mut self) -> Result<CpuState, CpuError>;

    /// Takes over the state of another processor of the same kind. To be called before
    /// the first run.
    ///
    /// # Errors
    /// [`CpuError::State`] when it is not that of such a processor.
    fn load(&mut self, state: &CpuState) -> Result<(), CpuError>;

    /// Draws from the random stream that `seed` has for processor `index` from now on.
    fn reseed(&mut self, seed: Seed, index: u64);

    /// Gives host memory back that only makes it faster: it will not run for long.
    fn rest(&mut self) {}

    /// What a person should know of the run so far.
    fn report(&self) -> EngineReport;
}
