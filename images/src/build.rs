//! The road from a recipe to an image in the cache.
//!
//! An image is in the cache whole or not at all, and one process at a time builds it. Called by `belljar
//! image build` and wherever a plan needs its image.

use std::path::PathBuf;

use belljar_rootfs::{SourceError, WriteError};

use crate::assemble::Builder;
use crate::bootstrap::BootstrapError;
use crate::cache::{Cache, CacheError};
use crate::chroot::ChrootError;
use crate::command::{self, CommandError};
use crate::contents::ContentsError;
use crate::fetch::FetchError;
use crate::initrd::InitrdError;
use crate::kernel::KernelError;
use crate::lockfile::LockError;
use crate::locks::{self, LockUse};
use crate::manifest::Image;
use crate::packages::PackageError;
use crate::progress::Progress;
use crate::recipe::{Recipe, RecipeError};
use crate::root_image;
use crate::rootfs::RootError;
use crate::verified::Trust;

/// Why an image could not be built or found.
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
        /// What is different, a line each.
        changes: String,
    },
    /// There is nothing to hold the packages against.
    #[error("there is no {what} to hold the packages against; {advice}")]
    NoLock {
        /// The lock that is missing.
        what: PathBuf,
        /// What to do.
        advice: &'static str,
    },
    /// A folder of the recipe's is not what it was when the build began.
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
        /// What it is for.
        architecture: String,
    },
    /// A part of the image can't be written.
    #[error("cannot write {path}: {source}; make room or rights for it and build again")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The image of `recipe` in the user's cache, if it has been built.
///
/// # Errors
/// When the cache can't be read or the image in it is damaged.
pub fn locate(recipe: &Recipe) -> Result<Option<Image>, ImageError> {
    Ok(Cache::of_user()?.find(&recipe.key())?)
}

/// The image of `recipe` in the user's cache, if it has been built, after all of it was read from the
/// disk and compared with its digests.
///
/// # Errors
/// As for [`locate`].
pub fn verify(recipe: &Recipe) -> Result<Option<Image>, ImageError> {
    Ok(Cache::of_user()?.find_as(&recipe.key(), Trust::Nothing)?)
}

/// Builds the image of `recipe` in the user's cache, or gives the one that is there. One that is
/// damaged is built again.
///
/// # Errors
/// When a tool is missing or fails, a package or file is not to be had, a file that should be
/// the distribution's differs from it, or the packages are not those of the lock that must be.
pub fn build(
    recipe: &Recipe,
    locks: LockUse,
    report: &mut dyn FnMut(Progress),
) -> Result<Image, ImageError> {
    build_in(&Cache::of_user()?, recipe, locks, report)
}

/// As [`build`], in a cache of one's own.
///
/// # Errors
/// As for [`build`].
pub fn build_in(
    cache: &Cache,
    recipe: &Recipe,
    locks: LockUse,
    report: &mut dyn FnMut(Progress),
) -> Result<Image, ImageError> {
    if let Some(root) = recipe.root() {
        return root_image::build(cache, recipe, root, locks, report);
    }
    let key = recipe.key();
    if let Some(image) = cache.find_whole(&key, &mut |_| {})? {
        locks::of_built(recipe, &image, locks, report)?;
        return Ok(image);
    }
    let missing = command::missing_tools();
    if !missing.is_empty() {
        let list = missing
            .iter()
            .map(|tool| format!("{} (package {})", tool.command, tool.package));
        return Err(ImageError::Tools(list.collect::<Vec<_>>().join(", ")));
    }
    let _lock = cache.lock(&key, &mut || report(Progress::Waiting))?;
    let mut damaged = |why| report(Progress::Note(format!("{why}; it is built again")));
    if let Some(image) = cache.find_whole(&key, &mut damaged)? {
        locks::of_built(recipe, &image, locks, report)?;
        return Ok(image);
    }
    let work = cache.work_folder()?;
    let lock = Builder {
        recipe,
        work: work.path(),
        packages: cache.packages(),
        locks,
        report,
    }
    .run()?;
    if recipe.has_trees() && Recipe::load(recipe.path())?.key() != key {
        let recipe = recipe.path().to_owned();
        return Err(ImageError::Changed { recipe });
    }
    // An image that is there is not built again: whatever can fail comes before.
    let image = work.path().join("image");
    locks::keep(&lock, &image)?;
    locks::hold(recipe, &lock, locks, report)?;
    Ok(cache.publish(&image, &key)?)
}
