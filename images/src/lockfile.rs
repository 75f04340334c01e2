//! The lock file beside a recipe: which packages, to the byte, the last build was made of.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::packages::{Package, SourceFile};

/// Why a lock file can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file can't be read or written.
    #[error("cannot read or write {path}: {source}; check its permissions")]
    File {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not a lock file.
    #[error("{path} is not an image lock file: {message}; remove it and build the image again")]
    Parse {
        /// The lock file.
        path: PathBuf,
        /// The parser's words.
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
    /// Packages that were only there to build: compilers, headers and what they depend on.
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
            Ok(text) => toml::from_str(&text)
                .map(Some)
                .map_err(|error| LockError::Parse {
                    path: path.to_owned(),
                    message: error.to_string(),
                }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(LockError::File {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Writes the lock file, if it says anything new.
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

    /// What is different in `self` from `old`, one line for each package of the image.
    #[must_use]
    pub fn changes_since(&self, old: &Self) -> Vec<String> {
        let of = |list: &[Package], name: &str| {
            list.iter()
                .find(|package| package.name == name)
                .map(|package| package.version.clone())
        };
        let mut changes = Vec::new();
        for package in &self.image {
            match of(&old.image, &package.name) {
                None => changes.push(format!("{} {} is new", package.name, package.version)),
                Some(version) if version != package.version => {
                    changes.push(format!(
                        "{} is now {}, was {version}",
                        package.name, package.version
                    ));
                }
                Some(_) => {}
            }
        }
        for package in &old.image {
            if of(&self.image, &package.name).is_none() {
                changes.push(format!("{} is gone", package.name));
            }
        }
        changes
    }

    fn text(&self) -> String {
        // Serialising plain strings to TOML has no way to fail.
        let body = toml::to_string(self).unwrap_or_default();
        format!(
            "# Written by `belljar image build`. The packages this image was last built from.\n{body}"
        )
    }
}

/// Writes a file that has all of `text`, on the disk, or stays as it was.
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
        let expected = [
            "bash is now 5.2, was 5.1",
            "busybox 1.35 is new",
            "dash is gone",
        ];
        assert_eq!(new.changes_since(&old), expected);
        assert!(new.changes_since(&new).is_empty());
    }
}
