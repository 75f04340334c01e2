//! Builds a recipe's image in the cache.
//!
//! An image is published in the cache whole or not at all, and one process at a time builds it. Called
//! by `belljar image build` and wherever a plan needs its image.

/// A build in progress: from packages to the image's files.
pub(crate) mod assemble;
/// Errors of building and finding images.
pub(crate) mod error;
/// Comparing and writing locks during a build.
pub(crate) mod locks;
/// Images whose root file system is a container image or the user's own.
pub(crate) mod root_image;
/// A container image or root file system on this host.
pub(crate) mod root_source;

use crate::build::assemble::ImageBuilder;
use crate::build::error::ImageError;
use crate::build::locks::LockUse;
use crate::command;
use crate::progress::BuildProgress;
use crate::recipe::Recipe;
use crate::store::cache::Cache;
use crate::store::manifest::Image;
use crate::store::verified::Trust;

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

/// Builds the image of `recipe` in the user's cache, or returns the existing one. A damaged image is
/// rebuilt.
///
/// # Errors
/// When a tool is missing or fails, a package or file is not available, a file differs from its
/// package's, or the packages differ from a required lock.
pub fn build(
    recipe: &Recipe,
    locks: LockUse,
    report: &mut dyn FnMut(BuildProgress),
) -> Result<Image, ImageError> {
    build_in(&Cache::of_user()?, recipe, locks, report)
}

/// Like [`build`], in the given cache.
///
/// # Errors
/// As for [`build`].
pub fn build_in(
    cache: &Cache,
    recipe: &Recipe,
    locks: LockUse,
    report: &mut dyn FnMut(BuildProgress),
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
    let _lock = cache.lock(&key, &mut || report(BuildProgress::Waiting))?;
    let mut damaged = |why| report(BuildProgress::Note(format!("{why}; it is built again")));
    if let Some(image) = cache.find_whole(&key, &mut damaged)? {
        locks::of_built(recipe, &image, locks, report)?;
        return Ok(image);
    }
    let work = cache.work_folder()?;
    let lock = ImageBuilder {
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
    // An existing image is not rebuilt, so every step that can fail precedes publication.
    let image = work.path().join("image");
    locks::keep(&lock, &image)?;
    locks::hold(recipe, &lock, locks, report)?;
    Ok(cache.publish(&image, &key)?)
}
