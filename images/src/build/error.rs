//! Errors of building and finding images.
//!
//! Returned by all steps of a build; commands print them.

use std::path::PathBuf;

use belljar_rootfs::{SourceError, WriteError};

use crate::command::CommandError;
use crate::debian::bootstrap::BootstrapError;
use crate::debian::chroot::ChrootError;
use crate::debian::fetch::FetchError;
use crate::debian::lockfile::LockError;
use crate::debian::packages::PackageError;
use crate::filesystem::contents::ContentsError;
use crate::filesystem::initrd::InitrdError;
use crate::filesystem::kernel::KernelError;
use crate::filesystem::rootfs::RootError;
use crate::recipe::RecipeError;
use crate::store::cache::CacheError;

/// An error of building or finding an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Tools are missing.
    #[error("building an image needs {0}; install the packages named and try again")]
    Tools(String),
    /// The cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Fetching packages.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Unpacking packages, compiling programs.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// Reading the unpacked packages.
    #[error(transparent)]
    Chroot(#[from] ChrootError),
    /// Putting the file trees together.
    #[error(transparent)]
    Contents(#[from] ContentsError),
    /// The kernel and its modules.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The check against the packages' checksums.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The initramfs.
    #[error(transparent)]
    Initrd(#[from] InitrdError),
    /// The root file system.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The lock file.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The packages are not those of the lock, and must be.
    #[error(
        "the packages of {recipe} are not those of its lock:\n{changes}\nbuild without --locked to take them"
    )]
    Locked {
        /// The recipe.
        recipe: PathBuf,
        /// Changed packages, one per line.
        changes: String,
    },
    /// The lock to compare the packages with is missing.
    #[error("there is no {what} to hold the packages against; {advice}")]
    NoLock {
        /// The lock that is missing.
        what: PathBuf,
        /// Advice for the user.
        advice: &'static str,
    },
    /// A folder that the recipe names changed during the build.
    #[error("what {recipe} names changed while its image was built; build it again")]
    Changed {
        /// The recipe.
        recipe: PathBuf,
    },
    /// The recipe, read again.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// Asking a guest program about itself.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A container image or root file system can't be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Its root file system can't be written.
    #[error(transparent)]
    Erofs(#[from] WriteError),
    /// A container image is for other processors.
    #[error("{path} is for {architecture}, and nodes are amd64: take the image of that platform")]
    Architecture {
        /// The container image.
        path: PathBuf,
        /// The architecture that it is for.
        architecture: String,
    },
    /// A part of the image can't be written.
    #[error("cannot write {path}: {source}; make room or rights for it and build again")]
    Write {
        /// The file.
        path: PathBuf,
        /// System error.
        source: std::io::Error,
    },
}
