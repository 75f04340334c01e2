//! `belljar boot`: arguments to a plan of one node, its end to an exit code.
//!
//! Standard output is the guest's console only; notes about the run go to standard error. The node is
//! in `cluster/src/boot.rs`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use belljar_cluster::boot::{BootEnding, BootPlan, Booted};
use belljar_cluster::observe::keyboard::Keyboard;
use belljar_cluster::scenario::engine::{Engine, KvmOptions};
use belljar_cpu::{InstructionSet, Level};
use belljar_sim::Time;
use belljar_sim::figures::counted;
use belljar_vmm::NodeStop;

use super::check::sandbox;
use crate::command::terminal::interrupt::{Deferral, Interrupted};
use belljar_cluster::scenario::engine::EngineChoice;
use belljar_cluster::scenario::quantity::{Bytes, Duration, Rate};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct BootArguments {
    /// Engine that carries the node.
    ///
    /// `exact` translates guest code, `kvm` uses the host's virtualisation, and `auto` uses it where
    /// it works.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: EngineChoice,
    /// Kernel: a bzImage, an ELF file or a multiboot file.
    ///
    /// An ELF file is Linux itself, or is entered by its PVH note.
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel: PathBuf,
    /// Initial RAM disk, or multiboot's module.
    #[arg(long, value_name = "FILE")]
    pub(crate) initrd: Option<PathBuf>,
    /// Append words to the kernel's command line; repeatable.
    ///
    /// They follow the console's words.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub(crate) append: Vec<String>,
    /// Memory of the node.
    #[arg(long, value_name = "SIZE", default_value = "512 MiB")]
    pub(crate) memory: Bytes,
    /// Number of processors, at most 64.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) vcpus: u32,
    /// Time slice of each processor, if there are several.
    ///
    /// The default is 5 us, and 1 ms under engine kvm.
    #[arg(long, value_name = "TIME")]
    pub(crate) slice: Option<Duration>,
    /// Clock of the processors.
    #[arg(long, value_name = "RATE", default_value = "2.6 GHz")]
    pub(crate) clock: Rate,
    /// Level of the processor, x86-64-v1 to x86-64-v4.
    #[arg(long, value_name = "LEVEL", default_value = "x86-64-v2")]
    pub(crate) level: String,
    /// Add an extension to the level, such as `aes`; repeatable.
    #[arg(long, value_name = "NAME")]
    pub(crate) extension: Vec<String>,
    /// Stop after this virtual time, such as `30 s`.
    #[arg(long, value_name = "TIME")]
    pub(crate) limit: Option<Duration>,
    /// Add QEMU's isa-debug-exit device at port 0xf4.
    ///
    /// Writing VALUE to the port ends with status (VALUE << 1) | 1.
    #[arg(long)]
    pub(crate) exit_device: bool,
    /// Disk image, as /dev/vda and so on; repeatable.
    ///
    /// Writes of the guest are not kept.
    #[arg(long, value_name = "FILE")]
    pub(crate) disk: Vec<PathBuf>,
    /// Pass no input to the guest.
    ///
    /// Such a run repeats to the cycle.
    #[arg(long)]
    pub(crate) no_input: bool,
    /// Disable the seccomp filter around the guest's thread.
    ///
    /// Use it only with trusted guests.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

pub(crate) fn boot(arguments: &BootArguments) -> Result<ExitCode> {
    let engine = arguments.engine.resolve(KvmOptions::default());
    let plan = BootPlan {
        engine,
        kernel: arguments.kernel.clone(),
        initrd: arguments.initrd.clone(),
        append: arguments.append.join(" "),
        memory: arguments.memory.0,
        vcpus: arguments.vcpus,
        slice: arguments.slice.map(|slice| slice.0),
        clock: arguments.clock.0,
        instruction_set: InstructionSet::new(
            arguments.level.parse::<Level>()?,
            arguments.extension.iter().map(String::as_str),
        )?,
        limit: arguments.limit.map(|limit| Time::ZERO + limit.0),
        exit_device: arguments.exit_device,
        disks: arguments.disk.clone(),
    };
    let deferral = Deferral::begin();
    let sandbox = sandbox(arguments.no_sandbox, engine)?;
    let mut booted = Booted::new(&plan)?;
    let mut keyboard = if arguments.no_input {
        Keyboard::none()
    } else {
        Keyboard::stdin()
    };
    let ending = booted.run_in(sandbox.as_ref(), &mut keyboard, deferral.flag());
    drop(keyboard);
    let ending = ending?;
    tell(&booted, engine);
    if deferral.is_wanted() && matches!(ending, BootEnding::Left) {
        return Err(Interrupted(format!("after {} of virtual time", booted.now())).into());
    }
    conclude(&booted, ending)
}

/// Prints notes about the run on standard error, as standard output is the console.
fn tell(booted: &Booted, engine: Engine) {
    let report = booted.report();
    for unknown in report.unimplemented {
        note!(
            "note: an instruction that is not implemented raised #UD {}, first at {:#x}: {:02x?}",
            counted(unknown.count, "time"),
            unknown.rip,
            unknown.bytes
        );
    }
    for warning in report.warnings {
        note!("note: {warning}");
    }
    for (slot, complaint) in booted.complaints() {
        note!("note: the virtio device in slot {slot} waits for a reset: {complaint}");
    }
    match engine {
        Engine::Exact => note!(
            "{} of virtual time, {}",
            booted.now(),
            counted(booted.retired(), "instruction")
        ),
        Engine::Kvm => note!("{} of virtual time", booted.now()),
    }
}

fn conclude(booted: &Booted, ending: BootEnding) -> Result<ExitCode> {
    match ending {
        BootEnding::Node(NodeStop::PoweredOff) => Ok(ExitCode::SUCCESS),
        // The same mapping as QEMU's isa-debug-exit, so that scripts written for it work.
        BootEnding::Node(NodeStop::Exited(value)) => Ok(ExitCode::from((value << 1 | 1) as u8)),
        BootEnding::Node(NodeStop::Reset) => bail!("the guest reset itself"),
        BootEnding::Node(NodeStop::Hung) => bail!(
            "the guest halted with interrupts off at {:#x}",
            booted.rip()
        ),
        BootEnding::Node(NodeStop::Shutdown(cause)) => {
            bail!("the guest's processor shut down: {cause}")
        }
        BootEnding::Node(stop) => bail!("the guest's processor stopped: {stop:x?}"),
        BootEnding::Left => bail!("stopped by the user"),
        BootEnding::Limit => bail!("the limit of {} came before the guest's end", booted.now()),
        BootEnding::Asleep => bail!("the guest waits, and nothing can wake it"),
    }
}
