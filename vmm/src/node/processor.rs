//! One of a node's processors: an engine, and what the node knows of its turn.
//!
//! The clock of a processor never goes back, and interrupts are delivered only where the engine can
//! take one. The run loop runs the one whose turn it is; `saved` has each one's state.

use super::NodeError;
use belljar_cpu::{CpuState, Cycles, Registers, Segment, SegmentRegister, Vcpu};
use belljar_devices::apic::{LocalApic, StartSignal};
use serde::{Deserialize, Serialize};

const INTERRUPT_FLAG: u64 = 1 << 9;
/// A code segment in real mode: present, executable, readable, accessed.
const REAL_MODE_CODE: u16 = 0x9b;
const REAL_MODE_LIMIT: u32 = 0xffff;

/// What a processor does when it has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Activity {
    /// It executes instructions.
    Running,
    /// It lets time pass until an interrupt comes.
    Halted,
    /// It lets time pass until it is started.
    Waiting,
}

/// A processor.
pub(super) struct Processor {
    pub(super) vcpu: Box<dyn Vcpu + Send>,
    pub(super) activity: Activity,
    /// An instruction whose question was answered has yet to end: nothing may be
    /// delivered before it has.
    pub(super) unfinished: bool,
    window: bool,
    nmi_window: bool,
}

/// A processor as it is saved.
#[derive(Serialize, Deserialize)]
pub(super) struct ProcessorState {
    cpu: CpuState,
    activity: Activity,
    unfinished: bool,
    /// Which windows the engine was asked for.
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
        // Another engine than this one may have been asked.
        self.vcpu.request_interrupt_window(self.window);
        self.vcpu.request_nmi_window(self.nmi_window);
        Ok(())
    }

    /// The processor's clock.
    pub(super) fn now(&self) -> Cycles {
        self.vcpu.now()
    }

    /// Whether it has something to do at its present time.
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

    /// Whether nothing but another processor can make it continue.
    pub(super) fn is_dead(&self) -> bool {
        match self.activity {
            Activity::Running => false,
            Activity::Waiting => true,
            Activity::Halted => self.vcpu.registers().rflags & INTERRUPT_FLAG == 0,
        }
    }

    /// Takes the interrupts that it can take now; how many.
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

    /// Has the engine say when it can take what waits in `local`.
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

    /// Does what another processor asked for (Intel SDM volume 3, "MP Initialization
    /// Protocol Algorithm"). A start that it does not wait for is ignored.
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
