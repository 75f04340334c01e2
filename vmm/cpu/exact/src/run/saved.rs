//! The vCPU's whole state, saved and loaded.
//!
//! A vCPU that loads a state continues exactly as the saved one would have: omitted data only
//! affects speed. Of another engine's state, the architectural part is loaded. `interface` calls
//! this for `Vcpu::save` and `Vcpu::load`; a loaded state is untrusted and is validated.

use belljar_cpu::{CpuError, CpuState, ShutdownCause, Unimplemented, Vcpu};
use belljar_sim::{Random, decode, encode};
use belljar_translate::architecture::flag;
use belljar_translate::context::ARITHMETIC;
use serde::{Deserialize, Serialize};

use crate::processor::accounting::caches::Contents;
use crate::processor::accounting::memory::SavedMisses;
use crate::processor::accounting::path::saved::{SavedPath, SavedPredictor};
use crate::processor::vcpu::devices::{Answer, Replies, Stores};
use crate::processor::vcpu::{ExactVcpu, VectorState};

/// This engine's name in saved states.
pub const ENGINE_NAME: &str = "exact";

/// The engine's private state. Omitted data only affects speed: translated code, cached page-table
/// entries, statistics.
#[derive(Serialize, Deserialize)]
struct Own {
    /// RFLAGS without arithmetic flags and IF, including bits that POPF cannot set.
    flags: u64,
    ticks: u64,
    random: Random,
    spent: (u64, u64),
    caches: Option<Contents>,
    path: Option<(SavedPath, SavedPredictor)>,
    memory: Option<SavedMisses>,
    mispredictions: u64,
    window_wanted: bool,
    nmi_window_wanted: bool,
    answer: Answer,
    replies: Replies,
    stores: Stores,
    held_hits: u64,
    /// True if the local APIC is disabled, and if it was before the last write.
    apic_off: (bool, bool),
    bounced: u64,
    free: i64,
    free_stubs: bool,
    magic: (u32, u64),
    deliveries: (u32, u64),
    shutdown: Option<ShutdownCause>,
    refusable: Option<u64>,
    refused: bool,
    unimplemented: Vec<Unimplemented>,
}

impl ExactVcpu {
    pub(crate) fn save_state(&mut self) -> Result<CpuState, CpuError> {
        self.settle_clock();
        self.with_code(Self::flush_translations);
        let vectors = self.vectors();
        Ok(CpuState {
            registers: self.registers(),
            system: self.system(),
            xcr0: self.state.xcr0,
            debug: self.state.debug,
            task_priority: self.state.cr8,
            msrs: self.saved_msrs(),
            vectors: vectors.vectors.concat(),
            masks: vectors.masks,
            mxcsr: vectors.mxcsr,
            x87: self.x87().to_vec(),
            tsc_offset: self.clock.tsc_offset,
            cycles: self.now(),
            retired: self.retired(),
            halted: self.state.halted,
            shadow: self.state.shadow,
            holds_traps: self.state.holds_traps,
            in_nmi: self.state.in_nmi,
            engine_name: ENGINE_NAME.to_owned(),
            engine: encode(&self.own())?,
        })
    }

    fn own(&self) -> Own {
        let accounting = self.accounting.as_ref();
        Own {
            flags: self.state.flags,
            ticks: self.clock.ticks,
            random: self.random.clone(),
            spent: accounting.map_or((0, 0), |l| (l.spent_in_caches, l.spent_in_memory)),
            caches: accounting.and_then(|l| Some(l.caches.as_ref()?.contents())),
            path: self.saved_path(),
            memory: accounting.and_then(|l| Some(l.memory.as_ref()?.saved())),
            mispredictions: self.context.mispredictions,
            window_wanted: self.context.window_wanted != 0,
            nmi_window_wanted: self.stops.nmi_window_wanted,
            answer: self.pending.answer,
            replies: self.pending.replies.clone(),
            stores: self.pending.stores.clone(),
            held_hits: self.state.held_hits,
            apic_off: (self.state.apic_off, self.state.apic_was_off),
            bounced: self.pending.bounced,
            free: self.context.free,
            free_stubs: self.guards.free_stubs,
            magic: (self.guards.magic_streak, self.guards.magic_at),
            deliveries: (self.guards.delivery_streak, self.guards.delivered_at),
            shutdown: self.stops.shutdown,
            refusable: self.pending.refusable,
            refused: self.pending.refused,
            unimplemented: self.unimplemented.clone(),
        }
    }

    pub(crate) fn load_state(&mut self, saved: &CpuState) -> Result<(), CpuError> {
        let own: Option<Own> = (saved.engine_name == ENGINE_NAME)
            .then(|| decode(&saved.engine))
            .transpose()?;
        self.load_architecture(saved)?;
        // The private state of another engine is not used here.
        let own = own.unwrap_or_else(|| self.own());
        self.clock
            .go_on_from(saved.cycles, saved.retired, own.ticks);
        self.load_own(own)?;
        self.with_code(|vcpu| {
            vcpu.settle_features();
            vcpu.flush_translations();
        });
        Ok(())
    }

    fn load_architecture(&mut self, saved: &CpuState) -> Result<(), CpuError> {
        let wrong = |what: &str| CpuError::State(format!("its {what} are not such"));
        let x87 = <&[u8; 160]>::try_from(&saved.x87[..]).map_err(|_| wrong("x87 registers"))?;
        let (vectors, rest) = saved.vectors.as_chunks::<64>();
        let vectors = <[[u8; 64]; 32]>::try_from(vectors).map_err(|_| wrong("vectors"))?;
        if !rest.is_empty() {
            return Err(wrong("vectors"));
        }
        self.set_system(&saved.system);
        self.set_registers(&saved.registers);
        self.set_x87(x87);
        self.state.xcr0 = saved.xcr0;
        self.set_vectors(&VectorState {
            vectors,
            masks: saved.masks,
            mxcsr: saved.mxcsr,
        });
        self.state.debug = saved.debug;
        self.state.cr8 = saved.task_priority & 15;
        if !self.load_msrs(&saved.msrs) {
            return Err(wrong("model-specific registers"));
        }
        self.clock.tsc_offset = saved.tsc_offset;
        self.state.halted = saved.halted;
        self.state.shadow = saved.shadow;
        self.state.holds_traps = saved.holds_traps;
        self.state.in_nmi = saved.in_nmi;
        Ok(())
    }

    fn load_own(&mut self, own: Own) -> Result<(), CpuError> {
        self.state.flags = own.flags & !(flag::IF | ARITHMETIC) | flag::FIXED;
        self.random = own.random;
        let model = self.accounting.as_mut().and_then(|l| l.caches.as_mut());
        let fits = match (model, &own.caches) {
            (Some(model), Some(contents)) => model.fill(contents),
            (None, None) => true,
            _ => false,
        };
        self.flush_lines();
        let memory = self.accounting.as_mut().and_then(|l| l.memory.as_mut());
        let fits = fits
            && match (memory, &own.memory) {
                (Some(memory), Some(saved)) => memory.load(saved),
                (None, None) => true,
                _ => false,
            };
        if !fits || !self.load_path(own.path.as_ref()) {
            let why = "it was saved under another time model";
            return Err(CpuError::State(why.to_owned()));
        }
        if let Some(accounting) = &mut self.accounting {
            (accounting.spent_in_caches, accounting.spent_in_memory) = own.spent;
        }
        self.context.mispredictions = own.mispredictions;
        self.context.window_wanted = own.window_wanted.into();
        self.stops.nmi_window_wanted = own.nmi_window_wanted;
        self.pending.answer = own.answer;
        self.pending.replies = own.replies;
        self.pending.stores = own.stores;
        self.state.held_hits = own.held_hits;
        (self.state.apic_off, self.state.apic_was_off) = own.apic_off;
        self.pending.bounced = own.bounced;
        self.context.free = own.free;
        self.guards.free_stubs = own.free_stubs;
        (self.guards.magic_streak, self.guards.magic_at) = own.magic;
        (self.guards.delivery_streak, self.guards.delivered_at) = own.deliveries;
        self.stops.shutdown = own.shutdown;
        self.pending.refusable = own.refusable;
        self.pending.refused = own.refused;
        self.unimplemented = own.unimplemented;
        Ok(())
    }
}
