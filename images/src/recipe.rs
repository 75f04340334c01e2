//! Recipes: what goes into an image, read strictly from TOML.
//!
//! A recipe names files of its own (sources, scripts, the guest's init) relative to the folder it
//! lies in. Its [`Recipe::key`] covers the recipe and every byte of those files, so that an image
//! found under that key is the image the recipe describes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::digest::Sha256Hex;
use crate::toml_error;

mod check;

use check::{bad, check, is_relative};

/// Version of what this crate makes of a recipe; part of every key. Raise it whenever the same
/// recipe would give another image.
const BUILDER_VERSION: u32 = 1;

/// Largest file a recipe may name, in bytes: recipes name sources and scripts, not disks.
const LARGEST_FILE: u64 = 64 << 20;

/// Why a recipe can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The recipe or a file it names can't be read.
    #[error("cannot read {path}: {source}; check the path and its permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not TOML or not of a recipe's shape.
    #[error("{path} is not a valid image recipe: {message}")]
    Parse {
        /// The recipe.
        path: PathBuf,
        /// The parser's own words, with line and column.
        message: String,
    },
    /// A value is outside what is allowed for it.
    #[error("{path}: {what} {value:?} {problem}")]
    Value {
        /// The recipe.
        path: PathBuf,
        /// The key the value stands under.
        what: &'static str,
        /// The value.
        value: String,
        /// What is wrong with it and what would be right.
        problem: &'static str,
    },
}

/// An image recipe together with the contents of the files it names.
#[derive(Debug, Clone)]
pub struct Recipe {
    path: PathBuf,
    text: Vec<u8>,
    spec: Spec,
    files: BTreeMap<String, Vec<u8>>,
}

/// The TOML of a recipe.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) suite: String,
    pub(crate) architecture: String,
    pub(crate) kernel: Kernel,
    pub(crate) userland: Userland,
    pub(crate) initramfs: Initramfs,
    #[serde(default)]
    pub(crate) include: Vec<Include>,
    #[serde(default)]
    pub(crate) builder: Builder,
    #[serde(default)]
    pub(crate) program: Vec<Program>,
    #[serde(default)]
    pub(crate) source: Vec<Source>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernel {
    pub(crate) package: String,
    pub(crate) modules: Vec<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Userland {
    pub(crate) packages: Vec<String>,
    pub(crate) files: Vec<String>,
    pub(crate) busybox: Option<String>,
    #[serde(default)]
    pub(crate) directories: Vec<String>,
    #[serde(default)]
    pub(crate) links: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Initramfs {
    pub(crate) files: Vec<String>,
    #[serde(default)]
    pub(crate) directories: Vec<String>,
}

/// Which of an image's two file trees a file goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tree {
    Initramfs,
    Root,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Include {
    pub(crate) source: String,
    pub(crate) path: String,
    pub(crate) into: Tree,
    #[serde(default)]
    pub(crate) executable: bool,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Builder {
    #[serde(default)]
    pub(crate) packages: Vec<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    pub(crate) source: String,
    pub(crate) path: String,
    pub(crate) compiler: String,
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    #[serde(default)]
    pub(crate) libraries: Vec<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    pub(crate) package: String,
    pub(crate) script: String,
    #[serde(default)]
    pub(crate) files: Vec<String>,
    pub(crate) outputs: Vec<String>,
}

impl Recipe {
    /// Reads the recipe at `path` and every file it names.
    ///
    /// # Errors
    /// When a file can't be read, a key is unknown or a value is not allowed.
    pub fn load(path: &Path) -> Result<Self, RecipeError> {
        let text = read_bounded(path)?;
        let parse = |message: String| RecipeError::Parse {
            path: path.to_owned(),
            message,
        };
        let utf8 = std::str::from_utf8(&text).map_err(|error| parse(error.to_string()))?;
        let spec: Spec =
            toml::from_str(utf8).map_err(|error| parse(toml_error::in_words(&error)))?;
        check(path, &spec)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut files = BTreeMap::new();
        for name in named_files(&spec) {
            if !is_relative(name) {
                return Err(bad(
                    path,
                    "source",
                    name,
                    "must be a path inside the recipe's folder",
                ));
            }
            files.insert(name.to_owned(), read_bounded(&folder.join(name))?);
        }
        Ok(Self {
            path: path.to_owned(),
            text,
            spec,
            files,
        })
    }

    /// The recipe's name, as it gives it itself.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Where the recipe was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lock file that goes with this recipe: same folder, same stem.
    #[must_use]
    pub fn lock_path(&self) -> PathBuf {
        self.path.with_extension("lock")
    }

    /// SHA-256, in hexadecimal, of the recipe and of every file it names.
    #[must_use]
    pub fn key(&self) -> String {
        let mut hash = Sha256Hex::default();
        hash.update(&BUILDER_VERSION.to_le_bytes());
        hash.update_sized(&self.text);
        for (name, bytes) in &self.files {
            hash.update_sized(name.as_bytes());
            hash.update_sized(bytes);
        }
        hash.finish()
    }

    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    pub(crate) fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// The contents of a file the recipe names. Only names that `load` has seen are asked for.
    pub(crate) fn file(&self, name: &str) -> &[u8] {
        self.files.get(name).map_or(&[], Vec::as_slice)
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, RecipeError> {
    let read = |source| RecipeError::Read {
        path: path.to_owned(),
        source,
    };
    let length = fs::metadata(path).map_err(read)?.len();
    if length > LARGEST_FILE {
        return Err(read(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            format!("{length} bytes are more than the {LARGEST_FILE} a recipe's file may have"),
        )));
    }
    fs::read(path).map_err(read)
}

fn named_files(spec: &Spec) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    names.extend(spec.include.iter().map(|include| include.source.as_str()));
    names.extend(spec.program.iter().map(|program| program.source.as_str()));
    for source in &spec.source {
        names.insert(source.script.as_str());
        names.extend(source.files.iter().map(String::as_str));
    }
    names
}

#[cfg(test)]
mod tests;
