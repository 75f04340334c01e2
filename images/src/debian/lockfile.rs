//! Lock files: the packages of an image, pinned by digest.
//!
//! One lock is in the image's folder, and one next to the recipe, for its last build. A file is written
//! only if it changes, and atomically. `locks` compares builds with them.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::debian::packages::{Package, SourceFile};

/// An error of reading or writing a lock file.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file can't be read or written.
    #[error("cannot read or write {path}: {source}; check its permissions")]
    File {
        /// The lock file.
        path: PathBuf,
        /// System error.
        source: std::io::Error,
    },
    /// It is not a lock file.
    #[error("{path} is not an image lock file: {message}; remove it and build the image again")]
    Parse {
        /// The lock file.
        path: PathBuf,
        /// The parser's message.
        message: String,
    },
}

/// A recipe's lock file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// Release of the kernel, such as `6.1.0-40-cloud-amd64`.
    pub kernel_release: String,
    /// SHA-256 of the kernel's file.
    pub kernel_sha256: String,
    /// Packages with at least one file in the image, by name.
    #[serde(default)]
    pub image: Vec<Package>,
    /// Packages that were only needed to build: compilers, headers and their dependencies.
    #[serde(default)]
    pub builder: Vec<Package>,
    /// Files of the source packages that programs were built from.
    #[serde(default)]
    pub source: Vec<SourceFile>,
}

impl Lock {
    /// Reads a lock file; `None` when there is none.
    ///
    /// # Errors
    /// When the file is there but unreadable or malformed.
    pub fn read(path: &Path) -> Result<Option<Self>, LockError> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(LockError::File {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Parses a lock; `path` is for errors.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, LockError> {
        toml::from_str(text).map_err(|error| LockError::Parse {
            path: path.to_owned(),
            message: error.to_string(),
        })
    }

    /// Writes the lock file if it changes.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        let file = |source| LockError::File {
            path: path.to_owned(),
            source,
        };
        let text = self.text();
        if fs::read_to_string(path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        write_whole(path, &text).map_err(file)
    }

    /// Changes from `old` to `self`, one line per package, with old and new version.
    #[must_use]
    pub fn changes_since(&self, old: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        if self.kernel_release != old.kernel_release {
            let (old, new) = (&old.kernel_release, &self.kernel_release);
            changes.push(format!("kernel {old} -> {new}"));
        }
        // A package that only moved between the lists is unchanged.
        let all = |lock: &Self| -> BTreeMap<String, Package> {
            let both = lock.builder.iter().chain(&lock.image);
            both.map(|package| (package.name.clone(), package.clone()))
                .collect()
        };
        let (before, now) = (all(old), all(self));
        for (name, package) in &now {
            changes.extend(change(name, before.get(name), package));
        }
        let gone = before.iter().filter(|(name, _)| !now.contains_key(*name));
        changes.extend(gone.map(|(name, package)| format!("{name} {} is gone", package.version)));
        for file in self
            .source
            .iter()
            .filter(|&file| !old.source.contains(file))
        {
            changes.push(format!("source {} is new", file.file));
        }
        for file in old
            .source
            .iter()
            .filter(|&file| !self.source.contains(file))
        {
            changes.push(format!("source {} is gone", file.file));
        }
        changes
    }

    /// Versions of all packages, by name.
    pub(crate) fn versions(&self) -> BTreeMap<&str, &str> {
        let both = self.builder.iter().chain(&self.image);
        both.map(|package| (package.name.as_str(), package.version.as_str()))
            .collect()
    }

    fn text(&self) -> String {
        // Serialising plain strings to TOML cannot fail.
        let body = toml::to_string(self).unwrap_or_default();
        format!(
            "# Written by `belljar image build`. The packages this image was last built from.\n{body}"
        )
    }
}

/// Describes the change of one package, if any.
fn change(name: &str, before: Option<&Package>, now: &Package) -> Option<String> {
    let version = &now.version;
    match before {
        None => Some(format!("{name} {version} is new")),
        Some(old) if old.version != *version => {
            Some(format!("{name} {} -> {version}", old.version))
        }
        Some(old) if old.sha256 != now.sha256 => Some(format!(
            "{name} {version} has other bytes: sha256 {} -> {}",
            old.sha256, now.sha256
        )),
        Some(_) => None,
    }
}

/// Writes a file atomically: on the disk it has all of `text`, or is unchanged.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(above.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(packages: &[(&str, &str)]) -> Lock {
        let package = |(name, version): &(&str, &str)| Package {
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            sha256: format!("sum of {name} {version}"),
        };
        Lock {
            kernel_release: "6.1.0-1-cloud-amd64".to_owned(),
            kernel_sha256: "00".to_owned(),
            image: packages.iter().map(package).collect(),
            builder: vec![package(&("gcc", "12"))],
            source: vec![SourceFile {
                file: "hpcc.dsc".to_owned(),
                sha256: "11".to_owned(),
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_reads_the_same_each_time() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x.lock");
        assert_eq!(Lock::read(&path).expect("no file is no error"), None);
        let written = lock(&[("bash", "5.2"), ("busybox", "1.35")]);
        written.write(&path).expect("writes");
        let first = fs::read(&path).expect("reads");
        written.write(&path).expect("writes again");
        assert_eq!(fs::read(&path).expect("reads"), first);
        assert_eq!(Lock::read(&path).expect("reads"), Some(written));
    }

    #[test]
    fn foreign_text_is_refused() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x.lock");
        fs::write(&path, "kernel_release = 1\n").expect("writes");
        let error = Lock::read(&path).expect_err("no lock file").to_string();
        assert!(
            error.contains("x.lock") && error.contains("build the image again"),
            "{error}"
        );
    }

    #[test]
    fn changes_name_what_is_new_other_and_gone() {
        let old = lock(&[("bash", "5.1"), ("dash", "0.5"), ("same", "1")]);
        let new = lock(&[("bash", "5.2"), ("busybox", "1.35"), ("same", "1")]);
        let expected = ["bash 5.1 -> 5.2", "busybox 1.35 is new", "dash 0.5 is gone"];
        assert_eq!(new.changes_since(&old), expected);
        assert!(new.changes_since(&new).is_empty());
    }

    #[test]
    fn changes_of_kernel_builder_sources_and_bytes_count() {
        let old = lock(&[("bash", "5.2")]);
        let mut new = old.clone();
        new.kernel_release = "6.1.0-2-cloud-amd64".to_owned();
        new.builder[0].version = "13".to_owned();
        new.source[0].sha256 = "22".to_owned();
        new.image[0].sha256 = "other".to_owned();
        let expected = [
            "kernel 6.1.0-1-cloud-amd64 -> 6.1.0-2-cloud-amd64",
            "bash 5.2 has other bytes: sha256 sum of bash 5.2 -> other",
            "gcc 12 -> 13",
            "source hpcc.dsc is new",
            "source hpcc.dsc is gone",
        ];
        assert_eq!(new.changes_since(&old), expected);
        let mut moved = old.clone();
        moved.image.append(&mut moved.builder);
        assert!(moved.changes_since(&old).is_empty());
    }
}
