//! `belljar boot`: one node with any kernel, its serial console on standard output.
//!
//! Without input a boot repeats to the cycle; typed input reaches the guest by the host's clock. There is no
//! network and no trace. Guests' writes to disks are discarded at the end. Called by `command/boot.rs` alone.
// The host's clock paces a node for a user at the keyboard.
#![allow(clippy::disallowed_methods)]

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use belljar_cpu::{CpuError, EngineReport, InstructionSet};
use belljar_devices::virtio::{Disk, DiskError};
use belljar_exact::{CodeShare, CyclesPerInstruction, ExactConfig, ExactVcpu};
use belljar_sim::{Frequency, Random, Seed, Span, Time};
use belljar_vmm::{DiskConfig, KernelError, KernelImage, Node, NodeConfig, NodeError, NodeStop};

use crate::host::memory as host_memory;
use crate::host::sandbox::{Reach, Sandbox, SandboxError};
use crate::observe::keyboard::Keyboard;
use crate::plan::nodes::parts::{DISK_LATENCY, START_DATE};
use crate::plan::nodes::processors::{Maker, Virtualisation};
use crate::scenario::engine::{Engine, KvmOptions};

/// Virtual time between looks at a node's console.
const STEP: Span = Span::from_ms(1);

/// The parts and options of a boot.
#[derive(Clone, Debug)]
pub struct BootPlan {
    /// Engine that carries the node.
    pub engine: Engine,
    /// The kernel's file.
    pub kernel: PathBuf,
    /// The initial RAM disk's file.
    pub initrd: Option<PathBuf>,
    /// Words for the kernel's command line.
    pub append: String,
    /// RAM in bytes.
    pub memory: u64,
    /// Processors.
    pub vcpus: u32,
    /// Time slice of each processor; the engine's default when absent.
    pub slice: Option<Span>,
    /// The processors' clock.
    pub clock: Frequency,
    /// The processor's instruction set.
    pub instruction_set: InstructionSet,
    /// Virtual time limit of the node.
    pub limit: Option<Time>,
    /// True if there is an exit device.
    pub exit_device: bool,
    /// Disk images, in the order of `/dev/vda`, `/dev/vdb`, ...; guests' writes to them are discarded at the end.
    pub disks: Vec<PathBuf>,
}

/// Errors of booting or running a node.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The kernel is not usable.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A disk image is not usable.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The node failed on the host.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The host cannot carry the node with that engine.
    #[error(transparent)]
    Engine(#[from] CpuError),
    /// The initial RAM disk cannot be read.
    #[error("cannot read initrd {path}: {source}; check the path")]
    Initrd {
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The guest's thread cannot be confined.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Standard output is closed.
    #[error("cannot write the console to standard output: {0}")]
    Output(io::Error),
}

/// The end of a booted node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootEnding {
    /// The node itself ended.
    Node(NodeStop),
    /// The virtual time limit was reached.
    Limit,
    /// The node waits, and no event is pending.
    Asleep,
    /// The user at the keyboard left.
    Left,
}

/// The state of a node at the beginning of a step.
struct Start {
    now: Time,
    retired: u64,
    host: Instant,
}

impl Start {
    fn of(node: &Node) -> Self {
        Self {
            now: node.now(),
            retired: node.retired(),
            host: Instant::now(),
        }
    }
}

/// A node with a console on standard output.
pub struct Booted {
    node: Node,
    engine: Engine,
    limit: Time,
}

/// Makes processors of the exact engine.
fn exact() -> Maker {
    let share = CodeShare::default();
    Box::new(move |parts| {
        let stream = u64::from(parts.index);
        let config = ExactConfig {
            ram: parts.ram,
            cpuid: parts.cpuid,
            instruction_set: parts.instruction_set,
            ratio: CyclesPerInstruction::default(),
            timing: None,
            random: Random::new(Seed(1), belljar_exact::RANDOM_STREAM, stream),
            host_results: false,
        };
        Ok(Box::new(ExactVcpu::sharing(config, &share)?))
    })
}

impl Booted {
    /// Loads all files and builds the node.
    ///
    /// # Errors
    /// [`BootError`], naming the file and the cause.
    pub fn new(plan: &BootPlan) -> Result<Self, BootError> {
        let initrd = plan.initrd.as_ref().map(|path| {
            std::fs::read(path).map_err(|source| BootError::Initrd {
                path: path.clone(),
                source,
            })
        });
        let mut disks = Vec::new();
        for (number, path) in plan.disks.iter().enumerate() {
            disks.push(DiskConfig {
                disk: Disk::open(path)?.writable(),
                name: format!("disk{number}"),
                latency: DISK_LATENCY,
            });
        }
        let config = NodeConfig {
            index: 0,
            seed: Seed(1),
            memory: plan.memory,
            huge_pages: host_memory::is_plenty_for(plan.memory),
            vcpus: plan.vcpus,
            slice: plan.slice.unwrap_or(plan.engine.slice()),
            frequency: plan.clock,
            kernel: Arc::new(KernelImage::open(&plan.kernel)?),
            initrd: initrd.transpose()?.map(Into::into),
            command_line: plan.append.clone(),
            disks,
            net: None,
            infiniband: None,
            date: START_DATE,
            streams: 0,
            exit_device: plan.exit_device,
            instruction_set: plan.instruction_set.clone(),
        };
        let maker = match plan.engine {
            Engine::Exact => exact(),
            Engine::Kvm => Virtualisation::open(KvmOptions::default())?.maker(),
        };
        let node = Node::new(&config, maker)?;
        Ok(Self {
            node,
            engine: plan.engine,
            limit: plan.limit.unwrap_or(Time::MAX),
        })
    }

    /// As [`run`](Self::run) with standard output, in a thread confined by `sandbox`.
    ///
    /// # Errors
    /// [`BootError`] if the host fails for the node, the output or the sandbox.
    pub fn run_in(
        &mut self,
        sandbox: Option<&Sandbox>,
        keyboard: &mut Keyboard,
        stop: &AtomicBool,
    ) -> Result<BootEnding, BootError> {
        let Some(sandbox) = sandbox else {
            return self.run(&mut io::stdout().lock(), keyboard, stop);
        };
        sandbox.clone().reaching(Reach::nothing()).close_process()?;
        let ending = thread::scope(|scope| {
            let work = scope.spawn(|| {
                sandbox.enter()?;
                self.run(&mut io::stdout().lock(), keyboard, stop)
            });
            work.join()
        });
        ending.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs the node to its end, or until `stop` is set. Typed input reaches it by the host's clock, so only a
    /// run without input repeats to the cycle.
    ///
    /// # Errors
    /// [`BootError`] if the host fails for the node or the output.
    pub fn run(
        &mut self,
        output: &mut dyn Write,
        keyboard: &mut Keyboard,
        stop: &AtomicBool,
    ) -> Result<BootEnding, BootError> {
        while !stop.load(Ordering::Relaxed) {
            let start = Start::of(&self.node);
            let until = (start.now + STEP).min(self.limit);
            let stop = self.node.run_until(until)?;
            let written = self.node.take_console();
            output.write_all(&written).map_err(BootError::Output)?;
            output.flush().map_err(BootError::Output)?;
            self.node.take_control();
            match stop {
                NodeStop::Limit if self.node.now() >= self.limit => return Ok(BootEnding::Limit),
                NodeStop::Limit | NodeStop::Paused => {}
                NodeStop::Magic { .. } => {
                    self.node.pass_on_magic();
                    continue;
                }
                ended => return Ok(BootEnding::Node(ended)),
            }
            if keyboard.is_closed() && self.node.next_event().is_none() {
                return Ok(BootEnding::Asleep);
            }
            let typed = keyboard.typed(self.idle_since(&start));
            if typed.leaves {
                return Ok(BootEnding::Left);
            }
            if !typed.bytes.is_empty() {
                self.node.write_console(self.node.now(), typed.bytes);
            }
        }
        Ok(BootEnding::Left)
    }

    /// The virtual time that the processor was idle since then, which a user at the keyboard should experience in
    /// real time.
    fn idle_since(&self, start: &Start) -> Duration {
        let passed = self.node.now().since(start.now);
        let passed = Duration::from_nanos(passed.as_ps() / 1000);
        let busy = match self.engine {
            Engine::Exact => {
                let retired = self.node.retired() - start.retired;
                let busy = self.node.frequency().time_of(retired).since(Time::ZERO);
                Duration::from_nanos(busy.as_ps() / 1000)
            }
            // Under KVM this time has passed in real time.
            Engine::Kvm => start.host.elapsed(),
        };
        passed.saturating_sub(busy)
    }

    /// The node's clock.
    pub fn now(&self) -> Time {
        self.node.now()
    }

    /// Instructions retired.
    pub fn retired(&self) -> u64 {
        self.node.retired()
    }

    /// RIP of the first processor.
    pub fn rip(&self) -> u64 {
        self.node.registers().rip
    }

    /// Faults that the guest's driver caused in virtio queues, by device slots.
    pub fn complaints(&self) -> Vec<(usize, String)> {
        self.node.complaints()
    }

    /// The engine's figures.
    pub fn report(&self) -> EngineReport {
        self.node.engine_report()
    }
}
