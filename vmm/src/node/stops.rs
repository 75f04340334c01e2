//! Why a run of a node ended.
//!
//! A `NodeStop` is the guest's doing or what the caller asked for, a `NodeError` is the host's or
//! the configuration's. A node that has ended returns the same stop again; after any other it can
//! be run on.

use belljar_cpu::{CpuError, Cycles, ShutdownCause};
use belljar_sim::CodecError;
use serde::{Deserialize, Serialize};

use crate::boot::BootError;
use crate::config::ConfigError;
use crate::snapshot::SnapshotError;

/// Why [`Node::run_until`](crate::Node::run_until) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeStop {
    /// The clock reached the limit.
    Limit,
    /// As many instructions retired on all processors together as [`Node::pause_at`](crate::Node::pause_at) asked
    /// for; continues once that is set to a later one.
    Paused,
    /// The guest switched itself off.
    PoweredOff,
    /// The guest reset itself, as a panicking kernel does under the default command line.
    Reset,
    /// A processor cannot continue.
    Shutdown(ShutdownCause),
    /// A call of the preloaded library; ends with
    /// [`Node::complete_magic`](crate::Node::complete_magic).
    Magic {
        /// The cycle of the call.
        at: Cycles,
        /// The number of the processor that calls.
        vcpu: u32,
    },
    /// The guest wrote this value to the exit device.
    Exited(u32),
    /// Every processor is halted with interrupts disabled: nothing can wake the node.
    Hung,
    /// A user's code came to a probe; [`Node::probed`](crate::Node::probed) tells what was
    /// before the instruction there, which is done. The node continues by itself.
    Probe {
        /// The probe's number.
        probe: u32,
        /// The number of the processor that came to it.
        vcpu: u32,
    },
    /// A user's code came to an address that was asked for with
    /// [`Node::watch_return`](crate::Node::watch_return), perhaps not for the first time since
    /// the call. The node continues by itself.
    Return {
        /// The cycle.
        at: Cycles,
        /// The number of the processor.
        vcpu: u32,
    },
    /// A processor that executes came to points of time that [`Node::sample_every`](crate::Node::sample_every) asked
    /// for. The node continues by itself.
    Sample {
        /// The number of the last of them: its time is so many times the span between them.
        number: u64,
        /// How many of them it came to at once: one, but for instructions that take longer.
        count: u64,
        /// The number of the processor.
        vcpu: u32,
    },
}

impl From<CodecError> for NodeError {
    fn from(error: CodecError) -> Self {
        Self::State(error.to_string())
    }
}

/// Why a node cannot be built or cannot continue. None is the guest's doing.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The configuration is outside its limits.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kernel cannot be brought to its first instruction.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The host refuses the memory.
    #[error("the host refuses {bytes} bytes of guest memory: {source}; use smaller or fewer nodes")]
    Memory {
        /// Bytes asked for.
        bytes: u64,
        /// The host's reason.
        source: vm_memory::mmap::FromRangesError,
    },
    /// The engine failed.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// Saved state is not that of such a node.
    #[error("a node's saved state does not fit: {0}")]
    State(String),
    /// A snapshot is not usable.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A disk's image file failed.
    #[error(
        "disk {name} failed on the host: {source}; check that its image is readable and unchanged"
    )]
    Disk {
        /// The disk's name in the configuration.
        name: String,
        /// The host's reason.
        source: std::io::Error,
    },
}
