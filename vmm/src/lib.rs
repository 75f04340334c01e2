//! One guest node: memory, boot, devices and the run loop.
//!
//! A [`Node`] is built from a [`NodeConfig`] and its vCPUs; from then on it only
//! runs: [`Node::run_until`] a point of virtual time, with frames put in and taken
//! out between runs. What a node does is a pure function of its configuration and
//! of what was delivered to it and when; how the time was cut into runs changes nothing,
//! as long as nodes of several vCPUs are cut between slices.

mod boot;
mod config;
pub mod cpuid;
mod kept;
mod node;
mod snapshot;

pub use boot::{BootError, DEFAULT_COMMAND_LINE, DecompressError, KernelError, KernelImage};
pub use config::{
    ConfigError, DiskConfig, MOST_VCPUS, NetConfig, NodeConfig, check_clock, check_memory,
};
pub use kept::{KeptError, KeptPages, PackWriter, Packs, PageMap};
pub use node::{BadAddress, ExitCounts, Node, NodeError, NodeStop, StateHashes, VcpuParts};
pub use snapshot::{Identity, Snapshot, SnapshotError, first_difference};
