//! The `Vcpu` trait's implementation.
//!
//! Nodes call these functions through the `Vcpu` trait, between runs. System registers are read
//! once and cached until the next run. If the host refuses an operation in a function without a
//! result, the next run returns the error.

use belljar_cpu::{
    Access, CpuError, CpuState, Cycles, EngineReport, Exit, Registers, StateItem, SystemRegisters,
    Vcpu, register_items,
};
use belljar_sim::Seed;
use kvm_bindings::{kvm_sregs, kvm_vcpu_events};
use kvm_ioctls::SyncReg;

use crate::host::machine::failed;
use crate::state::registers;
use crate::state::walk::{self, Walked};
use crate::vcpu::KvmVcpu;

pub(crate) const INTERRUPT_FLAG: u64 = 1 << 9;
/// Bytes of a magic instruction.
const MAGIC_LENGTH: u64 = belljar_abi::MAGIC_CPUID.len() as u64;

impl KvmVcpu {
    /// System registers in KVM's form.
    pub(crate) fn kvm_system(&self) -> Result<&kvm_sregs, CpuError> {
        if let Some(known) = self.system.get() {
            return Ok(known);
        }
        let read = self
            .fd
            .get_sregs()
            .map_err(failed("read system registers"))?;
        Ok(self.system.get_or_init(|| read))
    }

    pub(crate) fn put_system(&mut self, system: &SystemRegisters) -> Result<(), CpuError> {
        let mut kvm = *self.kvm_system()?;
        registers::put_system(system, &mut kvm);
        // This engine injects pending interrupts itself.
        kvm.interrupt_bitmap = [0; 4];
        self.system.take();
        self.fd
            .set_sregs(&kvm)
            .map_err(failed("set system registers"))
    }

    /// Keeps a failure for the next run to return.
    fn note_failure(&mut self, done: Result<(), CpuError>) {
        if let Err(error) = done {
            self.failure.get_or_insert(error);
        }
    }

    pub(crate) fn put_registers(&mut self, registers: &Registers) {
        self.fd.sync_regs_mut().regs = registers::kvm_registers(registers);
        self.fd.set_sync_dirty_reg(SyncReg::Register);
        self.interruptible = registers.rflags & INTERRUPT_FLAG != 0;
    }
}

impl Vcpu for KvmVcpu {
    fn run(&mut self, until: Cycles) -> Result<Exit, CpuError> {
        self.go(until)
    }

    fn now(&self) -> Cycles {
        self.clock.now()
    }

    fn skip_to(&mut self, to: Cycles) {
        self.clock.skip_to(to);
    }

    /// Not counted: always zero.
    fn retired(&self) -> u64 {
        0
    }

    fn complete_read(&mut self, data: u64) {
        self.answer(data);
    }

    fn refuse_msr(&mut self) {
        self.refuse();
    }

    fn interruptible(&self) -> bool {
        self.interruptible && !self.is_amid()
    }

    fn interrupt(&mut self, vector: u8) {
        self.vector = Some(vector);
        self.interruptible = false;
        self.halted = false;
    }

    fn request_interrupt_window(&mut self, wanted: bool) {
        self.window_wanted = wanted;
    }

    /// KVM holds one back until it can be delivered.
    fn takes_nmi(&self) -> bool {
        true
    }

    fn nmi(&mut self) {
        self.halted = false;
        let done = self.fd.nmi().map_err(failed("send the guest an NMI"));
        self.note_failure(done);
    }

    fn request_nmi_window(&mut self, _: bool) {}

    fn task_priority(&self) -> u8 {
        self.task_priority
    }

    fn set_task_priority(&mut self, class: u8) {
        self.task_priority = class & 15;
    }

    fn registers(&self) -> Registers {
        registers::registers(&self.fd.sync_regs().regs)
    }

    fn set_registers(&mut self, registers: &Registers) {
        self.put_registers(registers);
    }

    fn init(&mut self) {
        let done = self.put_system(&SystemRegisters::initial()).and_then(|()| {
            self.fd
                .set_vcpu_events(&kvm_vcpu_events::default())
                .map_err(failed("reset what the guest waits for"))
        });
        self.note_failure(done);
        self.put_registers(&Registers::initial(self.signature));
        self.task_priority = 0;
        self.vector = None;
        self.halted = false;
        self.shutdown = None;
    }

    fn system(&self) -> SystemRegisters {
        self.kvm_system()
            .map_or_else(|_| SystemRegisters::default(), registers::system)
    }

    fn set_system(&mut self, system: &SystemRegisters) {
        let done = self.put_system(system);
        self.note_failure(done);
    }

    fn translate(&self, linear: u64, access: Access) -> Option<u64> {
        let system = self.system();
        match walk::translate(&self.machine.ram, &system, linear, access) {
            Walked::At(place) => Some(place),
            Walked::NotMapped => None,
            // KVM translates with supervisor privileges.
            Walked::OtherMode if registers::is_user(&system) => None,
            Walked::OtherMode => {
                let found = self.fd.translate_gva(linear).ok()?;
                (found.valid != 0).then_some(found.physical_address)
            }
        }
    }

    fn complete_magic(&mut self, target: u64) {
        let registers = &mut self.fd.sync_regs_mut().regs;
        registers.r11 = target;
        registers.rip = registers.rip.wrapping_add(MAGIC_LENGTH);
        self.fd.set_sync_dirty_reg(SyncReg::Register);
    }

    /// Instructions are not counted, so there is no such limit.
    fn stop_at(&mut self, _: u64) {}

    fn state(&self) -> Vec<StateItem> {
        let mut items = register_items(&self.registers(), &self.system());
        items.push(StateItem::word("cr8", self.task_priority.into()));
        items.push(StateItem::word("tsc.offset", self.clock.guest_offset));
        items
    }

    fn save(&mut self) -> Result<CpuState, CpuError> {
        self.save_state()
    }

    fn load(&mut self, state: &CpuState) -> Result<(), CpuError> {
        self.load_state(state)
    }

    /// The processor's own RDRAND cannot be seeded.
    fn reseed(&mut self, _: Seed, _: u64) {}

    fn report(&self) -> EngineReport {
        let mut warnings = Vec::new();
        if self.misses_breakpoints() {
            let text = "the guest set breakpoints of its own, which do not work under engine kvm with kvm.breakpoints = \"hardware\"; set it to \"int3\"";
            warnings.push(text.to_owned());
        }
        if self.shutdown.is_some() {
            let told = self.history.told();
            warnings.push(format!("what came before its end, last first: {told}"));
        }
        let mut counters = self.clock.counters();
        counters.push(("entries", self.entries));
        counters.push(("breakpoints_of_others", self.strangers));
        EngineReport {
            warnings,
            counters,
            ..EngineReport::default()
        }
    }
}
