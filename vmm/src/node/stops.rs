//! Reasons for the end of a node's run.
//!
//! A `NodeStop` is caused by the guest or requested by the caller, a `NodeError` by the host or the configuration. A
//! node that has ended returns the same stop again; after any other stop it can run on.

use belljar_cpu::{CpuError, Cycles, ShutdownCause};
use belljar_sim::CodecError;
use serde::{Deserialize, Serialize};

/// Requests for stops.
mod requested;

use crate::boot::BootError;
use crate::config::ConfigError;
use crate::snapshot::SnapshotError;

/// Reasons for the return of [`Node::run_until`](crate::Node::run_until).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeStop {
    /// The clock reached the limit.
    Limit,
    /// The processors together have retired the number of instructions of [`Node::pause_at`](crate::Node::pause_at);
    /// set a larger number to continue.
    Paused,
    /// The guest switched itself off.
    PoweredOff,
    /// The guest reset itself, as a panicking kernel does under the default command line.
    Reset,
    /// A processor cannot continue.
    Shutdown(ShutdownCause),
    /// A call of the preloaded library; continues after [`Node::complete_magic`](crate::Node::complete_magic).
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
    /// User code reached a probe; [`Node::probed`](crate::Node::probed) has the state before the instruction there,
    /// which has been executed. The node continues by itself.
    Probe {
        /// The probe's number.
        probe: u32,
        /// The number of the processor.
        vcpu: u32,
    },
    /// User code reached an address watched with [`Node::watch_return`](crate::Node::watch_return), perhaps not for
    /// the first time since the call. The node continues by itself.
    Return {
        /// The cycle.
        at: Cycles,
        /// The number of the processor.
        vcpu: u32,
    },
    /// The last instruction of a processor, or a device, accessed a range of
    /// [`Node::set_watchpoints`](crate::Node::set_watchpoints). The node continues by itself.
    Watchpoint {
        /// The number of the watchpoint in that list.
        number: u32,
        /// True for a store.
        write: bool,
        /// True if a device wrote.
        device: bool,
        /// The number of the processor.
        vcpu: u32,
    },
    /// The last instruction of a processor accessed a buffer of
    /// [`Node::set_watched_buffers`](crate::Node::set_watched_buffers);
    /// [`Node::buffer_access`](crate::Node::buffer_access) has the access. The node continues by itself.
    Buffer {
        /// The processor's cycle after the instruction.
        at: Cycles,
        /// The number of the processor.
        vcpu: u32,
    },
    /// An executing processor reached points of time requested with
    /// [`Node::sample_every`](crate::Node::sample_every). The node continues by itself.
    Sample {
        /// The number of the last of them, which is at that multiple of the span between points.
        number: u64,
        /// The number of points reached at once: one, except for instructions that take longer than the span.
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

/// Errors of building or running a node. The guest cannot cause them.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The configuration is outside its limits.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kernel cannot be loaded.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The host refuses the memory.
    #[error("the host refuses {bytes} bytes of guest memory: {source}; use smaller or fewer nodes")]
    Memory {
        /// Requested size in bytes.
        bytes: u64,
        /// The host's reason.
        source: vm_memory::mmap::FromRangesError,
    },
    /// The engine failed.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// Saved state does not fit such a node.
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
