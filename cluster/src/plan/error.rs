//! Why a scenario cannot be carried out: by the key, with what may be written instead.
//!
//! Made where a plan is made, told by all commands that make one.

use std::path::PathBuf;

use belljar_cpu::{CpuError, IsaError};
use belljar_exact::TimingError;
use belljar_images::{ImageError, ManifestError, RecipeError};
use belljar_tracer::SelectionError;

use super::background::BackgroundError;
use super::network::error::NetworkError;
use super::probes::own::ProbeError;
use crate::scenario::FilesError;
use belljar_workload::ProgramError;

/// Why a scenario cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The recipe is not usable.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The image cannot be looked up.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The image is not what was built.
    #[error("{source}; build the image again with: belljar image build {recipe}")]
    DamagedImage {
        /// Its recipe.
        recipe: PathBuf,
        /// What is wrong.
        source: ManifestError,
    },
    /// The image was never built.
    #[error("the image of {recipe} is not built yet; build it with: belljar image build {recipe}")]
    NoImage {
        /// The recipe's file.
        recipe: PathBuf,
    },
    /// The workload calls Slurm, which is not there.
    #[error(
        "the workload calls {name}, and its image has no Slurm; write a table [slurm] into the scenario, or --set 'slurm={{}}', and nodes have it"
    )]
    NoSlurm {
        /// The command.
        name: &'static str,
    },
    /// Another host handed over other images than the scenario needs.
    #[error(
        "the scenario has {needed} images, and {given} were handed over; run the same build of belljar on all hosts"
    )]
    Images {
        /// How many it needs.
        needed: usize,
        /// How many there are.
        given: usize,
    },
    /// The network cannot be.
    #[error("network{0}")]
    Network(#[from] NetworkError),
    /// A background job cannot be.
    #[error("background{0}")]
    Background(#[from] BackgroundError),
    /// Files of the workload cannot be found.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A file of the workload cannot be read.
    #[error("workload.files: cannot read {path} for `{name}`: {source}")]
    File {
        /// Its name in the guest.
        name: String,
        /// Where it should be.
        path: PathBuf,
        /// The host's reason.
        source: std::io::Error,
    },
    /// A program of the workload cannot run on the image.
    #[error("workload.files: {0}")]
    Program(Box<ProgramError>),
    /// The time model cannot be.
    #[error("nodes.timing: {0}")]
    Timing(#[from] TimingError),
    /// The processor cannot be.
    #[error("nodes.extensions: {0}")]
    Extensions(#[from] IsaError),
    /// This host's processor cannot run the guests'.
    #[error(transparent)]
    Host(#[from] CpuError),
    /// The choice of calls makes no sense.
    #[error("trace: {0}")]
    Trace(#[from] SelectionError),
    /// Probes of the user's cannot be.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A group of nodes cannot be.
    #[error("[[nodes.group]] {group}: {source}")]
    Group {
        /// Its name, or its number from 1.
        group: String,
        /// What is wrong with it.
        source: Box<PlanError>,
    },
    /// There are other nodes than those of groups.
    #[error(
        "nodes.count is {count}; it must be the sum of the groups' counts, which is {sum}, or be left out"
    )]
    Sum {
        /// How many there are to be.
        count: u32,
        /// How many groups have.
        sum: u32,
    },
    /// A value outside its limits.
    #[error("{key} is {value}; it must be {limits}")]
    Range {
        /// The scenario's key.
        key: &'static str,
        /// What was written.
        value: String,
        /// What may be written.
        limits: &'static str,
    },
}

impl From<ProgramError> for PlanError {
    fn from(error: ProgramError) -> Self {
        Self::Program(Box::new(error))
    }
}
