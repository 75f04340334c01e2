//! The exact engine's vCPU as a value.
//!
//! The host's requirements are checked at construction, so translated code may rely on them. It runs on one
//! thread at a time, since GS, signals and the x87 belong to that thread. Nodes have one per processor and call
//! it through `interface`. Its fields are parts with a file each; each module's operations on them are methods
//! of [`ExactVcpu`](vcpu::ExactVcpu) in that module.

use belljar_cpu::{CpuError, CpuidTable, GuestRam, InstructionSet, Unimplemented};
use belljar_pipeline::paths::Paths;
use belljar_sim::Random;
use belljar_translate::architecture::flag;
use belljar_translate::context::{ARITHMETIC, Context, ContextMemory, FREE_INSTRUCTIONS};
use belljar_translate::guest::decode::options;
use belljar_translate::guest::features::{Features, Vectors};
use belljar_translate::host::shared::{Character, Counter};
use belljar_translate::prices::timing::{TICKS_PER_CYCLE, Timing};

use crate::code::share::{CodeShare, Lease};
use crate::memory::watchpoints::Watchpoints;
use crate::processor::accounting::Accounting;
use crate::processor::clock::{Clock, CyclesPerInstruction};
use crate::processor::enter::Trampoline;
use crate::processor::host::host_requirements;
use crate::processor::mmu::Memory;
use crate::processor::state::ArchitecturalState;
use crate::processor::statistics::Statistics;
use crate::processor::x87::X87;

/// Cached data about linear addresses beyond the TLB.
pub(crate) mod addresses;
/// The limits of a run.
pub(crate) mod budget;
/// Pending reads and stores of an instruction that accesses devices.
pub(crate) mod devices;
/// Protection against guests that run forever without a counted instruction.
pub(crate) mod guards;
/// The processor as the guest sees it.
pub(crate) mod identity;
/// Results of leaving translated code.
pub(crate) mod left;
/// Seams that group checks met recently.
pub(crate) mod seams;
/// Conditions that end runs.
pub(crate) mod stops;

use addresses::Addresses;
use budget::{Budget, BudgetPlace};
use devices::{Answer, PendingAccesses};
use guards::Guards;
use identity::Identity;
use seams::Seams;
use stops::Stops;

/// The configuration of an [`ExactVcpu`].
pub struct ExactConfig {
    /// The guest's RAM; regions must be whole pages.
    pub ram: GuestRam,
    /// The answers of CPUID.
    pub cpuid: CpuidTable,
    /// The available instructions; all others raise #UD.
    pub instruction_set: InstructionSet,
    /// Cycles per retired instruction, without a time model.
    pub ratio: CyclesPerInstruction,
    /// The time model, if any; its caches must be [checked](crate::CacheModel::check).
    pub timing: Option<Timing>,
    /// The random stream of RDRAND and RDSEED.
    pub random: Random,
    /// True if approximations, the x87's functions and undefined flags are the host's, instead of the engine's
    /// [definitions](belljar_translate::defined): faster, but different between makes of processors.
    pub host_results: bool,
}

/// Vector registers, masks and their control register, in the largest sizes.
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
    pub(crate) state: ArchitecturalState,
    pub(crate) memory: Memory,
    pub(crate) store: Lease,
    pub(crate) clock: Clock,
    pub(crate) x87: X87,
    pub(crate) trampoline: Trampoline,
    pub(crate) identity: Identity,
    pub(crate) random: Random,
    /// The time model, if any.
    pub(crate) accounting: Option<Box<Accounting>>,
    pub(crate) budget: Budget,
    /// Pending reads and stores of an instruction that accesses devices.
    pub(crate) pending: PendingAccesses,
    /// Streaks of uncounted events.
    pub(crate) guards: Guards,
    pub(crate) stops: Stops,
    /// Cached data about linear addresses beyond the TLB.
    pub(crate) addresses: Addresses,
    pub(crate) seams: Seams,
    pub(crate) watchpoints: Watchpoints,
    pub(crate) statistics: Statistics,
    pub(crate) unimplemented: Vec<Unimplemented>,
}

impl ExactVcpu {
    /// Makes a vCPU. Set its registers before the first run.
    ///
    /// # Errors
    /// If the host's processor or kernel lacks a required feature, or refuses memory.
    pub fn new(config: ExactConfig) -> Result<Self, CpuError> {
        Self::sharing(config, &CodeShare::default())
    }

    /// As [`new`](Self::new), sharing translated code with the vCPUs made with clones of the same `share`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn sharing(config: ExactConfig, share: &CodeShare) -> Result<Self, CpuError> {
        host_requirements(&config.instruction_set)?;
        let mut context = Context::mapped()?;
        let trampoline = Trampoline::new(Vectors::of(&config.instruction_set));
        context.leave = trampoline.leave_address();
        context.free = FREE_INSTRUCTIONS;
        let features =
            Features::new(&config.instruction_set).with_host_results(config.host_results);
        let timing = config.timing.as_ref();
        let accounting = timing.map(|timing| {
            let shared = &mut share.caches();
            Box::new(Accounting::new(timing, options(&features), shared))
        });
        let follows_path = timing.is_some_and(|timing| timing.processor.is_some());
        let priced = accounting.as_ref().filter(|_| !follows_path);
        if follows_path {
            context.predictor.begin();
            context.path = Paths::START.into();
        }
        let character = Character {
            counter: counter(trampoline.width()),
            prices: priced.map(|accounting| accounting.prices.clone()),
            follows_path,
            host_results: config.host_results,
        };
        let filter = accounting
            .as_ref()
            .and_then(|accounting| accounting.filter());
        if let Some(filter) = filter {
            context.filter_lines(filter);
        }
        let place = budget_place(character.counter, accounting.is_some());
        let mut store = Lease::new(share, &character, filter)?;
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
            state: ArchitecturalState::new(),
            memory: Memory::new(config.ram),
            store,
            clock: Clock::new(ratio),
            x87: X87::reset(),
            trampoline,
            identity: Identity {
                cpuid: config.cpuid,
                instruction_set: config.instruction_set,
                features,
                features_number,
            },
            random: config.random,
            accounting,
            budget: Budget::new(place),
            pending: PendingAccesses::default(),
            guards: Guards::new(),
            stops: Stops::default(),
            addresses: Addresses::default(),
            seams: Seams::default(),
            watchpoints: Watchpoints::default(),
            statistics: Statistics::default(),
            unimplemented: Vec::new(),
        })
    }

    /// The vCPU's statistics so far.
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

    /// The x87: control word, status word, abridged tags, zeros up to byte 32, then its registers in stack
    /// order, 16 bytes each (FXSAVE's format).
    pub fn x87(&self) -> [u8; 160] {
        std::array::from_fn(|at| self.x87.bytes()[at] * u8::from(!(6..32).contains(&at)))
    }

    /// Replaces the x87's state; the format is that returned by [`x87`](Self::x87).
    pub fn set_x87(&mut self, state: &[u8; 160]) {
        self.x87.change(|bytes| {
            bytes[..5].copy_from_slice(&state[..5]);
            bytes[32..160].copy_from_slice(&state[32..]);
        });
    }

    /// Replaces the vector registers and masks; parts that the instruction set lacks stay zero.
    pub fn set_vectors(&mut self, state: &VectorState) {
        let (count, bytes) = match self.trampoline.width() {
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

    /// True if an interrupt of any kind may be delivered: not in a shadow, in a stub, or in the middle of an
    /// instruction that accesses a device.
    pub(crate) fn is_between_instructions(&self) -> bool {
        !self.state.shadow
            && !self.in_free_stub()
            && self.pending.answer == Answer::None
            && self.pending.replies.is_empty()
            && self.pending.stores.is_empty()
    }

    /// RFLAGS including the arithmetic flags.
    pub(crate) fn rflags(&self) -> u64 {
        let arithmetic = self.context.flags & ARITHMETIC;
        self.state.flags | self.context.interrupt_flag | arithmetic | flag::FIXED
    }

    /// Replaces RFLAGS.
    pub(crate) fn set_rflags(&mut self, value: u64) {
        self.context.flags = value & ARITHMETIC;
        self.set_system_flags(value & flag::SYSTEM);
    }

    /// Replaces RFLAGS without the arithmetic flags.
    pub(crate) fn set_system_flags(&mut self, value: u64) {
        self.context.interrupt_flag = value & flag::IF;
        self.state.flags = value & !flag::IF | flag::FIXED;
    }
}

/// The counter of translated code: in a register, if the host has a spare one.
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

/// The place of such a vCPU's budget before its first run.
pub(crate) fn budget_place(counter: Counter, priced: bool) -> BudgetPlace {
    if counter == Counter::Memory && !priced {
        BudgetPlace::Joined
    } else {
        BudgetPlace::Fixed
    }
}
