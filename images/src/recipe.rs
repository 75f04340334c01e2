//! Image recipes, read strictly from TOML.
//!
//! A recipe names files of its own (sources, scripts, the guest's init) relative to its folder, and may extend another
//! recipe. Its [`Recipe::key`] covers the recipe, its base recipes, and every byte of their files, so that an image
//! found under that key is the image the recipe describes. Called wherever images are built or looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::build::root_source::RootSource;
use crate::debian::digest::Sha256Hex;
use crate::recipe::tree::Tree;
use crate::toml_error;

/// The project's own recipes.
pub(crate) mod built_in;
/// Checks of a recipe's values.
mod check;
/// Errors of recipes.
mod error;
/// Recipes read from files.
mod load;
/// Merging a recipe with the one that it extends.
mod merge;
/// Patterns of paths.
pub(crate) mod pattern;
/// Root file systems from container images or the user.
mod root;
/// The TOML schema of recipes.
mod spec;
/// Folders that a recipe names.
pub(crate) mod tree;

pub use error::RecipeError;
pub use load::place;
pub(crate) use spec::{Destination, RecipeProgram, RecipeSource, Spec};

/// Version of this crate's interpretation of recipes; part of every key. Raise it whenever the same recipe would give
/// another image.
const BUILDER_VERSION: u32 = 5;

/// Largest file a recipe may name, in bytes: recipes name sources and scripts, not disks.
const LARGEST_FILE: u64 = 64 << 20;

/// An image recipe together with the contents of the files it names.
#[derive(Debug, Clone)]
pub struct Recipe {
    path: PathBuf,
    spec: Spec,
    /// The base recipe, then each recipe that extends the one before.
    layers: Vec<Layer>,
    root: Option<RecipeRoot>,
}

/// A container image or root file system that nodes run on.
#[derive(Debug, Clone)]
pub(crate) struct RecipeRoot {
    pub(crate) source: RootSource,
    /// The recipe whose kernel and initramfs are used.
    pub(crate) base: PathBuf,
}

/// One recipe's file, with the files and folders that it names.
#[derive(Debug, Clone)]
struct Layer {
    home: Home,
    text: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
    trees: BTreeMap<String, Tree>,
}

/// Location of a recipe.
#[derive(Debug, Clone)]
enum Home {
    Folder(PathBuf),
    /// In the binary itself.
    BuiltIn,
}

impl Recipe {
    /// Reads the recipe at `path` and every file it names. A name without a folder and without `.toml` is that of a
    /// built-in recipe. The path of a container image or root file system acts as a recipe for it; a `:` and a tag may
    /// follow.
    ///
    /// # Errors
    /// When a file can't be read, a key is unknown or a value is not allowed.
    pub fn load(path: &Path) -> Result<Self, RecipeError> {
        let loaded = match root::named(path) {
            Some((source, tag)) => root::load(path, &source, tag)?,
            None => load::load(path)?,
        };
        let root = root::of(path, &loaded)?;
        Ok(Self {
            path: path.to_owned(),
            spec: loaded.spec,
            layers: loaded.layers,
            root,
        })
    }

    /// The recipe's name, from its text.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The distribution's packages of the root file system, without their dependencies; empty for the root of a container.
    #[must_use]
    pub fn packages(&self) -> &[String] {
        &self.spec.userland.packages
    }

    /// Path that the recipe was read from, or its name if it is built in.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lock file that belongs to this recipe: same folder, same stem. A built-in recipe has none on the disk, and a
    /// recipe with a root file system has no packages of its own.
    #[must_use]
    pub fn lock_path(&self) -> Option<PathBuf> {
        if self.root.is_some() {
            return None;
        }
        match self.layers.last()?.home {
            Home::Folder(_) => Some(self.path.with_extension("lock")),
            Home::BuiltIn => None,
        }
    }

    /// SHA-256, in hexadecimal, of the recipe, of every file it names, and of the recipes that it extends.
    #[must_use]
    pub fn key(&self) -> String {
        let mut key: Option<String> = None;
        for layer in &self.layers {
            let mut hash = Sha256Hex::default();
            hash.update(&BUILDER_VERSION.to_le_bytes());
            if let Some(base) = &key {
                hash.update_sized(base.as_bytes());
            }
            hash.update_sized(&layer.text);
            for (name, bytes) in &layer.files {
                hash.update_sized(name.as_bytes());
                hash.update_sized(bytes);
            }
            for (name, tree) in &layer.trees {
                hash.update_sized(name.as_bytes());
                hash.update_sized(tree.digest().as_bytes());
            }
            key = Some(hash.finish());
        }
        let mut key = key.unwrap_or_default();
        if let Some(root) = &self.root {
            let mut hash = Sha256Hex::default();
            hash.update_sized(key.as_bytes());
            hash.update_sized(root.source.identity().as_bytes());
            key = hash.finish();
        }
        key
    }

    /// The root file system that replaces packages, if any.
    pub(crate) fn root(&self) -> Option<&RecipeRoot> {
        self.root.as_ref()
    }

    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The source packages that programs are built from.
    pub(crate) fn source_packages(&self) -> impl Iterator<Item = &str> {
        let sources = self.spec.source.iter();
        let packages = sources.filter(|source| source.path.is_none());
        packages.map(|source| source.package.as_str())
    }

    /// True if the recipe names folders, which may change while an image is built.
    pub(crate) fn has_trees(&self) -> bool {
        self.layers.iter().any(|layer| !layer.trees.is_empty())
    }

    /// The files of all layers: their layer, name and contents.
    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &str, &[u8])> {
        let layers = self.layers.iter().enumerate();
        layers.flat_map(|(number, layer)| {
            let files = layer.files.iter();
            files.map(move |(name, bytes)| (number, name.as_str(), bytes.as_slice()))
        })
    }

    /// The contents of a file that the recipe names. Called only for names that `load` has read.
    pub(crate) fn file(&self, layer: usize, name: &str) -> &[u8] {
        let file = self
            .layers
            .get(layer)
            .and_then(|layer| layer.files.get(name));
        file.map_or(&[], Vec::as_slice)
    }

    /// The folder, or part of a folder, that an entry of this layer names.
    pub(crate) fn tree(&self, layer: usize, name: &str) -> Option<&Tree> {
        self.layers.get(layer)?.trees.get(name)
    }
}

/// Reads a whole file, if it is a regular file and not too large.
fn read_bounded(path: &Path) -> Result<Vec<u8>, RecipeError> {
    use std::io::{Error, ErrorKind};
    let read = |source| RecipeError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(read)?;
    let metadata = file.metadata().map_err(read)?;
    if metadata.is_dir() {
        return Err(read(ErrorKind::IsADirectory.into()));
    }
    if !metadata.is_file() {
        return Err(read(Error::new(
            ErrorKind::InvalidInput,
            "not a plain file",
        )));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(read)?;
    if bytes.len() as u64 > LARGEST_FILE {
        let length = metadata.len();
        return Err(read(Error::new(
            ErrorKind::FileTooLarge,
            format!(
                "{length} bytes are more than the {LARGEST_FILE} a recipe's file may have; a folder with it may be included"
            ),
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
