//! The `Vcpu` trait's implementation.
//!
//! Nodes call these functions through the `Vcpu` trait, and only between runs; the guest is then at
//! an instruction boundary, with its clock and flags up to date. Changes of control registers are
//! passed on to the TLB and the store here.

use std::sync::Arc;

use belljar_cpu::{
    Access, BufferAccess, CpuError, CpuState, Cycles, EngineReport, Exit, PathUse, Probed, Probes,
    Registers, SHARED_PATHS, StateItem, SystemRegisters, TimeAccount, Vcpu, WatchedBuffers,
    Watchpoint,
};
use belljar_sim::{Random, Seed};
use belljar_translate::architecture::vector;
use belljar_translate::host::cache::give_up;
use belljar_translate::prices::timing::TICKS_PER_CYCLE;

use crate::processor::mmu::{TranslationRequest, translate};
use crate::processor::state::ArchitecturalState;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::devices::Answer;

/// Bytes of translated code that a resting vCPU keeps: more than the code to read the clock and
/// sleep again.
const KEPT_AT_REST: usize = 768 << 10;

/// The random stream of RDRAND and RDSEED.
pub const RANDOM_STREAM: &str = "rdrand";

impl Vcpu for ExactVcpu {
    fn run(&mut self, until: Cycles) -> Result<Exit, CpuError> {
        self.with_code(|vcpu| {
            loop {
                let exit = vcpu.dispatch(until)?;
                // If no instruction had the highest cost, there may be room for more.
                if exit != Exit::Deadline
                    || vcpu.now() >= until
                    || vcpu.retired() >= vcpu.budget.stop_at
                {
                    return Ok(exit);
                }
            }
        })
    }

    fn run_about(&mut self, until: Cycles) -> Result<Exit, CpuError> {
        self.settle_clock();
        self.budget.ends_early = self.ticks_to_stop() > self.clock.ticks_until(until);
        let began = self.retired_now();
        let exit = self.hold_code().dispatch(until);
        self.budget.ends_early = false;
        // Matched by reference: moving the exit would be noticeable in a short turn.
        if let Ok(Exit::Deadline) = exit {
            if self.retired_now() == began {
                return self.run(until);
            }
            return Ok(Exit::Deadline);
        }
        exit
    }

    fn now(&self) -> Cycles {
        self.clock.at(self.ticks_now())
    }

    fn skip_to(&mut self, to: Cycles) {
        self.settle_clock();
        self.clock.skip_to(to);
    }

    fn retired(&self) -> u64 {
        self.retired_now()
    }

    fn account(&self) -> Option<TimeAccount> {
        let accounting = self.accounting.as_ref()?;
        let spent = accounting.memory.as_ref().map(|memory| memory.spent);
        let spent = spent.unwrap_or_default();
        let cycles = |ticks: u64| ticks / u64::from(TICKS_PER_CYCLE);
        Some(TimeAccount {
            instructions: self.retired_now(),
            caches: accounting.spent_in_caches + cycles(spent.caches),
            memory: accounting.spent_in_memory + cycles(spent.memory),
            translation: cycles(spent.translation),
            bandwidth: cycles(spent.bandwidth),
            branch: self.branch_cycles(),
            processor: accounting.path.is_some(),
            idle: self.clock.idle(),
        })
    }

    fn path_use(&self) -> Option<PathUse> {
        let memory = self.accounting.as_ref()?.memory.as_ref()?;
        let (since, lines) = memory.moved_lines();
        Some(PathUse { since, lines })
    }

    fn share_paths(&mut self, now: Cycles, moved: &[[u64; SHARED_PATHS]]) {
        let accounting = self.accounting.as_deref_mut();
        if let Some(memory) = accounting.and_then(|accounting| accounting.memory.as_mut()) {
            memory.share_paths(now, moved);
        }
    }

    fn complete_read(&mut self, data: u64) {
        self.pending.answer = Answer::Value(data);
    }

    fn refuse_msr(&mut self) {
        match self.pending.refusable.take() {
            Some(rip) => {
                self.state.rip = rip;
                self.state.apic_off = self.state.apic_was_off;
                let charge = self.charge_of_system();
                self.give(charge);
                self.restart_path();
                self.pending.refused = true;
            }
            None => self.pending.answer = Answer::Refused,
        }
    }

    fn interruptible(&self) -> bool {
        self.context.interrupt_flag != 0 && self.is_between_instructions()
    }

    fn takes_nmi(&self) -> bool {
        !self.state.in_nmi && self.is_between_instructions()
    }

    fn nmi(&mut self) {
        self.interrupt(vector::NMI);
        self.state.in_nmi = true;
    }

    fn request_nmi_window(&mut self, wanted: bool) {
        self.stops.nmi_window_wanted = wanted;
    }

    fn interrupt(&mut self, vector: u8) {
        self.state.halted = false;
        self.statistics.deliveries += 1;
        self.with_code(|vcpu| vcpu.deliver_interrupt(vector));
    }

    fn request_interrupt_window(&mut self, wanted: bool) {
        self.context.window_wanted = u64::from(wanted);
    }

    fn task_priority(&self) -> u8 {
        self.state.cr8 as u8
    }

    fn set_task_priority(&mut self, class: u8) {
        self.state.cr8 = u64::from(class & 15);
    }

    fn registers(&self) -> Registers {
        Registers {
            gpr: self.context.gpr,
            rip: self.state.rip,
            rflags: self.rflags(),
        }
    }

    fn set_registers(&mut self, registers: &Registers) {
        self.context.gpr = registers.gpr;
        if self.state.rip != registers.rip {
            self.restart_path();
        }
        self.state.rip = registers.rip;
        self.set_rflags(registers.rflags);
    }

    fn init(&mut self) {
        let [signature, ..] = self.identity.cpuid.answer(1, 0);
        self.state = ArchitecturalState {
            xcr0: self.state.xcr0,
            msrs: self.state.msrs.clone(),
            apic_off: self.state.apic_off,
            ..ArchitecturalState::new()
        };
        self.set_system(&SystemRegisters::initial());
        self.set_registers(&Registers::initial(signature));
    }

    fn system(&self) -> SystemRegisters {
        let mut system = self.state.system;
        system.segments[4].base = self.context.fs_base;
        system.segments[5].base = self.context.gs_base;
        system
    }

    fn set_system(&mut self, system: &SystemRegisters) {
        self.state.system = *system;
        self.context.fs_base = system.segments[4].base;
        self.context.gs_base = system.segments[5].base;
        self.with_code(|vcpu| {
            vcpu.settle_features();
            vcpu.flush_translations();
            vcpu.settle_buffers();
        });
    }

    fn translate(&self, linear: u64, access: Access) -> Option<u64> {
        let request = TranslationRequest {
            access,
            user: self.state.is_user(),
            mark: false,
        };
        translate(&self.memory, &self.state.system, linear, request).ok()
    }

    fn complete_magic(&mut self, target: u64) {
        self.context.gpr[Registers::R11] = target;
        self.state.rip = self.state.rip.wrapping_add(2);
        if !self.in_free_stub_at(self.state.rip.wrapping_sub(2)) {
            let charge = self.charge_of_system();
            self.take(charge);
            self.restart_path();
        }
    }

    fn set_probes(&mut self, probes: &Arc<Probes>) -> bool {
        self.begin_probes(probes);
        true
    }

    fn watch_return(&mut self, target: u64) -> bool {
        self.begin_return(target)
    }

    fn forget_returns(&mut self) {
        self.with_code(|vcpu| vcpu.store.probed.returns.clear());
    }

    fn set_breakpoints(&mut self, addresses: &[u64]) -> bool {
        self.begin_breakpoints(addresses);
        true
    }

    fn set_watchpoints(&mut self, points: &[Watchpoint]) -> bool {
        self.with_code(|vcpu| vcpu.begin_watchpoints(points));
        true
    }

    fn set_watched_buffers(&mut self, buffers: &WatchedBuffers) -> bool {
        self.with_code(|vcpu| vcpu.begin_buffers(buffers));
        true
    }

    fn buffer_access(&self) -> Option<BufferAccess> {
        self.watchpoints.buffers.reported()
    }

    fn watchpoint_at(&mut self, physical: u64, bytes: u64) -> Option<u32> {
        self.with_code(|vcpu| vcpu.watchpoint_in(physical, bytes))
    }

    fn probed(&self) -> Option<Probed> {
        self.stops.probed
    }

    fn scalars(&self) -> [u64; 8] {
        self.scalars_now()
    }

    fn stop_at(&mut self, instructions: u64) {
        self.budget.stop_at = instructions;
    }

    fn state(&self) -> Vec<StateItem> {
        self.state_items()
    }

    fn save(&mut self) -> Result<CpuState, CpuError> {
        self.save_state()
    }

    fn load(&mut self, state: &CpuState) -> Result<(), CpuError> {
        self.load_state(state)
    }

    fn reseed(&mut self, seed: Seed, index: u64) {
        self.random = Random::new(seed, RANDOM_STREAM, index);
    }

    fn rest(&mut self) {
        self.with_code(|vcpu| {
            let bytes = vcpu.store.bytes();
            if bytes > KEPT_AT_REST {
                vcpu.flush_code();
                vcpu.store.release();
                give_up(bytes);
            }
        });
    }

    fn report(&self) -> EngineReport {
        let statistics = self.statistics();
        EngineReport {
            unimplemented: self.unimplemented.clone(),
            stubs_abused: !self.guards.free_stubs,
            counters: statistics.counters(),
            ..EngineReport::default()
        }
    }
}
