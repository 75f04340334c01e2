//! A node and its run loop.
//!
//! A node's behaviour does not depend on the host's clock, on threads or on the lengths of runs:
//! every input has its virtual time. The cluster's runner, `belljar boot` and the fuzz targets run
//! nodes. A node makes no callbacks; a run returns a `NodeStop`.

/// Detours of processors at given times.
mod absence;
/// Deliveries to a node, ordered by time, then by request.
mod arrivals;
/// Commands to a node's init at given times.
mod commands;
/// A node's devices and its two buses.
mod devices;
/// Handles a processor's exits.
mod exits;
/// A node's state for inspection: hashes of all of it, and its parts.
mod inspect;
/// Calls of the preloaded library, and their continuation.
mod magic;
/// A node's memory as the running process sees it.
mod memory;
/// Detours of a node's processors.
mod noise;
/// A processor of a node: an engine, and the state of its turn.
mod processor;
/// The rotation of turns among a node's processors.
mod rotation;
/// Stops at points of virtual time.
mod sampling;
/// Saving and restoring a node's state, apart from its RAM.
mod saved;
/// Reasons for the end of a node's run.
mod stops;
/// A fast path for turns in which a node only executes instructions.
mod stretch;
/// A node that takes the place of one that lost power.
mod succession;
/// The run loop: turn by turn, exit by exit.
mod turns;

use belljar_cpu::{
    CpuidTable, Cycles, EngineReport, GuestRam, InstructionSet, Registers, StateItem,
    SystemRegisters, TimeAccount, Vcpu, guest_ram, prefer_huge_pages,
};
use belljar_devices::virtio::NetCounters;
use belljar_hca::{HcaCounters, PairCongestion};
use belljar_sim::{Frequency, Time};

use crate::config::NodeConfig;
use crate::{boot, cpuid};
use absence::Absences;
use arrivals::{Arrivals, NodeInput};
use commands::Commands;
use devices::{CONTROL, Devices};
use noise::Noise;
use processor::{Activity, Processor};
use rotation::Rotation;
use succession::EarlierCounters;

pub use absence::Absence;
pub use exits::ExitCounts;
pub use inspect::StateHashes;
pub use memory::BadAddress;
pub use noise::{NoiseCounts, NoiseSource};
pub use sampling::Sampling;
pub use stops::{NodeError, NodeStop};

/// The inputs of an engine: a node's memory and a processor's identity.
#[derive(Clone, Debug)]
pub struct VcpuParts {
    /// The processor's number in the node, from 0.
    pub index: u32,
    /// The node's RAM, shared with its devices and its other processors.
    pub ram: GuestRam,
    /// The answers of CPUID.
    pub cpuid: CpuidTable,
    /// The instruction set that CPUID reports.
    pub instruction_set: InstructionSet,
}

impl VcpuParts {
    /// The number of the random stream of processor `vcpu` of node `node`. The first processor's
    /// stream does not depend on the number of processors.
    pub fn random_stream(vcpu: u32, node: u64) -> u64 {
        u64::from(vcpu) << 32 | node
    }
}

/// One guest node.
///
/// Its processors run by turns; see `rotation`. Events of one cycle are handled in a fixed order:
/// the local APIC's timer, messages from other processors, disks by slot, commands, then deliveries by
/// request. Then the processor takes interrupts by priority. Events of the whole node happen in the
/// turn of the first processor that reaches their time.
pub struct Node {
    processors: Vec<Processor>,
    rotation: Rotation,
    devices: Devices,
    frequency: Frequency,
    arrivals: Arrivals,
    commands: Commands,
    counts: ExitCounts,
    magic: Option<Cycles>,
    /// A reached probe or return address that was not yet returned as a stop.
    seen: Option<NodeStop>,
    /// True if it has watchpoints.
    is_watched: bool,
    /// Number of retired instructions at which the node stops for its owner.
    pause: u64,
    /// See `stretch`.
    undisturbed: Cycles,
    /// Points of time at which it stops for its owner, if any.
    sampling: Option<Sampling>,
    /// Detours of the processors, if any.
    noise: Option<Noise>,
    /// Detours at given times.
    absences: Absences,
    /// Counters of the nodes whose place it took.
    earlier: EarlierCounters,
    ended: Option<NodeStop>,
}

impl Node {
    /// Builds the node that `config` describes: allocates memory, loads the kernel, and creates the
    /// processors in order with `engine`. The first is set to the kernel's entry; the others wait
    /// until the guest starts them.
    ///
    /// # Errors
    /// [`NodeError`] if the configuration is outside its limits, the kernel or the initrd does not
    /// fit, or the host refuses memory or the engine.
    pub fn new<F>(config: &NodeConfig, engine: F) -> Result<Self, NodeError>
    where
        F: FnMut(VcpuParts) -> Result<Box<dyn Vcpu + Send>, belljar_cpu::CpuError>,
    {
        config.check()?;
        let ram = Self::blank_ram(config.memory)?;
        if config.huge_pages {
            prefer_huge_pages(&ram);
        }
        let start = boot::load(config, &ram)?;
        let mut node = Self::of_parts(config, ram, engine)?;
        for processor in &mut node.processors[1..] {
            processor.vcpu.init();
            processor.activity = Activity::Waiting;
        }
        let first = &mut node.processors[0].vcpu;
        first.set_system(&start.system);
        first.set_registers(&start.registers);
        Ok(node)
    }

    /// The initial RAM of a node that is not a clone: `bytes` zeros.
    ///
    /// # Errors
    /// If the host refuses the memory.
    pub fn blank_ram(bytes: u64) -> Result<GuestRam, NodeError> {
        guest_ram(&boot::ram_ranges(bytes)).map_err(|source| NodeError::Memory { bytes, source })
    }

    /// Assembles the node from its parts, with processors created by `engine`.
    fn of_parts<F>(config: &NodeConfig, ram: GuestRam, mut engine: F) -> Result<Self, NodeError>
    where
        F: FnMut(VcpuParts) -> Result<Box<dyn Vcpu + Send>, belljar_cpu::CpuError>,
    {
        let mut processors = Vec::new();
        for index in 0..config.vcpus {
            let place = cpuid::ProcessorPosition {
                id: index,
                of: config.vcpus,
            };
            let vcpu = engine(VcpuParts {
                index,
                ram: ram.clone(),
                cpuid: cpuid::table(config.frequency, place, &config.instruction_set),
                instruction_set: config.instruction_set.clone(),
            })?;
            processors.push(Processor::new(vcpu, Activity::Running));
        }
        Ok(Self {
            rotation: Rotation::new(processors.len(), config.slice, config.frequency),
            processors,
            devices: Devices::new(config, ram),
            frequency: config.frequency,
            arrivals: Arrivals::default(),
            commands: Commands::default(),
            counts: ExitCounts::default(),
            magic: None,
            seen: None,
            is_watched: false,
            pause: u64::MAX,
            undisturbed: 0,
            sampling: None,
            noise: None,
            absences: Absences::default(),
            earlier: EarlierCounters::default(),
            ended: None,
        })
    }

    /// The processor whose turn it is.
    fn current(&self) -> &Processor {
        &self.processors[self.rotation.current]
    }

    fn current_mut(&mut self) -> &mut Processor {
        &mut self.processors[self.rotation.current]
    }

    /// The number of processors.
    pub fn vcpus(&self) -> usize {
        self.processors.len()
    }

    /// The number of the processor whose turn it is: the subject of [`registers`](Self::registers)
    /// and [`system`](Self::system).
    pub fn current_vcpu(&self) -> u32 {
        self.rotation.current as u32
    }

    /// The node's clock, in cycles since reset: the smallest clock of its processors.
    pub fn now_cycles(&self) -> Cycles {
        let clocks = self.processors.iter().map(Processor::now);
        clocks.min().unwrap_or(0)
    }

    /// The node's clock.
    pub fn now(&self) -> Time {
        self.frequency.time_of(self.now_cycles())
    }

    /// The processors' clock rate.
    pub fn frequency(&self) -> Frequency {
        self.frequency
    }

    /// Instructions retired by all processors, except in traced stubs.
    pub fn retired(&self) -> u64 {
        let each = self.processors.iter();
        let own: u64 = each.map(|processor| processor.vcpu.retired()).sum();
        own.saturating_add(self.earlier.retired)
    }

    /// The sum of the processors' time accounts; `None` without a time model.
    pub fn account(&self) -> Option<TimeAccount> {
        let mut accounts = self.processors.iter().map(|one| one.vcpu.account());
        let own = accounts.try_fold(TimeAccount::default(), |sum, one| Some(sum + one?));
        own.map(|own| self.earlier.account(own))
    }

    /// The time of the node's next action: now, while a processor executes; else its first own
    /// event or delivery. `None` if only a delivery can wake it, or if it has ended.
    pub fn next_event(&self) -> Option<Time> {
        if self.ended.is_some() {
            return None;
        }
        if self.is_undisturbed() {
            return Some(self.now());
        }
        let own = self.processors.iter().enumerate().map(|(index, one)| {
            let local = self.devices.interrupts.local(index);
            if one.is_busy(local) {
                return Some(self.back_at(index));
            }
            Some(local.next_deadline()?.max(self.back_at(index)))
        });
        let present = (0..self.processors.len()).map(|index| self.back_at(index));
        let present = present.min().unwrap_or_default().max(self.now_cycles());
        let shared = self.next_shared().map(|at| at.max(present));
        let cycle = own.flatten().chain(shared).min()?;
        Some(self.frequency.time_of(cycle))
    }

    /// True if the node has ended, or if its processors are halted without a due event.
    pub fn is_idle(&self) -> bool {
        let runs = |one: &Processor| one.activity == Activity::Running;
        self.next_event()
            .is_none_or(|next| !self.processors.iter().any(runs) && next > self.now())
    }

    /// Releases host memory that only makes the node faster, before a long time without runs.
    pub fn rest(&mut self) {
        for processor in &mut self.processors {
            processor.vcpu.rest();
        }
    }

    /// Delivers a frame from the wire at `at`; immediately if `at` has passed.
    pub fn deliver_frame(&mut self, at: Time, frame: Vec<u8>) {
        self.expect(at, NodeInput::Frame(frame));
    }

    /// Delivers a packet of the InfiniBand fabric, whose effect is at `at`; immediately if `at` has passed.
    pub fn deliver_packet(&mut self, at: Time, packet: Vec<u8>) {
        self.expect(at, NodeInput::Packet(packet));
    }

    /// Types `bytes` into the control console (`hvc0`) at `at`.
    pub fn write_control(&mut self, at: Time, bytes: Vec<u8>) {
        self.expect(at, NodeInput::Control(bytes));
    }

    /// Types `bytes` into the serial console (`ttyS0`) at `at`.
    pub fn write_console(&mut self, at: Time, bytes: Vec<u8>) {
        self.expect(at, NodeInput::Console(bytes));
    }

    fn expect(&mut self, at: Time, arrival: NodeInput) {
        self.disturb();
        self.arrivals.push(self.frequency.cycle_at(at), arrival);
    }

    /// Takes the frames that the node sent since the last call, ordered by the times of the
    /// notifications that sent them. The next call may return earlier ones, if a run ended within a
    /// slice.
    pub fn take_frames(&mut self) -> Vec<(Time, Vec<u8>)> {
        let frequency = self.frequency;
        let mut frames = self.devices.take_frames();
        frames.sort_by_key(|(at, _)| *at);
        frames
            .into_iter()
            .map(|(at, frame)| (frequency.time_of(at), frame))
            .collect()
    }

    /// Takes the packets that the InfiniBand card sent since the last call, each with the time from which it may be on the
    /// link, which is later than the action that sent it.
    pub fn take_packets(&mut self) -> Vec<(Time, Vec<u8>)> {
        self.devices.take_packets()
    }

    /// True if an InfiniBand card has events of its own ahead, such as timeouts.
    pub fn has_card_events(&self) -> bool {
        self.devices.has_card_events()
    }

    /// Counters of the InfiniBand card; `None` without one.
    pub fn card_counters(&self) -> Option<HcaCounters> {
        self.devices.card_counters()
    }

    /// Figures of the InfiniBand card's congestion control, by the number of the queue pair; none without a card.
    pub fn card_congestion(&self) -> Vec<(u32, PairCongestion)> {
        self.devices.card_congestion()
    }

    /// Takes the guest's output to the serial console since the last call.
    pub fn take_console(&mut self) -> Vec<u8> {
        self.devices.serial.take_output()
    }

    /// Takes the guest's output to the control console since the last call.
    pub fn take_control(&mut self) -> Vec<u8> {
        self.devices.take_output(CONTROL)
    }

    /// Takes the guest's output to console `stream` since the last call: 0 is `hvc1`, 1 is `hvc2`.
    /// Empty if the node has no such console.
    pub fn take_stream(&mut self, stream: usize) -> Vec<u8> {
        self.devices.take_output(CONTROL + 1 + stream)
    }

    /// General registers of the processor whose turn it is.
    pub fn registers(&self) -> Registers {
        self.current().vcpu.registers()
    }

    /// Segments, tables and control registers of the processor whose turn it is.
    pub fn system(&self) -> SystemRegisters {
        self.current().vcpu.system()
    }

    /// General registers of processor `vcpu`; `None` if there is no such processor.
    pub fn registers_of(&self, vcpu: u32) -> Option<Registers> {
        Some(self.processors.get(vcpu as usize)?.vcpu.registers())
    }

    /// Segments, tables and control registers of processor `vcpu`; `None` if there is no such processor.
    pub fn system_of(&self, vcpu: u32) -> Option<SystemRegisters> {
        Some(self.processors.get(vcpu as usize)?.vcpu.system())
    }

    /// The whole state of processor `vcpu` that can become visible to the guest; empty if there is no such processor.
    pub fn state_of(&self, vcpu: u32) -> Vec<StateItem> {
        let processor = self.processors.get(vcpu as usize);
        processor.map_or_else(Vec::new, |it| it.vcpu.state())
    }

    /// The sum of the engines' reports.
    pub fn engine_report(&self) -> EngineReport {
        let mut sum = EngineReport::default();
        for processor in &self.processors {
            sum.add(processor.vcpu.report());
        }
        sum
    }

    /// Exits of the processors, by kind.
    pub fn exit_counts(&self) -> ExitCounts {
        self.counts
    }

    /// The network card's counters; zeros without a card.
    pub fn net_counters(&self) -> NetCounters {
        self.earlier.net(self.devices.net_counters())
    }

    /// Nonexistent MSRs that the guest accessed, each once, in ascending order.
    pub fn unknown_msrs(&self) -> impl Iterator<Item = u32> {
        self.devices.unknown_msrs.iter().copied()
    }

    /// Complaints of virtio devices whose queue the guest's driver broke: the device's slot and the
    /// cause.
    pub fn complaints(&self) -> Vec<(usize, String)> {
        self.devices.complaints()
    }
}

#[cfg(test)]
mod tests;
