//! A node and its run loop.

mod arrivals;
mod devices;
mod exits;
mod inspect;
mod memory;
mod stops;

use belljar_cpu::{
    CpuidTable, Cycles, EngineReport, Exit, GuestRam, InstructionSet, Registers, SystemRegisters,
    TimeAccount, Vcpu, guest_ram,
};
use belljar_devices::virtio::NetCounters;
use belljar_sim::{Frequency, Span, Time};

use crate::config::NodeConfig;
use crate::{boot, cpuid};
use arrivals::{Arrival, Arrivals};
use devices::Devices;
use exits::Action;

pub use exits::ExitCounts;
pub use inspect::StateHashes;
pub use memory::BadAddress;
pub use stops::{NodeError, NodeStop};

const INTERRUPT_FLAG: u64 = 1 << 9;

/// What an engine is made from: a node's memory and its processor's identity.
#[derive(Clone, Debug)]
pub struct VcpuParts {
    /// The node's RAM, shared with its devices.
    pub ram: GuestRam,
    /// What CPUID answers.
    pub cpuid: CpuidTable,
    /// The instructions that it promises.
    pub instruction_set: InstructionSet,
}

/// One guest node.
///
/// Events that fall on one cycle happen in a fixed order: the local APIC's timer,
/// then disks in the order of their slots, then deliveries in the order in which
/// they were asked for; then the processor takes interrupts by priority.
pub struct Node {
    vcpu: Box<dyn Vcpu + Send>,
    devices: Devices,
    frequency: Frequency,
    arrivals: Arrivals,
    counts: ExitCounts,
    halted: bool,
    /// An instruction whose question was answered has yet to end: nothing may be
    /// delivered before it has.
    unfinished: bool,
    window: bool,
    nmi_window: bool,
    magic: Option<Cycles>,
    /// Retired instructions at which the node stops for its owner to look at it.
    pause: u64,
    ended: Option<NodeStop>,
}

impl Node {
    /// Builds the node that `config` describes: allocates memory, loads the kernel,
    /// and has `engine` make the processor, which is then set to the kernel's entry.
    ///
    /// # Errors
    /// [`NodeError`], when the configuration is outside its limits, the kernel or
    /// the initrd does not fit, or the host refuses memory or the engine.
    pub fn new<F>(config: &NodeConfig, engine: F) -> Result<Self, NodeError>
    where
        F: FnOnce(VcpuParts) -> Result<Box<dyn Vcpu + Send>, belljar_cpu::CpuError>,
    {
        config.check()?;
        let ram =
            guest_ram(&boot::ram_ranges(config.memory)).map_err(|source| NodeError::Memory {
                bytes: config.memory,
                source,
            })?;
        let start = boot::load(config, &ram)?;
        let mut vcpu = engine(VcpuParts {
            ram: ram.clone(),
            cpuid: cpuid::table(config.frequency, 0, &config.instruction_set),
            instruction_set: config.instruction_set.clone(),
        })?;
        vcpu.set_system(&start.system);
        vcpu.set_registers(&start.registers);
        Ok(Self {
            vcpu,
            devices: Devices::new(config, ram),
            frequency: config.frequency,
            arrivals: Arrivals::default(),
            counts: ExitCounts::default(),
            halted: false,
            unfinished: false,
            window: false,
            nmi_window: false,
            magic: None,
            pause: u64::MAX,
            ended: None,
        })
    }

    /// Runs until the node's clock reaches `limit`, or until something stops it.
    /// What is due at `limit` itself happens in the next run, so that what is
    /// delivered for that very time can still come before it.
    ///
    /// A node that ended (power-off, reset, shutdown, hang) returns the same stop again.
    ///
    /// # Errors
    /// [`NodeError`] when the host fails the engine or a disk; never by the guest's doing.
    pub fn run_until(&mut self, limit: Time) -> Result<NodeStop, NodeError> {
        self.run_while(self.frequency.cycle_at(limit), None)
    }

    /// Runs for a caller that has other nodes to run: until about `limit`, never beyond
    /// it, and coming back with [`NodeStop::Limit`] earlier
    /// - some instructions before `limit`, where stopping there costs less;
    /// - `echo` after the first frame that it sent, before which no answer can come, so
    ///   that `limit` need not consider answers;
    /// - as soon as the guest wrote to its control console.
    ///
    /// What the guest does depends on none of this.
    ///
    /// # Errors
    /// As [`run_until`](Self::run_until).
    pub fn run_ahead(&mut self, limit: Time, echo: Span) -> Result<NodeStop, NodeError> {
        self.run_while(self.frequency.cycle_at(limit), Some(echo))
    }

    /// The last cycle but one that a run with others may reach.
    fn bound(&self, limit: Cycles, echo: Span) -> Cycles {
        if self.devices.console.device().has_output() {
            return 0;
        }
        self.devices.first_frame().map_or(limit, |sent| {
            let answer = self.frequency.time_of(sent) + echo;
            limit.min(self.frequency.cycle_at(answer))
        })
    }

    fn run_while(&mut self, limit: Cycles, echo: Option<Span>) -> Result<NodeStop, NodeError> {
        loop {
            if let Some(stop) = self.ended {
                return Ok(stop);
            }
            if let Some(at) = self.magic {
                return Ok(NodeStop::Magic { at });
            }
            if self.vcpu.retired() >= self.pause {
                return Ok(NodeStop::Paused);
            }
            let limit = echo.map_or(limit, |echo| self.bound(limit, echo));
            let now = self.vcpu.now();
            if now >= limit {
                return Ok(NodeStop::Limit);
            }
            if !self.unfinished {
                self.fire_due(now)?;
                self.take_interrupts();
            }
            let next = self.next_cycle().filter(|cycle| *cycle < limit);
            if self.halted {
                self.wait(next.unwrap_or(limit));
            } else {
                let about = next.is_none() && echo.is_some();
                let spent = self.execute(next.unwrap_or(limit), about)?;
                if about && spent {
                    return Ok(NodeStop::Limit);
                }
            }
        }
    }

    /// Makes runs stop with [`NodeStop::Paused`] when `instructions` have retired, before
    /// anything else happens; `u64::MAX` for never. Stopping changes nothing of the run.
    pub fn pause_at(&mut self, instructions: u64) {
        self.pause = instructions;
        self.vcpu.stop_at(instructions);
    }

    /// Lets a halted processor's time pass.
    fn wait(&mut self, until: Cycles) {
        if self.vcpu.registers().rflags & INTERRUPT_FLAG == 0 {
            self.ended = Some(NodeStop::Hung);
        } else {
            self.vcpu.skip_to(until);
        }
    }

    /// Runs the processor until `until`, or `about` then. Whether it did nothing but run.
    fn execute(&mut self, until: Cycles, about: bool) -> Result<bool, NodeError> {
        // An answered read may have raised an interrupt that its instruction's end lets in.
        self.ask_for_window();
        let exit = if about {
            self.vcpu.run_about(until)?
        } else {
            self.vcpu.run(until)?
        };
        self.unfinished = false;
        self.counts.count(&exit);
        let now = self.vcpu.now();
        match exits::handle(&exit, &mut self.devices, now)? {
            Action::Continue => {}
            Action::Answer(value) => {
                self.vcpu.complete_read(value);
                self.unfinished = true;
            }
            Action::RefuseMsr => {
                self.vcpu.refuse_msr();
                self.unfinished = true;
            }
            Action::TakeTaskPriority => {
                let class = self.vcpu.task_priority();
                self.devices.interrupts.local.set_task_class(class);
            }
            Action::SetTaskPriority(class) => self.vcpu.set_task_priority(class),
            Action::Halt => self.halted = true,
            Action::Magic(at) => self.magic = Some(at),
            Action::End(stop) => self.ended = Some(stop),
        }
        Ok(exit == Exit::Deadline)
    }

    /// Does what is due at or before `now`.
    fn fire_due(&mut self, now: Cycles) -> Result<(), NodeError> {
        self.devices.advance(now)?;
        while let Some(arrival) = self.arrivals.pop_due(now) {
            match arrival {
                Arrival::Frame(frame) => self.devices.receive_frame(frame)?,
                Arrival::Control(bytes) => self.devices.receive_control(&bytes)?,
                Arrival::Console(bytes) => self.devices.receive_console(&bytes),
            }
        }
        Ok(())
    }

    fn take_interrupts(&mut self) {
        if self.devices.interrupts.local.has_nmi() && self.vcpu.takes_nmi() {
            self.devices.interrupts.local.accept_nmi();
            self.vcpu.nmi();
            self.counts.interrupts += 1;
            self.halted = false;
        }
        while let Some(vector) = self.devices.interrupts.local.pending() {
            if !self.vcpu.interruptible() {
                break;
            }
            self.devices.interrupts.local.accept(vector);
            self.vcpu.interrupt(vector);
            self.counts.interrupts += 1;
            self.halted = false;
        }
    }

    fn ask_for_window(&mut self) {
        let wanted = self.devices.interrupts.local.pending().is_some();
        if wanted != self.window {
            self.vcpu.request_interrupt_window(wanted);
            self.window = wanted;
        }
        let nmi = self.devices.interrupts.local.has_nmi();
        if nmi != self.nmi_window {
            self.vcpu.request_nmi_window(nmi);
            self.nmi_window = nmi;
        }
    }

    fn next_cycle(&self) -> Option<Cycles> {
        self.devices
            .deadline()
            .into_iter()
            .chain(self.arrivals.next())
            .min()
    }

    /// The node's clock, in cycles of its processor since reset.
    pub fn now_cycles(&self) -> Cycles {
        self.vcpu.now()
    }

    /// The node's clock.
    pub fn now(&self) -> Time {
        self.frequency.time_of(self.vcpu.now())
    }

    /// The processor's clock rate.
    pub fn frequency(&self) -> Frequency {
        self.frequency
    }

    /// Instructions retired, those of traced stubs left out.
    pub fn retired(&self) -> u64 {
        self.vcpu.retired()
    }

    /// What the node's time went into so far; `None` without a time model.
    pub fn account(&self) -> Option<TimeAccount> {
        self.vcpu.account()
    }

    /// When the node does something next: now, while its processor executes; else
    /// at its first own event or delivery. `None`: only a delivery can wake it, or
    /// it has ended.
    pub fn next_event(&self) -> Option<Time> {
        if self.ended.is_some() {
            return None;
        }
        let local = &self.devices.interrupts.local;
        let interrupted = (self.vcpu.interruptible() && local.pending().is_some())
            || (self.vcpu.takes_nmi() && local.has_nmi());
        if !self.halted || interrupted {
            return Some(self.now());
        }
        let cycle = self.next_cycle()?.max(self.vcpu.now());
        Some(self.frequency.time_of(cycle))
    }

    /// Whether the node has ended, or its processor is halted and nothing is due yet.
    pub fn is_idle(&self) -> bool {
        self.next_event()
            .is_none_or(|next| self.halted && next > self.now())
    }

    /// Delivers a frame from the wire at `at`; one in the past arrives at once.
    pub fn deliver_frame(&mut self, at: Time, frame: Vec<u8>) {
        self.arrivals
            .push(self.frequency.cycle_at(at), Arrival::Frame(frame));
    }

    /// Types `bytes` into the control console (`hvc0`) at `at`.
    pub fn write_control(&mut self, at: Time, bytes: Vec<u8>) {
        self.arrivals
            .push(self.frequency.cycle_at(at), Arrival::Control(bytes));
    }

    /// Types `bytes` into the serial console (`ttyS0`) at `at`.
    pub fn write_console(&mut self, at: Time, bytes: Vec<u8>) {
        self.arrivals
            .push(self.frequency.cycle_at(at), Arrival::Console(bytes));
    }

    /// Takes the frames that the node sent since the last call, in order, each with
    /// the time of the notification that sent it.
    pub fn take_frames(&mut self) -> Vec<(Time, Vec<u8>)> {
        let frequency = self.frequency;
        let frames = self.devices.take_frames().into_iter();
        frames
            .map(|(at, frame)| (frequency.time_of(at), frame))
            .collect()
    }

    /// Takes what the guest wrote to the serial console since the last call.
    pub fn take_console(&mut self) -> Vec<u8> {
        self.devices.serial.take_output()
    }

    /// Takes what the guest wrote to the control console since the last call.
    pub fn take_control(&mut self) -> Vec<u8> {
        self.devices.console.device_mut().take_output()
    }

    /// General registers of the processor.
    pub fn registers(&self) -> Registers {
        self.vcpu.registers()
    }

    /// Segments, tables and control registers of the processor.
    pub fn system(&self) -> SystemRegisters {
        self.vcpu.system()
    }

    /// What the engine tells of the run so far.
    pub fn engine_report(&self) -> EngineReport {
        self.vcpu.report()
    }

    /// Ends a magic stop: the guest goes on behind the magic instruction with
    /// `target` in R11. Without a magic stop it does nothing.
    pub fn complete_magic(&mut self, target: u64) {
        if self.magic.take().is_some() {
            self.vcpu.complete_magic(target);
        }
    }

    /// Exits of the processor, by kind.
    pub fn exit_counts(&self) -> ExitCounts {
        self.counts
    }

    /// What the network card counted; zeros without one.
    pub fn net_counters(&self) -> NetCounters {
        self.devices.net_counters()
    }

    /// MSRs that the guest asked for and that do not exist, each once, in the
    /// order of their numbers.
    pub fn unknown_msrs(&self) -> impl Iterator<Item = u32> {
        self.devices.unknown_msrs.iter().copied()
    }

    /// What a virtio device complains of, when the guest's driver broke a queue:
    /// the device's slot and the cause.
    pub fn complaints(&self) -> Vec<(usize, String)> {
        self.devices.complaints()
    }
}

#[cfg(test)]
mod tests;
