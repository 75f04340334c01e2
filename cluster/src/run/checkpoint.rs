//! A whole run between two rounds, as files from which it continues.
//!
//! Between rounds only the network has messages in flight, so the state of nodes, network, tracers and files is complete. The
//! folder [`FOLDER`](checkpoint::FOLDER) of a run directory contains:
//!
//! | file | |
//! |---|---|
//! | `base.snapshot` | the snapshot of clones; `base-1.snapshot` and so on for further groups |
//! | `N.pages` | [packs](belljar_vmm::KeptPages) of pages of nodes' RAM |
//! | `N.checkpoint` | a `record`: all other state, and the place of each page |
//!
//! A record is written under another name when all data that it refers to is on the disk, and then renamed: it is whole or
//! absent. For files that a run writes continuously (trace, consoles, captures) it has their lengths; the resumed run writes the
//! rest again, with the same content.

use std::io;
use std::path::PathBuf;

use belljar_fabric::RestoreError;
use belljar_replay::BackgroundStateError;
use belljar_sim::CodecError;
use belljar_trace::StateError;
use belljar_vmm::{KeptError, NodeError, SnapshotError};

use crate::run::runner::KeepError;

/// Run directories that continue a checkpoint of another run.
mod branch;
/// Selects the newest intact checkpoint.
mod choice;
/// An opened checkpoint.
mod found;
/// Reads the recorded input of consoles.
mod input;
/// The thread that stores checkpoints while the run continues.
mod keeper;
/// All state of a run outside its files and its nodes' pages.
mod record;
/// A run directory with two small checkpoints, for tests and fuzzing.
pub mod sample;

pub use branch::BranchPoints;
pub use choice::CheckpointChoice;
pub use found::IntactCheckpoint;
pub(crate) use found::identity;
pub(crate) use input::read_input;
pub(crate) use keeper::{Keeper, LEAST_KEPT, MOST_HOSTS, Work, pack_of};
pub use keeper::{Report, Tell};
pub(crate) use record::{CheckpointRecord, LONGEST, NodeRecord, RunRecord};

/// The folder of a run directory with its checkpoints.
pub const FOLDER: &str = "checkpoint";
/// The name of the snapshot for clones of kind number `kind`.
fn base_name(kind: usize) -> String {
    match kind {
        0 => "base.snapshot".to_owned(),
        kind => format!("base-{kind}.snapshot"),
    }
}

/// Endings of names.
const RECORD: &str = "checkpoint";
const PACK: &str = "pages";

/// Errors of making a checkpoint or resuming from it.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The host refuses a file.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The disk is nearly full.
    #[error(
        "{free} MiB are free in {folder}, and a checkpoint needs {wanted} MiB; free some space"
    )]
    Room {
        /// The folder.
        folder: PathBuf,
        /// MiB that are free.
        free: u64,
        /// MiB that the checkpoint needs, including the reserve for the run.
        wanted: u64,
    },
    /// A record exceeds the limit of reading.
    #[error("{what} is too large for a checkpoint: {bytes} bytes, at most {most}")]
    TooLarge {
        /// The part.
        what: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// The written record cannot be read again.
    #[error("it cannot be read again: {0}")]
    Unreadable(String),
    /// There is no checkpoint.
    #[error(
        "there is no checkpoint in {0}; run it again from its start with: belljar run {0}/scenario.toml"
    )]
    None(PathBuf),
    /// No checkpoint is usable.
    #[error(
        "no checkpoint in {folder} is usable ({reason}); run the scenario of the run directory again from its start with: belljar run"
    )]
    Unusable {
        /// The folder.
        folder: PathBuf,
        /// The fault of each, the newest first.
        reason: String,
    },
    /// It belongs to another kind of run.
    #[error(
        "the checkpoint does not fit: its {name} is {found}, here it is {wanted}; continue where it was made, with the same belljar, image and files"
    )]
    Other {
        /// The differing property.
        name: String,
        /// The checkpoint's.
        found: String,
        /// The scenario's, on this host.
        wanted: String,
    },
    /// A node's memory cannot be restored.
    #[error("node {node}: {source}")]
    Pages {
        /// Number of the node.
        node: u32,
        /// Why.
        source: KeptError,
    },
    /// The host has no memory for a node.
    #[error(transparent)]
    Memory(#[from] NodeError),
    /// A node cannot be saved or resumed.
    #[error(transparent)]
    Node(#[from] KeepError),
    /// The network cannot be restored.
    #[error("the network: {0}")]
    Network(#[from] RestoreError),
    /// The state of the InfiniBand network is invalid.
    #[error(transparent)]
    Infiniband(#[from] belljar_lossless::RestoreError),
    /// A background job cannot be restored.
    #[error(transparent)]
    Background(#[from] BackgroundStateError),
    /// The snapshot of the clones is not usable.
    #[error(transparent)]
    Base(#[from] SnapshotError),
    /// The calls that wait for the trace cannot be saved.
    #[error(transparent)]
    Tracer(#[from] StateError),
    /// The state is too large, or damaged.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The keeper of checkpoints has ended: a defect, or an earlier failure.
    #[error("{0}")]
    Failed(String),
}
