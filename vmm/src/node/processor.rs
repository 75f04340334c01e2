//! A processor of a node: an engine, and the state of its turn.
//!
//! The clock of a processor never goes back, and interrupts are delivered only when the engine can
//! take one. The run loop runs the processor whose turn it is; `saved` saves the state of each.

use super::NodeError;
use belljar_cpu::{CpuState, Cycles, Registers, Segment, SegmentRegister, Vcpu};
use belljar_devices::apic::{LocalApic, StartSignal};
use serde::{Deserialize, Serialize};

const INTERRUPT_FLAG: u64 = 1 << 9;
/// A code segment in real mode: present, executable, readable, accessed.
const REAL_MODE_CODE: u16 = 0x9b;
const REAL_MODE_LIMIT: u32 = 0xffff;

/// The activity of a processor in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Activity {
    /// It executes instructions.
    Running,
    /// It is halted until an interrupt comes.
    Halted,
    /// It waits until another processor starts it.
    Waiting,
}

/// A processor.
pub(super) struct Processor {
    pub(super) vcpu: Box<dyn Vcpu + Send>,
    pub(super) activity: Activity,
    /// True if an instruction's read was answered but the instruction has not ended: no interrupt
    /// may be delivered before.
    pub(super) unfinished: bool,
    window: bool,
    nmi_window: bool,
}

/// The saved state of a processor.
#[derive(Serialize, Deserialize)]
pub(super) struct ProcessorState {
    cpu: CpuState,
    activity: Activity,
    unfinished: bool,
    /// The windows requested of the engine: for interrupts and for NMIs.
    windows: (bool, bool),
}

impl Processor {
    pub(super) fn new(vcpu: Box<dyn Vcpu + Send>, activity: Activity) -> Self {
        Self {
            vcpu,
            activity,
            unfinished: false,
            window: false,
            nmi_window: false,
        }
    }

    pub(super) fn save(&mut self) -> Result<ProcessorState, NodeError> {
        Ok(ProcessorState {
            cpu: self.vcpu.save()?,
            activity: self.activity,
            unfinished: self.unfinished,
            windows: (self.window, self.nmi_window),
        })
    }

    pub(super) fn load(&mut self, saved: ProcessorState) -> Result<(), NodeError> {
        self.vcpu.load(&saved.cpu)?;
        self.activity = saved.activity;
        self.unfinished = saved.unfinished;
        (self.window, self.nmi_window) = saved.windows;
        // The windows may have been requested of another engine.
        self.vcpu.request_interrupt_window(self.window);
        self.vcpu.request_nmi_window(self.nmi_window);
        Ok(())
    }

    /// The processor's clock.
    pub(super) fn now(&self) -> Cycles {
        self.vcpu.now()
    }

    /// True if it can execute or take an interrupt at its present time.
    pub(super) fn is_busy(&self, local: &LocalApic) -> bool {
        match self.activity {
            Activity::Running => true,
            Activity::Waiting => false,
            Activity::Halted => {
                (local.pending().is_some() && self.vcpu.interruptible())
                    || (local.has_nmi() && self.vcpu.takes_nmi())
            }
        }
    }

    /// True if only another processor can make it continue.
    pub(super) fn is_dead(&self) -> bool {
        match self.activity {
            Activity::Running => false,
            Activity::Waiting => true,
            Activity::Halted => self.vcpu.registers().rflags & INTERRUPT_FLAG == 0,
        }
    }

    /// Delivers the interrupts that it can take now, and returns their number.
    pub(super) fn take_interrupts(&mut self, local: &mut LocalApic) -> u64 {
        let mut taken = 0;
        if self.activity == Activity::Waiting {
            return taken;
        }
        if local.has_nmi() && self.vcpu.takes_nmi() {
            local.accept_nmi();
            self.vcpu.nmi();
            taken += 1;
        }
        while let Some(vector) = local.pending() {
            if !self.vcpu.interruptible() {
                break;
            }
            local.accept(vector);
            self.vcpu.interrupt(vector);
            taken += 1;
        }
        if taken > 0 {
            self.activity = Activity::Running;
        }
        taken
    }

    /// Requests the interrupt windows that match the pending interrupts of `local`.
    pub(super) fn ask_for_window(&mut self, local: &LocalApic) {
        let wanted = local.pending().is_some();
        if wanted != self.window {
            self.vcpu.request_interrupt_window(wanted);
            self.window = wanted;
        }
        let nmi = local.has_nmi();
        if nmi != self.nmi_window {
            self.vcpu.request_nmi_window(nmi);
            self.nmi_window = nmi;
        }
    }

    /// Performs a start signal of another processor (Intel SDM volume 3, "MP Initialization
    /// Protocol Algorithm"). A start-up without a preceding INIT is ignored.
    pub(super) fn obey(&mut self, signal: StartSignal) {
        match signal {
            StartSignal::Init => {
                self.vcpu.init();
                self.activity = Activity::Waiting;
            }
            StartSignal::StartUp(page) if self.activity == Activity::Waiting => {
                let mut system = self.vcpu.system();
                system.segments[SegmentRegister::Cs as usize] = Segment {
                    selector: u16::from(page) << 8,
                    base: u64::from(page) << 12,
                    limit: REAL_MODE_LIMIT,
                    attributes: REAL_MODE_CODE,
                };
                self.vcpu.set_system(&system);
                let registers = self.vcpu.registers();
                self.vcpu.set_registers(&Registers {
                    rip: 0,
                    ..registers
                });
                self.activity = Activity::Running;
            }
            StartSignal::StartUp(_) => {}
        }
    }
}
