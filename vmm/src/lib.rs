//! One guest node: memory, boot, devices and the run loop.
//!
//! A [`Node`] is built from a [`NodeConfig`] and its vCPUs; then its owner calls [`Node::run_until`] with a
//! virtual time, and delivers and takes frames between runs. A node's behaviour is a pure function of its
//! configuration and of the times and contents of deliveries. The division of time into runs has no effect,
//! as long as runs of a node with several vCPUs end between slices.
//!
//! `node` is on top: it calls `boot` to load a kernel, and `snapshot` to save and restore states. `boot`
//! imports `config`, which imports of `boot` only the kernel's file and the memory layout. `kept` writes
//! pages for checkpoints and does not import these modules.

/// Loads a kernel file and sets a processor to the kernel's first instruction.
mod boot;
/// Configurations of nodes.
mod config;
/// The processor that a guest sees.
pub mod cpuid;
/// Checkpoint files of a node's RAM, with only the changed pages.
mod kept;
/// A node and its run loop.
mod node;
/// A node as a file, from which any number of nodes can be cloned.
mod snapshot;

pub use belljar_hca::{
    Delays, HcaConfig, HcaCounters, Identity as CardIdentity, PairCongestion, Speed,
};
pub use boot::{BootError, DEFAULT_COMMAND_LINE, DecompressError, KernelError, KernelImage};
pub use config::{
    ConfigError, DiskConfig, InfinibandConfig, MOST_VCPUS, NetConfig, NodeConfig, check_clock,
    check_memory,
};
pub use kept::{KeptError, KeptPages, PackWriter, Packs, PageMap};
pub use node::{
    Absence, BadAddress, ExitCounts, Node, NodeError, NodeStop, NoiseCounts, NoiseSource, Sampling,
    StateHashes, VcpuParts,
};
pub use snapshot::{Identity, Snapshot, SnapshotError, first_difference};
