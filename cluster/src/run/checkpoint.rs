//! A whole run at a point between its rounds, as files from which it continues.
//!
//! Between rounds nothing is under way but what the network holds, so that what nodes,
//! network, tracers and files are then is all there is to keep. In the folder
//! [`FOLDER`](checkpoint::FOLDER) of a run directory stand
//!
//! | file | |
//! |---|---|
//! | `base.snapshot` | the snapshot that nodes are clones of, if they are; `base-1.snapshot` and so on those of further groups |
//! | `N.pages` | [packs](belljar_vmm::KeptPages) of pages of nodes' RAM |
//! | `N.checkpoint` | a `record`: the rest, and where each page is |
//!
//! A record is written under another name when all that it speaks of is on the disk, and
//! then renamed: it is whole or it is not there. Of the files that a run writes all the
//! time (trace, consoles, captures) it tells how long they were; what follows is
//! written again, the same, by the run that continues.

use std::io;
use std::path::PathBuf;

use belljar_fabric::RestoreError;
use belljar_replay::BackgroundStateError;
use belljar_sim::CodecError;
use belljar_trace::StateError;
use belljar_vmm::{KeptError, NodeError, SnapshotError};

use crate::run::runner::KeepError;

/// From which checkpoint a run continues: the newest of which everything is whole.
mod choice;
/// The checkpoint from which a run continues.
mod found;
/// What was typed into consoles, read again.
mod input;
/// The thread that makes checkpoints last, while the run continues.
mod keeper;
/// Everything of a run that is not in its files or its nodes' pages.
mod record;
/// A run directory with two small checkpoints, for tests and fuzzing.
pub mod sample;

pub use choice::Choice;
pub use found::Found;
pub(crate) use found::identity;
pub(crate) use input::read_input;
pub(crate) use keeper::{Keeper, MOST_HOSTS, Work, pack_of};
pub use keeper::{Report, Tell};
pub(crate) use record::{LONGEST, NodeRecord, Record, RunRecord};

/// The folder of a run directory that holds its checkpoints.
pub const FOLDER: &str = "checkpoint";
/// The name of the snapshot that nodes of kind number `kind` are clones of.
fn base_name(kind: usize) -> String {
    match kind {
        0 => "base.snapshot".to_owned(),
        kind => format!("base-{kind}.snapshot"),
    }
}

/// Endings of names.
const RECORD: &str = "checkpoint";
const PACK: &str = "pages";

/// Why a checkpoint cannot be made or resumed from.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The host refuses a file.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The disk is nearly full.
    #[error("{free} MiB are free in {folder}, of which a checkpoint wants {wanted}; make room")]
    Room {
        /// Where.
        folder: PathBuf,
        /// MiB that are free.
        free: u64,
        /// MiB that it takes, and leaves for the run.
        wanted: u64,
    },
    /// A record is larger than can be read again.
    #[error("{what} is too large to be kept: it has {bytes} bytes, and {most} is the most")]
    TooLarge {
        /// What of it.
        what: String,
        /// How large that is.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// It was written, and cannot be read again.
    #[error("it cannot be read again: {0}")]
    Unreadable(String),
    /// There is none.
    #[error(
        "there is no checkpoint in {0}; run it again from its start with: belljar run {0}/scenario.toml"
    )]
    None(PathBuf),
    /// None is usable.
    #[error(
        "no checkpoint in {folder} is usable ({reason}); run the scenario of the run directory again from its start with: belljar run"
    )]
    Unusable {
        /// Where they are.
        folder: PathBuf,
        /// What is wrong with each, the newest first.
        reason: String,
    },
    /// It is of another kind of run.
    #[error(
        "the checkpoint does not fit: its {name} is {found}, here it is {wanted}; continue where it was made, with the same belljar, image and files"
    )]
    Other {
        /// What differs.
        name: String,
        /// The checkpoint's.
        found: String,
        /// The scenario's, on this host.
        wanted: String,
    },
    /// A node's memory cannot be had again.
    #[error("node {node}: {source}")]
    Pages {
        /// Which.
        node: u32,
        /// Why.
        source: KeptError,
    },
    /// There is no memory for a node.
    #[error(transparent)]
    Memory(#[from] NodeError),
    /// A node cannot be kept, or not resumed.
    #[error(transparent)]
    Node(#[from] KeepError),
    /// The network cannot be restored.
    #[error("the network: {0}")]
    Network(#[from] RestoreError),
    /// A background job cannot be restored.
    #[error(transparent)]
    Background(#[from] BackgroundStateError),
    /// The snapshot that the nodes are clones of is not usable.
    #[error(transparent)]
    Base(#[from] SnapshotError),
    /// What waits for the trace cannot be saved.
    #[error(transparent)]
    Tracer(#[from] StateError),
    /// There is more state than can be kept, or it is damaged.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// Whoever keeps checkpoints is gone: a defect, or an earlier failure.
    #[error("{0}")]
    Failed(String),
}
