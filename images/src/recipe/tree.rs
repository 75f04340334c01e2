//! Folders that a recipe names: their entries, and a digest of all of it.
//!
//! Files are read in chunks, regardless of their size, and only when needed. A folder named `.git` is skipped,
//! because it changes without changes of the sources. A build that uses a tree reads it again at the end and
//! compares digests. Called when a recipe is loaded and when its files are packed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::debian::digest::Sha256Hex;
use crate::recipe::error::RecipeError;
use crate::recipe::pattern::Pattern;

/// Limits on a tree's number of entries and on its depth.
const MOST_ENTRIES: usize = 1 << 20;
const MOST_DEPTH: usize = 64;

/// Bytes per read.
const PIECE: usize = 1 << 20;

/// The entries of a folder, in order.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: PathBuf,
    entries: Vec<TreeEntry>,
    digest: String,
}

/// One file, folder or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    /// Path relative to the tree's root, without a leading `/`.
    pub(crate) path: String,
    pub(crate) kind: TreeEntryKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TreeEntryKind {
    Folder,
    Link(String),
    File { size: u64, executable: bool },
}

impl Tree {
    /// Reads the folder at `root`; with a pattern, only the files and links that match.
    pub(crate) fn read(root: &Path, pattern: Option<&Pattern>) -> Result<Self, RecipeError> {
        let mut entries = Vec::new();
        list(root, "", 0, &mut entries)?;
        if let Some(pattern) = pattern {
            entries.retain(|entry| {
                entry.kind != TreeEntryKind::Folder && pattern.matches(&entry.path)
            });
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let digest = digest(root, &entries)?;
        Ok(Self {
            root: root.to_owned(),
            entries,
            digest,
        })
    }

    pub(crate) fn entries(&self) -> &[TreeEntry] {
        &self.entries
    }

    /// Path of an entry on this host.
    pub(crate) fn host_path(&self, entry: &TreeEntry) -> PathBuf {
        self.root.join(&entry.path)
    }

    /// SHA-256, in hexadecimal, of all names, kinds and bytes.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> RecipeError {
    let path = path.to_owned();
    move |source| RecipeError::Read { path, source }
}

fn refused(path: &Path, why: &str) -> RecipeError {
    failed(path)(io::Error::new(io::ErrorKind::InvalidInput, why))
}

fn list(
    root: &Path,
    folder: &str,
    depth: usize,
    entries: &mut Vec<TreeEntry>,
) -> Result<(), RecipeError> {
    let here = root.join(folder);
    if depth > MOST_DEPTH {
        return Err(refused(&here, "the folder is too deep"));
    }
    for found in fs::read_dir(&here).map_err(failed(&here))? {
        let found = found.map_err(failed(&here))?;
        let at = found.path();
        let Ok(name) = found.file_name().into_string() else {
            return Err(refused(&at, "its name is not UTF-8"));
        };
        if name == ".git" {
            continue;
        }
        let path = match folder {
            "" => name,
            folder => format!("{folder}/{name}"),
        };
        let data = at.symlink_metadata().map_err(failed(&at))?;
        let kind = if data.is_dir() {
            list(root, &path, depth + 1, entries)?;
            TreeEntryKind::Folder
        } else if data.is_symlink() {
            let target = fs::read_link(&at).map_err(failed(&at))?;
            let target = target.into_os_string().into_string();
            TreeEntryKind::Link(target.map_err(|_| refused(&at, "the link's text is not UTF-8"))?)
        } else if data.is_file() {
            TreeEntryKind::File {
                size: data.len(),
                executable: data.permissions().mode() & 0o111 != 0,
            }
        } else {
            return Err(refused(&at, "it is no file, folder or link; take it away"));
        };
        if entries.len() == MOST_ENTRIES {
            return Err(refused(root, "it has too many files"));
        }
        entries.push(TreeEntry { path, kind });
    }
    Ok(())
}

fn digest(root: &Path, entries: &[TreeEntry]) -> Result<String, RecipeError> {
    let mut hash = Sha256Hex::default();
    let mut piece = vec![0; PIECE];
    for entry in entries {
        hash.update_sized(entry.path.as_bytes());
        match &entry.kind {
            TreeEntryKind::Folder => hash.update(b"d"),
            TreeEntryKind::Link(target) => {
                hash.update(b"l");
                hash.update_sized(target.as_bytes());
            }
            TreeEntryKind::File { size, executable } => {
                hash.update(if *executable { b"x" } else { b"f" });
                hash.update(&size.to_le_bytes());
                let path = root.join(&entry.path);
                let mut left = *size;
                let mut file = File::open(&path).map_err(failed(&path))?.take(*size);
                while left > 0 {
                    let read = file.read(&mut piece).map_err(failed(&path))?;
                    if read == 0 {
                        return Err(refused(&path, "it became shorter while it was read"));
                    }
                    hash.update(&piece[..read]);
                    left -= read as u64;
                }
            }
        }
    }
    Ok(hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_covers_names_kinds_modes_and_bytes() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let root = folder.path();
        fs::create_dir_all(root.join("sub/.git")).expect("folder");
        fs::write(root.join("sub/.git/index"), "changes").expect("writes");
        fs::write(root.join("sub/a.c"), "int x;").expect("writes");
        std::os::unix::fs::symlink("sub/a.c", root.join("link")).expect("links");
        let read = || Tree::read(root, None).expect("reads");
        let tree = read();
        let paths: Vec<&str> = tree.entries().iter().map(|entry| &*entry.path).collect();
        assert_eq!(paths, ["link", "sub", "sub/a.c"]);
        let first = tree.digest().to_owned();
        assert_eq!(read().digest(), first);
        fs::write(root.join("sub/.git/index"), "changed").expect("writes");
        assert_eq!(read().digest(), first);
        let file = root.join("sub/a.c");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("changes");
        let executable = read().digest().to_owned();
        assert_ne!(executable, first);
        fs::write(&file, "int y;").expect("writes");
        assert_ne!(read().digest(), executable);
        let pattern = Pattern::new("**/*.c").expect("good");
        let some = Tree::read(root, Some(&pattern)).expect("reads");
        assert_eq!(some.entries().len(), 1);
    }

    #[test]
    fn what_is_no_file_is_named() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let socket = folder.path().join("socket");
        let _listens = std::os::unix::net::UnixListener::bind(&socket).expect("binds");
        let error = Tree::read(folder.path(), None).expect_err("refused");
        assert!(error.to_string().contains("socket"), "{error}");
        let error = Tree::read(&folder.path().join("none"), None).expect_err("refused");
        assert!(error.to_string().contains("none"), "{error}");
    }
}
