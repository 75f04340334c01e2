//! The unpacked packages, read straight out of the tar archive that the bootstrap writes.
//!
//! Nothing is unpacked to the host's disk: an index by absolute path suffices, and the builder needs no
//! privileges for the owners and modes in the archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tar::{Archive, EntryType};

use crate::filesystem::data::Data;
use crate::recipe::pattern::{Pattern, literal_part};

/// Longest chain of symbolic links followed, as in Linux.
const LINK_LIMIT: usize = 40;

/// An error of reading the unpacked packages.
#[derive(Debug, thiserror::Error)]
pub enum ChrootError {
    /// The archive itself can't be read.
    #[error(
        "cannot read the unpacked packages in {path}: {source}; free some disk space and build again"
    )]
    Read {
        /// The archive.
        path: PathBuf,
        /// System error.
        source: std::io::Error,
    },
    /// A file that the recipe names is not in any package.
    #[error(
        "{path} is in none of the installed packages; correct the path or name its package in the recipe"
    )]
    Missing {
        /// Path inside the guest.
        path: String,
    },
    /// Symbolic links lead in a circle.
    #[error("{path} leads through more than {LINK_LIMIT} symbolic links")]
    Links {
        /// Path inside the guest.
        path: String,
    },
}

/// Type of the entry at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChrootEntryKind<'a> {
    Directory,
    File,
    /// A link with this text.
    Link(&'a str),
}

/// An entry of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ChrootEntry {
    Directory,
    File {
        offset: u64,
        size: u64,
        executable: bool,
    },
    Link(String),
}

/// A resolved path, with the links that were followed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Each link passed, with its text, in order.
    pub(crate) links: Vec<(String, String)>,
    /// The path that all links lead to.
    pub(crate) path: String,
}

/// The files of a chroot, by absolute path.
#[derive(Debug)]
pub(crate) struct Chroot {
    archive: PathBuf,
    file: Arc<File>,
    nodes: BTreeMap<String, ChrootEntry>,
}

impl Chroot {
    pub(crate) fn open(archive: &Path) -> Result<Self, ChrootError> {
        let read = |source| ChrootError::Read {
            path: archive.to_owned(),
            source,
        };
        let file = File::open(archive).map_err(read)?;
        let nodes = index(&file).map_err(read)?;
        Ok(Self {
            archive: archive.to_owned(),
            file: Arc::new(file),
            nodes,
        })
    }

    /// All paths under a folder, in order. `folder` ends with a slash.
    pub(crate) fn under<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        self.nodes
            .range(folder.to_owned()..)
            .map(|(path, _)| path.as_str())
            .take_while(move |path| path.starts_with(folder))
    }

    /// Follows `path` through all symbolic links.
    pub(crate) fn resolve(&self, path: &str) -> Result<Resolved, ChrootError> {
        let mut links = Vec::new();
        let mut done = String::new();
        let mut rest: Vec<String> = components(path).rev().map(str::to_owned).collect();
        while let Some(part) = rest.pop() {
            if part == ".." {
                done.truncate(done.rfind('/').unwrap_or(0));
                continue;
            }
            let here = format!("{done}/{part}");
            match self.nodes.get(&here) {
                Some(ChrootEntry::Link(target)) => {
                    if links.len() >= LINK_LIMIT {
                        return Err(ChrootError::Links {
                            path: path.to_owned(),
                        });
                    }
                    if target.starts_with('/') {
                        done.clear();
                    }
                    rest.extend(components(target).rev().map(str::to_owned));
                    links.push((here, target.clone()));
                }
                Some(_) => done = here,
                None => {
                    return Err(ChrootError::Missing {
                        path: path.to_owned(),
                    });
                }
            }
        }
        Ok(Resolved { links, path: done })
    }

    /// True if a path leads to a regular file.
    pub(crate) fn is_file(&self, path: &str) -> bool {
        self.resolve(path)
            .is_ok_and(|end| matches!(self.nodes.get(&end.path), Some(ChrootEntry::File { .. })))
    }

    /// True if the file at a path without links is executable.
    pub(crate) fn is_executable(&self, path: &str) -> bool {
        matches!(
            self.nodes.get(path),
            Some(ChrootEntry::File {
                executable: true,
                ..
            })
        )
    }

    /// The type of the entry at a path, without following links.
    pub(crate) fn kind(&self, path: &str) -> Option<ChrootEntryKind<'_>> {
        Some(match self.nodes.get(path)? {
            ChrootEntry::Directory => ChrootEntryKind::Directory,
            ChrootEntry::File { .. } => ChrootEntryKind::File,
            ChrootEntry::Link(target) => ChrootEntryKind::Link(target),
        })
    }

    /// The file that `path` leads to, which stays in the archive.
    pub(crate) fn data(&self, path: &str) -> Result<Data, ChrootError> {
        let end = self.resolve(path)?;
        let Some(&ChrootEntry::File { offset, size, .. }) = self.nodes.get(&end.path) else {
            return Err(ChrootError::Missing {
                path: path.to_owned(),
            });
        };
        let file = self.file.clone();
        Ok(Data::Part { file, offset, size })
    }

    /// The bytes of the file that `path` leads to, in memory.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>, ChrootError> {
        let mut bytes = Vec::new();
        let read = self.data(path)?.copy_to(&mut bytes);
        read.map_err(|source| self.failed(source))?;
        Ok(bytes)
    }

    /// Wraps an error of reading the archive.
    pub(crate) fn failed(&self, source: std::io::Error) -> ChrootError {
        ChrootError::Read {
            path: self.archive.clone(),
            source,
        }
    }

    /// The paths that a pattern names: one path as it is, the matching files, or a folder with its
    /// contents. `*` and `?` match anything within one component of a path, `**` any number of components.
    pub(crate) fn matching(&self, pattern: &str) -> Result<Vec<String>, ChrootError> {
        let missing = || ChrootError::Missing {
            path: pattern.to_owned(),
        };
        let is_one = !pattern.contains(['*', '?']);
        // The archive has no paths through links: `/lib` may be a link to `/usr/lib`.
        let start = literal_part(pattern);
        let folder = start.trim_end_matches('/');
        let real = self.resolve(folder).map(|end| end.path);
        let real = real.unwrap_or_else(|_| folder.to_owned());
        if is_one && self.kind(&real) != Some(ChrootEntryKind::Directory) {
            return Ok(vec![pattern.to_owned()]);
        }
        let below = format!("{real}/");
        let inside = self.under(&below).filter(|path| !is_own(path));
        let named = |path: &str| format!("{folder}{}", &path[real.len()..]);
        let found: Vec<String> = if is_one {
            inside.map(named).collect()
        } else {
            let rest = Pattern::new(&pattern[start.len()..]).ok_or_else(missing)?;
            let fits = |path: &&str| rest.matches(&path[below.len()..]) && self.is_file(path);
            inside.filter(fits).map(named).collect()
        };
        if found.is_empty() {
            return Err(missing());
        }
        Ok(found)
    }

    /// The packages' files with this name, in any folder, each once.
    pub(crate) fn named(&self, name: &str) -> Vec<String> {
        let end = format!("/{name}");
        let all = self.nodes.keys().filter(|path| path.ends_with(&end));
        let mut real = BTreeMap::new();
        for path in all.filter(|path| !is_own(path) && self.is_file(path)) {
            if let Ok(end) = self.resolve(path) {
                real.entry(end.path).or_insert_with(|| path.clone());
            }
        }
        real.into_values().collect()
    }
}

/// True for paths that belong to the build itself.
fn is_own(path: &str) -> bool {
    path.starts_with("/belljar/")
}

fn index(file: &File) -> std::io::Result<BTreeMap<String, ChrootEntry>> {
    let mut nodes = BTreeMap::new();
    let mut hard_links = Vec::new();
    let mut archive = Archive::new(file);
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let path = absolute(&entry.path_bytes());
        let target = entry
            .link_name_bytes()
            .map(|name| String::from_utf8_lossy(&name).into_owned());
        let node = match (entry.header().entry_type(), target) {
            (EntryType::Directory, _) => ChrootEntry::Directory,
            (EntryType::Symlink, Some(target)) => ChrootEntry::Link(target),
            (EntryType::Link, Some(target)) => {
                hard_links.push((path, absolute(target.as_bytes())));
                continue;
            }
            (EntryType::Regular | EntryType::Continuous, _) => ChrootEntry::File {
                offset: entry.raw_file_position(),
                size: entry.size(),
                executable: entry.header().mode()? & 0o111 != 0,
            },
            _ => continue,
        };
        nodes.insert(path, node);
    }
    for (path, target) in hard_links {
        if let Some(node) = nodes.get(&target).cloned() {
            nodes.insert(path, node);
        }
    }
    Ok(nodes)
}

fn components(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|part| !matches!(*part, "" | "."))
}

fn absolute(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let mut out = String::with_capacity(text.len() + 1);
    for part in components(&text) {
        out.push('/');
        out.push_str(part);
    }
    out
}

#[cfg(test)]
pub(crate) mod tests;
