//! Locks in a build: reports changes since the recipe's lock before overwriting it, or requires it. Every
//! image has a lock of its own in its folder, independent of the recipe's. Called before anything is fetched,
//! when an image is built, and when an existing image is found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::build::error::ImageError;
use crate::debian::fetch;
use crate::debian::lockfile::Lock;
use crate::progress::BuildProgress;
use crate::recipe::Recipe;
use crate::recipe::built_in;
use crate::store::manifest::Image;

/// Name of the lock in an image's folder.
const LOCK: &str = "packages.lock";

/// Treatment of the recipe's lock in a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockUse {
    /// Report changes and update the lock.
    Write,
    /// Report changes and leave the lock as it is.
    Keep,
    /// Refuse packages that differ from the lock.
    Locked,
}

/// Path of the recipe's lock: a file, or a name within the binary.
fn place(recipe: &Recipe) -> PathBuf {
    let name = recipe.path().with_extension("lock");
    recipe.lock_path().unwrap_or(name)
}

/// The recipe's lock.
fn of_recipe(recipe: &Recipe) -> Result<Option<Lock>, ImageError> {
    if let Some(path) = recipe.lock_path() {
        return Ok(Lock::read(&path)?);
    }
    let name = recipe.path().to_string_lossy();
    let text = built_in::lock(&name).map(String::from_utf8_lossy);
    let lock = text.map(|text| Lock::parse(&text, recipe.path()));
    Ok(lock.transpose()?)
}

fn needed(recipe: &Recipe) -> Result<Lock, ImageError> {
    of_recipe(recipe)?.ok_or_else(|| ImageError::NoLock {
        what: place(recipe),
        advice: "build without --locked first",
    })
}

fn refused(recipe: &Recipe, changes: &[String]) -> Result<(), ImageError> {
    if changes.is_empty() {
        return Ok(());
    }
    let lines = changes.iter().map(|change| format!("  {change}"));
    Err(ImageError::Locked {
        recipe: recipe.path().to_owned(),
        changes: lines.collect::<Vec<_>>().join("\n"),
    })
}

/// Before anything is fetched, refuses packages, by their files' names, whose versions differ from those in a
/// required lock.
pub(crate) fn hold_names(
    recipe: &Recipe,
    files: &[String],
    locks: LockUse,
) -> Result<(), ImageError> {
    if locks != LockUse::Locked {
        return Ok(());
    }
    let lock = needed(recipe)?;
    let files = files
        .iter()
        .filter_map(|file| fetch::name_and_version(file));
    refused(recipe, &moved(&lock, &files.collect()))
}

/// Lists packages whose versions differ from the lock.
fn moved(lock: &Lock, now: &BTreeMap<String, String>) -> Vec<String> {
    let before = lock.versions();
    let mut changes = Vec::new();
    for (name, version) in now {
        match before.get(name.as_str()) {
            Some(old) if old == version => {}
            Some(old) => changes.push(format!("{name} {old} -> {version}")),
            None => changes.push(format!("{name} {version} is new")),
        }
    }
    let gone = before.iter().filter(|(name, _)| !now.contains_key(**name));
    changes.extend(gone.map(|(name, version)| format!("{name} {version} is gone")));
    changes
}

/// Writes an image's lock into its folder.
pub(crate) fn keep(lock: &Lock, image: &Path) -> Result<(), ImageError> {
    Ok(lock.write(&of_image(image))?)
}

/// Path of an image's lock in its folder.
pub(crate) fn of_image(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

/// Compares the packages of an image with the recipe's lock, and reports, updates or refuses as `locks`
/// demands.
pub(crate) fn hold(
    recipe: &Recipe,
    lock: &Lock,
    locks: LockUse,
    report: &mut dyn FnMut(BuildProgress),
) -> Result<(), ImageError> {
    if locks == LockUse::Locked {
        return refused(recipe, &lock.changes_since(&needed(recipe)?));
    }
    let old = of_recipe(recipe)?;
    let changes = old.map(|old| lock.changes_since(&old)).unwrap_or_default();
    for change in &changes {
        report(BuildProgress::Note(change.clone()));
    }
    match (locks, recipe.lock_path()) {
        (LockUse::Write, Some(path)) => lock.write(&path)?,
        _ if changes.is_empty() => {}
        _ => report(BuildProgress::Note(format!(
            "{} stays as it is; the image's own lock is {LOCK} in its folder",
            place(recipe).display()
        ))),
    }
    Ok(())
}

/// The same for an image that was built before. Images that predate per-image locks are not compared.
pub(crate) fn of_built(
    recipe: &Recipe,
    image: &Image,
    locks: LockUse,
    report: &mut dyn FnMut(BuildProgress),
) -> Result<(), ImageError> {
    let path = of_image(&image.dir);
    match Lock::read(&path)? {
        Some(lock) => hold(recipe, &lock, locks, report),
        None if locks == LockUse::Locked => Err(ImageError::NoLock {
            what: path,
            advice: "it was built by an older version: remove its folder and build again",
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
