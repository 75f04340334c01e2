//! One guest node: memory, boot, devices and the run loop.
//!
//! A [`Node`] is built from a [`NodeConfig`] and its vCPUs; from then on it only
//! runs: [`Node::run_until`] a point of virtual time, with frames put in and taken
//! out between runs. What a node does is a pure function of its configuration and
//! of what was delivered to it and when; how the time was cut into runs changes nothing,
//! as long as nodes of several vCPUs are cut between slices.
//!
//! `node` is on top: it has `boot` load a kernel and `snapshot` keep or give back a state. `boot` imports
//! `config`, which imports of `boot` the kernel's file and the memory layout alone. `kept` writes pages for
//! checkpoints and imports none of them.

/// From a kernel file to a processor that stands at the kernel's first instruction.
mod boot;
/// What a node is made of.
mod config;
/// The processor that a guest sees.
pub mod cpuid;
/// The pages of a node's RAM in files, of which only changed ones are written.
mod kept;
/// A node and its run loop.
mod node;
/// A node as a file, of which any number of nodes can be clones.
mod snapshot;

pub use boot::{BootError, DEFAULT_COMMAND_LINE, DecompressError, KernelError, KernelImage};
pub use config::{
    ConfigError, DiskConfig, MOST_VCPUS, NetConfig, NodeConfig, check_clock, check_memory,
};
pub use kept::{KeptError, KeptPages, PackWriter, Packs, PageMap};
pub use node::{
    BadAddress, ExitCounts, Node, NodeError, NodeStop, NoiseCounts, NoiseSource, Sampling,
    StateHashes, VcpuParts,
};
pub use snapshot::{Identity, Snapshot, SnapshotError, first_difference};
