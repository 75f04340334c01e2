//! Errors of a scenario: they name the key and the valid values.
//!
//! Made with plans, and printed by all commands that make one.

use std::path::PathBuf;

use belljar_cpu::{CpuError, IsaError};
use belljar_exact::TimingError;
use belljar_images::{ImageError, ManifestError, RecipeError};
use belljar_pipeline::processor::ProcessorError;
use belljar_tracer::SelectionError;

use super::background::BackgroundError;
use super::network::error::NetworkError;
use super::probes::own::error::ProbeError;
use crate::scenario::FilesError;
use belljar_workload::ProgramError;

/// An error of a scenario.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The recipe is not usable.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The image cannot be looked up.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The image differs from its digests.
    #[error("{source}; build the image again with: belljar image build {recipe}")]
    DamagedImage {
        /// Its recipe.
        recipe: PathBuf,
        /// The reason.
        source: ManifestError,
    },
    /// The image was never built.
    #[error("the image of {recipe} is not built yet; build it with: belljar image build {recipe}")]
    NoImage {
        /// The recipe's file.
        recipe: PathBuf,
    },
    /// The workload calls Slurm, which is missing.
    #[error(
        "the workload calls {name}, and its image has no Slurm; write a table [slurm] into the scenario, or --set 'slurm={{}}', and nodes have it"
    )]
    NoSlurm {
        /// The command.
        name: &'static str,
    },
    /// The kernel of an image has no NFS.
    #[error(
        "workload.shared-folder = true needs NFS, and the kernel of image {image} has no modules nfsd and nfsv4; use Debian's kernel packages, or leave the key out"
    )]
    NoNfs {
        /// Name of the image's recipe.
        image: String,
    },
    /// Another host sent other images than the scenario needs.
    #[error(
        "the scenario has {needed} images, and {given} were sent; run the same build of belljar on all hosts"
    )]
    Images {
        /// Number of needed images.
        needed: usize,
        /// Number of given images.
        given: usize,
    },
    /// The network is invalid.
    #[error("network{0}")]
    Network(#[from] NetworkError),
    /// The network of InfiniBand cards is invalid.
    #[error("infiniband{0}")]
    Infiniband(NetworkError),
    /// The kernel of an image has no drivers of InfiniBand cards.
    #[error(
        "[infiniband] needs drivers of the card, and image {image} has no module mlx4_ib; build the image again, with one of Debian's kernel packages"
    )]
    NoInfiniband {
        /// Name of the image's recipe.
        image: String,
    },
    /// A kernel has no IP over InfiniBand.
    #[error(
        "infiniband.ipoib needs the module ib_ipoib, and image {image} has none: Debian's kernels for clouds lack it; bookworm-infiniband has it, and so do images with the kernel package linux-image-amd64"
    )]
    NoIpoib {
        /// Name of the image's recipe.
        image: String,
    },
    /// A background job is invalid.
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
        /// Its path.
        path: PathBuf,
        /// The host's reason.
        source: std::io::Error,
    },
    /// A program of the workload cannot run on the image.
    #[error("workload.files: {0}")]
    Program(Box<ProgramError>),
    /// The time model is invalid.
    #[error("nodes.timing: {0}")]
    Timing(#[from] TimingError),
    /// The modelled processor is invalid.
    #[error("nodes.timing.processor: {0}")]
    Processor(#[from] ProcessorError),
    /// The processor is invalid.
    #[error("nodes.extensions: {0}")]
    Extensions(#[from] IsaError),
    /// This host's processor cannot run the guests'.
    #[error(transparent)]
    Host(#[from] CpuError),
    /// The filter of calls is invalid.
    #[error("trace: {0}")]
    Trace(#[from] SelectionError),
    /// The user's probes are invalid.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A group of nodes is invalid.
    #[error("[[nodes.group]] {group}: {source}")]
    Group {
        /// Its name, or its number from 1.
        group: String,
        /// The reason.
        source: Box<PlanError>,
    },
    /// The number of nodes differs from the groups' sum.
    #[error(
        "nodes.count is {count}; it must be the sum of the groups' counts, which is {sum}, or be left out"
    )]
    Sum {
        /// Number of nodes.
        count: u32,
        /// Sum of the groups.
        sum: u32,
    },
    /// A value outside its limits.
    #[error("{key} is {value}; it must be {limits}")]
    Range {
        /// The scenario's key.
        key: &'static str,
        /// The value.
        value: String,
        /// The valid values.
        limits: &'static str,
    },
}

impl From<ProgramError> for PlanError {
    fn from(error: ProgramError) -> Self {
        Self::Program(Box::new(error))
    }
}
