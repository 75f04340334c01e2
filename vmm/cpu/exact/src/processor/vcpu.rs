//! The exact engine's vCPU as a value.
//!
//! The host's requirements are checked when it is made, so that translated code may rely on them.
//! It runs on one thread at a time, since GS, signals and the x87 are that thread's. Nodes own one
//! per processor and call it through `interface`.

use belljar_cpu::{
    CpuError, CpuidTable, GuestRam, InstructionSet, Probed, ShutdownCause, Unimplemented,
};
use belljar_sim::Random;
use belljar_translate::architecture::flag;
use belljar_translate::context::{ARITHMETIC, Context, ContextMemory, FREE_INSTRUCTIONS, SLOTS};
use belljar_translate::guest::features::{Features, Vectors};
use belljar_translate::host::shared::{Character, Counter};
use belljar_translate::prices::timing::{TICKS_PER_CYCLE, Timing};

use crate::code::share::{CodeShare, Lease};
use crate::processor::accounting::Accounting;
use crate::processor::addresses::Addresses;
use crate::processor::clock::{Clock, CyclesPerInstruction};
use crate::processor::devices::{Answer, Pending};
use crate::processor::enter::Door;
use crate::processor::guards::Guards;
use crate::processor::host::host_requirements;
use crate::processor::left::Uncovered;
use crate::processor::mmu::Memory;
use crate::processor::seams::Seams;
use crate::processor::state::State;
use crate::processor::statistics::Statistics;
use crate::processor::x87::X87;

/// What an [`ExactVcpu`] is made from.
pub struct ExactConfig {
    /// The guest's RAM; regions must be whole pages.
    pub ram: GuestRam,
    /// What CPUID answers.
    pub cpuid: CpuidTable,
    /// The instructions that run; all others raise #UD.
    pub instruction_set: InstructionSet,
    /// Cycles per retired instruction, where there is no time model.
    pub ratio: CyclesPerInstruction,
    /// The time model, if there is one; its caches are [checked](crate::CacheModel::check).
    pub timing: Option<Timing>,
    /// Where RDRAND and RDSEED draw from.
    pub random: Random,
    /// Approximations, the x87's functions and flags that are left undefined are the host's, and
    /// not those that the engine [defines](belljar_translate::defined): faster, and not the same on every make
    /// of processor.
    pub host_results: bool,
}

/// Vector registers, masks and their control register, as large as they get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorState {
    /// ZMM0 to ZMM31, least significant byte first.
    pub vectors: [[u8; 64]; 32],
    /// K0 to K7.
    pub masks: [u64; 8],
    /// MXCSR.
    pub mxcsr: u32,
}

/// The deterministic vCPU.
pub struct ExactVcpu {
    pub(crate) context: ContextMemory,
    pub(crate) state: State,
    pub(crate) memory: Memory,
    pub(crate) store: Lease,
    pub(crate) clock: Clock,
    pub(crate) x87: X87,
    /// Whether the budget is in MM7 when it can be, and whether it is; see [`apart`](crate::instructions::apart).
    pub(crate) parts: bool,
    pub(crate) apart: bool,
    pub(crate) door: Door,
    pub(crate) cpuid: CpuidTable,
    pub(crate) instruction_set: InstructionSet,
    pub(crate) features: Features,
    /// Their number in the store.
    pub(crate) features_number: u8,
    pub(crate) random: Random,
    /// The time model, if there is one.
    pub(crate) accounting: Option<Box<Accounting>>,
    /// Ticks granted to the present run.
    pub(crate) granted: i64,
    /// The present run may end where the budget does not cover a whole block.
    pub(crate) at_ease: bool,
    /// Retired instructions at which every run ends.
    pub(crate) stop_at: u64,
    pub(crate) nmi_window_wanted: bool,
    /// What an instruction has asked of devices, and has yet to tell them.
    pub(crate) pending: Pending,
    /// Linear address of the operand in the bounce buffer.
    pub(crate) bounced: u64,
    pub(crate) tsc_offset: u64,
    /// Streaks of what does not count.
    pub(crate) guards: Guards,
    pub(crate) statistics: Statistics,
    pub(crate) unimplemented: Vec<Unimplemented>,
    /// What is remembered of linear addresses beyond the TLB.
    pub(crate) addresses: Addresses,
    /// Instructions retired when a slot was last asked for its worth.
    pub(crate) slot_asked: Vec<u64>,
    pub(crate) seams: Seams,
    /// An interrupt that could not be delivered at all.
    pub(crate) shutdown: Option<ShutdownCause>,
    /// RIP of a WRMSR that the caller may still refuse.
    pub(crate) refusable: Option<u64>,
    /// Under which circumstances the jump caches, supervisor's and user's, were filled:
    /// the mode and the base of CS.
    pub(crate) jumps_of: [(u32, u64); 2],
    /// An exception to take before the next instruction.
    pub(crate) refused: bool,
    /// RIP of the block that the budget did not cover last, and the flags that are dead there.
    pub(crate) stopped_before: Option<(u64, u32)>,
    /// What it was at the probe of the last exit for one.
    pub(crate) probed: Option<Probed>,
    /// The watched return address at which it has just told that it stands there.
    pub(crate) passing: Option<u64>,
    /// The exit stub by which it was last left for that.
    pub(crate) last_stop: Option<Uncovered>,
}

impl ExactVcpu {
    /// Makes a vCPU. Set its registers before the first run.
    ///
    /// # Errors
    /// When the host's processor or kernel lacks what translated code needs, or
    /// refuses memory.
    pub fn new(config: ExactConfig) -> Result<Self, CpuError> {
        Self::sharing(config, &CodeShare::default())
    }

    /// As [`new`](Self::new), with the translated code of those that are made with clones
    /// of the same `share`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn sharing(config: ExactConfig, share: &CodeShare) -> Result<Self, CpuError> {
        host_requirements(&config.instruction_set)?;
        let mut context = Context::mapped()?;
        let door = Door::new(Vectors::of(&config.instruction_set));
        context.leave = door.leave_address();
        context.free = FREE_INSTRUCTIONS;
        let accounting = config.timing.as_ref().map(Accounting::new).map(Box::new);
        let character = Character {
            counter: counter(door.width()),
            prices: accounting
                .as_ref()
                .map(|accounting| accounting.prices.clone()),
            host_results: config.host_results,
        };
        let has_caches = accounting
            .as_ref()
            .is_some_and(|accounting| accounting.caches.is_some());
        let parts = can_part(character.counter, character.prices.is_some());
        let mut store = Lease::new(share, &character, has_caches)?;
        let features =
            Features::new(&config.instruction_set).with_host_results(config.host_results);
        let features_number = store.number_of(&features).unwrap_or(0);
        let ratio = match accounting {
            None => config.ratio,
            Some(_) => CyclesPerInstruction {
                cycles: 1,
                instructions: TICKS_PER_CYCLE,
            },
        };
        for (view, user) in context.views.iter_mut().zip([false, true]) {
            view.jumps.begin(store.lookup_code(user));
        }
        context.target = store.enter_code();
        context.settle = context.leave;
        context.way_out = store.leave_code();
        context.code = store.ranges().map(|range| [range.start, range.end]);
        store.give_back();
        Ok(Self {
            context,
            state: State::new(),
            memory: Memory::new(config.ram),
            store,
            clock: Clock::new(ratio),
            x87: X87::reset(),
            parts,
            apart: false,
            door,
            cpuid: config.cpuid,
            features,
            instruction_set: config.instruction_set,
            features_number,
            random: config.random,
            accounting,
            granted: 0,
            at_ease: false,
            stop_at: u64::MAX,
            nmi_window_wanted: false,
            pending: Pending::default(),
            bounced: 0,
            tsc_offset: 0,
            guards: Guards::new(),
            statistics: Statistics::default(),
            unimplemented: Vec::new(),
            addresses: Addresses::default(),
            slot_asked: vec![0; SLOTS],
            seams: Seams::default(),
            shutdown: None,
            refusable: None,
            jumps_of: [(u32::MAX, 0); 2],
            refused: false,
            stopped_before: None,
            probed: None,
            passing: None,
            last_stop: None,
        })
    }

    /// What the vCPU did so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The vector registers and masks.
    pub fn vectors(&self) -> VectorState {
        VectorState {
            vectors: self.context.vectors.map(|vector| vector.0),
            masks: self.context.masks,
            mxcsr: self.context.guest_mxcsr,
        }
    }

    /// The x87: control word, status word, abridged tags, nothing up to byte 32, then
    /// its registers in stack order, 16 bytes each (as FXSAVE has them).
    pub fn x87(&self) -> [u8; 160] {
        std::array::from_fn(|at| self.x87.bytes()[at] * u8::from(!(6..32).contains(&at)))
    }

    /// Replaces the x87's state by one of the form that [`x87`](Self::x87) returns.
    pub fn set_x87(&mut self, state: &[u8; 160]) {
        self.x87.change(|bytes| {
            bytes[..5].copy_from_slice(&state[..5]);
            bytes[32..160].copy_from_slice(&state[32..]);
        });
    }

    /// Replaces the vector registers and masks; what the instruction set does not
    /// have stays zero.
    pub fn set_vectors(&mut self, state: &VectorState) {
        let (count, bytes) = match self.door.width() {
            Vectors::Xmm => (16, 16),
            Vectors::Ymm => (16, 32),
            Vectors::Zmm => (32, 64),
        };
        for (to, from) in self.context.vectors[..count].iter_mut().zip(&state.vectors) {
            to.0[..bytes].copy_from_slice(&from[..bytes]);
        }
        if bytes == 64 {
            self.context.masks = state.masks;
        }
        self.context.guest_mxcsr = state.mxcsr & 0xffff;
    }

    /// Whether an interrupt of any kind may come in: not in a shadow, among stubs, or in
    /// the middle of an instruction that asked for something.
    pub(crate) fn is_between_instructions(&self) -> bool {
        !self.state.shadow
            && !self.in_free_stub()
            && self.pending.answer == Answer::None
            && self.pending.replies.is_empty()
            && self.pending.stores.is_empty()
    }

    /// RFLAGS with its arithmetic part.
    pub(crate) fn rflags(&self) -> u64 {
        let arithmetic = self.context.flags & ARITHMETIC;
        self.state.flags | self.context.interrupt_flag | arithmetic | flag::FIXED
    }

    /// Replaces RFLAGS.
    pub(crate) fn set_rflags(&mut self, value: u64) {
        self.context.flags = value & ARITHMETIC;
        self.set_system_flags(value & flag::SYSTEM);
    }

    /// Replaces RFLAGS without its arithmetic part.
    pub(crate) fn set_system_flags(&mut self, value: u64) {
        self.context.interrupt_flag = value & flag::IF;
        self.state.flags = value & !flag::IF | flag::FIXED;
    }
}

/// Where translated code counts: in a register, if the host has one to spare.
fn counter(guest: Vectors) -> Counter {
    let spare = guest != Vectors::Zmm
        && std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512vl");
    if spare {
        Counter::Xmm31
    } else {
        Counter::Memory
    }
}

/// Whether a vCPU of this kind has its budget in MM7 when it can.
pub(crate) fn can_part(counter: Counter, priced: bool) -> bool {
    counter == Counter::Memory && !priced
}
