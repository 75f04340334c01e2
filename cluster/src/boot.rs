//! `belljar boot`: one node with any kernel, its serial console on standard output.
//!
//! Without input a boot repeats to the cycle; what is typed reaches the guest by the host's clock. There is
//! no network and no trace, and what the guest writes to its disks is gone at its end. Called by
//! `command/boot.rs` alone.
// How long somebody at the keyboard waits is the host's time.
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
use crate::plan::parts::{DISK_LATENCY, START_DATE};
use crate::plan::processors::{Maker, Virtualisation};
use crate::scenario::engine::{Engine, KvmOptions};

/// How far a node runs before its console is looked at.
const STEP: Span = Span::from_ms(1);

/// What a node is booted with.
#[derive(Clone, Debug)]
pub struct BootPlan {
    /// What carries the node.
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
    /// How long each runs before it is the next one's turn; what suits the engine when
    /// absent.
    pub slice: Option<Span>,
    /// The processors' clock.
    pub clock: Frequency,
    /// The instructions that the processor has.
    pub instruction_set: InstructionSet,
    /// Virtual time after which the node is given up.
    pub limit: Option<Time>,
    /// Whether there is an exit device.
    pub exit_device: bool,
    /// Disk images, in the order of `/dev/vda`, `/dev/vdb`, ...; what the guest writes
    /// to them is gone when it ends.
    pub disks: Vec<PathBuf>,
}

/// Why a node cannot be booted or cannot continue.
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
    /// The host cannot carry it with that engine.
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
    /// The guest's thread cannot be kept from what it must not do.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Standard output is gone.
    #[error("cannot write the console to standard output: {0}")]
    Output(io::Error),
}

/// How a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootEnding {
    /// By itself.
    Node(NodeStop),
    /// The limit of virtual time came first.
    Limit,
    /// It waits, and nothing can come.
    Asleep,
    /// Whoever sits at the keyboard left.
    Left,
}

/// Where a step of a node began.
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

/// A node with its console at hand.
pub struct Booted {
    node: Node,
    engine: Engine,
    limit: Time,
}

/// What makes processors of the exact engine.
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
    /// Loads everything and builds the node.
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

    /// As [`run`](Self::run) with standard output, in a thread of its own in `sandbox`.
    ///
    /// # Errors
    /// [`BootError`] when the host fails the node, the output or the sandbox.
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

    /// Runs the node to its end, or until somebody sets `stop`. What is typed reaches it when it is typed, by the
    /// host's clock: only a run without input repeats to the cycle.
    ///
    /// # Errors
    /// [`BootError`] when the host fails the node or the output.
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

    /// The virtual time that the processor slept since then: what somebody at a
    /// keyboard should feel of it.
    fn idle_since(&self, start: &Start) -> Duration {
        let passed = self.node.now().since(start.now);
        let passed = Duration::from_nanos(passed.as_ps() / 1000);
        let busy = match self.engine {
            Engine::Exact => {
                let retired = self.node.retired() - start.retired;
                let busy = self.node.frequency().time_of(retired).since(Time::ZERO);
                Duration::from_nanos(busy.as_ps() / 1000)
            }
            // Whoever sits there felt all of that already.
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

    /// Where its processor stands.
    pub fn rip(&self) -> u64 {
        self.node.registers().rip
    }

    /// What virtio devices complain of, by their slots, when the guest's driver broke a queue.
    pub fn complaints(&self) -> Vec<(usize, String)> {
        self.node.complaints()
    }

    /// What the engine tells of the run.
    pub fn report(&self) -> EngineReport {
        self.node.engine_report()
    }
}
