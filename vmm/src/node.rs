//! A node and its run loop.
//!
//! A node does the same whatever the host's clock, threads and the lengths of runs are: all that
//! comes from outside comes with its virtual time. The cluster's runner, `belljar boot` and the
//! fuzz targets run nodes; a node calls nobody, but returns a `NodeStop`.

/// What arrives at a node from outside, in the order of time, then of asking.
mod arrivals;
/// A node's devices and the two buses that lead to them.
mod devices;
/// From a processor's exit to what has to be done about it.
mod exits;
/// A node's state from outside: hashes of all of it, and its parts.
mod inspect;
/// Calls of the preloaded library, and where they continue.
mod magic;
/// A node's memory as the process sees it that runs on the processor.
mod memory;
/// Detours of a node's processors.
mod noise;
/// One of a node's processors: an engine, and what the node knows of its turn.
mod processor;
/// Whose turn it is: a node's processors run one after the other.
mod rotation;
/// Stops at points of virtual time.
mod sampling;
/// A node's state apart from its RAM, saved and taken over.
mod saved;
/// Why a run of a node ended.
mod stops;
/// A short way through turns in which a node does nothing but run.
mod stretch;
/// The run loop: turn by turn, exit by exit.
mod turns;

use std::sync::Arc;

use belljar_cpu::{
    CpuidTable, Cycles, EngineReport, GuestRam, InstructionSet, Probed, Probes, Registers,
    SystemRegisters, TimeAccount, Vcpu, guest_ram, prefer_huge_pages,
};
use belljar_devices::virtio::NetCounters;
use belljar_sim::{Frequency, Time};

use crate::config::NodeConfig;
use crate::{boot, cpuid};
use arrivals::{Arrival, Arrivals};
use devices::{CONTROL, Devices};
use noise::Noise;
use processor::{Activity, Processor};
use rotation::Rotation;

pub use exits::ExitCounts;
pub use inspect::StateHashes;
pub use memory::BadAddress;
pub use noise::{NoiseCounts, NoiseSource};
pub use sampling::Sampling;
pub use stops::{NodeError, NodeStop};

/// What an engine is made from: a node's memory and a processor's identity.
#[derive(Clone, Debug)]
pub struct VcpuParts {
    /// Which of the node's processors it is, from 0 on.
    pub index: u32,
    /// The node's RAM, shared with its devices and its other processors.
    pub ram: GuestRam,
    /// What CPUID answers.
    pub cpuid: CpuidTable,
    /// The instructions that it promises.
    pub instruction_set: InstructionSet,
}

impl VcpuParts {
    /// The number of the random stream of processor `vcpu` of node `node`: the first of a
    /// node draws what the only one would.
    pub fn random_stream(vcpu: u32, node: u64) -> u64 {
        u64::from(vcpu) << 32 | node
    }
}

/// One guest node.
///
/// Its processors run by turns; see `rotation`. Events that fall on one cycle happen in
/// a fixed order: the local APIC's timer, messages from other processors, then disks in
/// the order of their slots, then deliveries in the order in which they were asked for;
/// then the processor takes interrupts by priority. What concerns all processors happens
/// in the turn of the first that comes to its time.
pub struct Node {
    processors: Vec<Processor>,
    rotation: Rotation,
    devices: Devices,
    frequency: Frequency,
    arrivals: Arrivals,
    counts: ExitCounts,
    magic: Option<Cycles>,
    /// A probe or return address that was come to, and that nobody was told of yet.
    seen: Option<NodeStop>,
    /// Retired instructions at which the node stops for its owner to look at it.
    pause: u64,
    /// See `stretch`.
    undisturbed: Cycles,
    /// Points of time at which it stops for its owner to look at it, if there are any.
    sampling: Option<Sampling>,
    /// Detours of the processors, if there are any.
    noise: Option<Noise>,
    ended: Option<NodeStop>,
}

impl Node {
    /// Builds the node that `config` describes: allocates memory, loads the kernel,
    /// and has `engine` make the processors in order. The first is set to the kernel's
    /// entry, the others wait until it starts them.
    ///
    /// # Errors
    /// [`NodeError`], when the configuration is outside its limits, the kernel or
    /// the initrd does not fit, or the host refuses memory or the engine.
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

    /// RAM of so many bytes as a node begins with that is no clone: all zeros.
    ///
    /// # Errors
    /// When the host refuses it.
    pub fn blank_ram(bytes: u64) -> Result<GuestRam, NodeError> {
        guest_ram(&boot::ram_ranges(bytes)).map_err(|source| NodeError::Memory { bytes, source })
    }

    /// The node's parts put together, its processors as `engine` makes them.
    fn of_parts<F>(config: &NodeConfig, ram: GuestRam, mut engine: F) -> Result<Self, NodeError>
    where
        F: FnMut(VcpuParts) -> Result<Box<dyn Vcpu + Send>, belljar_cpu::CpuError>,
    {
        let mut processors = Vec::new();
        for index in 0..config.vcpus {
            let place = cpuid::Place {
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
            counts: ExitCounts::default(),
            magic: None,
            seen: None,
            pause: u64::MAX,
            undisturbed: 0,
            sampling: None,
            noise: None,
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

    /// How many processors it has.
    pub fn vcpus(&self) -> usize {
        self.processors.len()
    }

    /// The number of the processor whose turn it is, of which
    /// [`registers`](Self::registers) and [`system`](Self::system) tell.
    pub fn current_vcpu(&self) -> u32 {
        self.rotation.current as u32
    }

    /// The node's clock, in cycles since reset: that of the processor furthest behind.
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

    /// Instructions retired by all processors, those of traced stubs left out.
    pub fn retired(&self) -> u64 {
        let each = self.processors.iter();
        each.map(|processor| processor.vcpu.retired()).sum()
    }

    /// What the processors' time went into so far, added up; `None` without a time model.
    pub fn account(&self) -> Option<TimeAccount> {
        let mut accounts = self.processors.iter().map(|one| one.vcpu.account());
        accounts.try_fold(TimeAccount::default(), |sum, one| Some(sum + one?))
    }

    /// When the node does something next: now, while a processor executes; else
    /// at its first own event or delivery. `None`: only a delivery can wake it, or
    /// it has ended.
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
            Some(local.next_deadline()?.max(one.now()))
        });
        let shared = self.next_shared().map(|at| at.max(self.now_cycles()));
        let cycle = own.flatten().chain(shared).min()?;
        Some(self.frequency.time_of(cycle))
    }

    /// Whether the node has ended, or its processors are halted and nothing is due yet.
    pub fn is_idle(&self) -> bool {
        let runs = |one: &Processor| one.activity == Activity::Running;
        self.next_event()
            .is_none_or(|next| !self.processors.iter().any(runs) && next > self.now())
    }

    /// Gives host memory back that only makes the node faster: it will not run for long.
    pub fn rest(&mut self) {
        for processor in &mut self.processors {
            processor.vcpu.rest();
        }
    }

    /// Delivers a frame from the wire at `at`; one in the past arrives at once.
    pub fn deliver_frame(&mut self, at: Time, frame: Vec<u8>) {
        self.expect(at, Arrival::Frame(frame));
    }

    /// Types `bytes` into the control console (`hvc0`) at `at`.
    pub fn write_control(&mut self, at: Time, bytes: Vec<u8>) {
        self.expect(at, Arrival::Control(bytes));
    }

    /// Types `bytes` into the serial console (`ttyS0`) at `at`.
    pub fn write_console(&mut self, at: Time, bytes: Vec<u8>) {
        self.expect(at, Arrival::Console(bytes));
    }

    fn expect(&mut self, at: Time, arrival: Arrival) {
        self.disturb();
        self.arrivals.push(self.frequency.cycle_at(at), arrival);
    }

    /// Takes the frames that the node sent since the last call, in the order of the times
    /// of the notifications that sent them. The next call may give earlier ones, if a run
    /// ended within a slice.
    pub fn take_frames(&mut self) -> Vec<(Time, Vec<u8>)> {
        let frequency = self.frequency;
        let mut frames = self.devices.take_frames();
        frames.sort_by_key(|(at, _)| *at);
        frames
            .into_iter()
            .map(|(at, frame)| (frequency.time_of(at), frame))
            .collect()
    }

    /// Takes what the guest wrote to the serial console since the last call.
    pub fn take_console(&mut self) -> Vec<u8> {
        self.devices.serial.take_output()
    }

    /// Takes what the guest wrote to the control console since the last call.
    pub fn take_control(&mut self) -> Vec<u8> {
        self.devices.take_output(CONTROL)
    }

    /// Takes what the guest wrote to output console `stream` since the last call: 0 is `hvc1`,
    /// 1 is `hvc2`. One that the node has not got has nothing.
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

    /// What the engines tell of the run so far, added up.
    pub fn engine_report(&self) -> EngineReport {
        let mut sum = EngineReport::default();
        for processor in &self.processors {
            sum.add(processor.vcpu.report());
        }
        sum
    }

    /// Stops the node with [`NodeStop::Probe`] where a user's code comes to one of `probes`.
    /// Nothing of the guest changes by it. `false` when the engine can't.
    pub fn set_probes(&mut self, probes: &Arc<Probes>) -> bool {
        let mut each = self.processors.iter_mut();
        each.all(|one| one.vcpu.set_probes(probes))
    }

    /// Stops the node with [`NodeStop::Return`] when a user's code comes to linear address
    /// `target`, to which a call returns that the processor whose turn it is made just now.
    /// `false` when the engine can't, or watches as many others as it can.
    pub fn watch_return(&mut self, target: u64) -> bool {
        // What the processors of a node run they have together.
        self.current_mut().vcpu.watch_return(target)
    }

    /// Watches no return address any more.
    pub fn forget_returns(&mut self) {
        self.current_mut().vcpu.forget_returns();
    }

    /// What the processor whose turn it is was at the probe of the last stop for one, and what
    /// all processors' time had gone into by then, as [`account`](Self::account) has it.
    pub fn probed(&self) -> Option<Probed> {
        let mut probed = self.current().vcpu.probed()?;
        // The others stood still meanwhile.
        for (index, other) in self.processors.iter().enumerate() {
            if index != self.rotation.current {
                let both = probed.account.zip(other.vcpu.account());
                probed.account = both.map(|(sum, one)| sum + one);
            }
        }
        Some(probed)
    }

    /// The low halves of XMM0 to XMM7 of the processor whose turn it is.
    pub fn scalars(&self) -> [u64; 8] {
        self.current().vcpu.scalars()
    }

    /// Exits of the processors, by kind.
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
