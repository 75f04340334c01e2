//! Large files of the workload, which nodes read from a disk.
//!
//! A large file has at least [`LEAST`](large_files::LEAST) bytes and is neither a program nor a script. Its bytes are copied
//! once, when nodes are created, into an EROFS image: an unnamed file in the user's cache, shared by the nodes
//! and removed with the run. No file is held in memory. Equal files give equal images. Used for plans and for the
//! creation of nodes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_devices::virtio::{Disk, DiskError};
use belljar_images::CacheError;
use belljar_rootfs::{ErofsWriter, FileNode, FileTree, NodeId, NodeKind, TreeError, WriteError};
use twox_hash::XxHash3_128;

/// Length of the smallest large file, in bytes.
pub const LEAST: u64 = 16 << 20;
/// Permissions, as on the run disk.
const MODE: u16 = 0o755;
/// First bytes of programs and of scripts.
const CALLED: [&[u8]; 2] = [b"\x7fELF", b"#!"];

/// Error of the disk of large files.
#[derive(Debug, thiserror::Error)]
pub enum LargeFilesError {
    /// There is no folder for the image.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The image cannot be written.
    #[error(
        "cannot write the {size} bytes of the workload's large files to a disk in {folder}: {source}; make room there, or set XDG_CACHE_HOME to a folder that has it"
    )]
    Room {
        /// Length of all files, in bytes.
        size: u64,
        /// The folder of the image.
        folder: PathBuf,
        /// The error of the host.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("workload.files: cannot read {path} for `{name}`: {source}")]
    File {
        /// Its name in the guest.
        name: String,
        /// Its path on this host.
        path: PathBuf,
        /// The error of the host.
        source: io::Error,
    },
    /// A file changed after the plan was made.
    #[error(
        "workload.files: {path} for `{name}` no longer has the {size} bytes that it had when the run began; leave it as it is while a run begins, and run again"
    )]
    Changed {
        /// Its name in the guest.
        name: String,
        /// Its path on this host.
        path: PathBuf,
        /// Its former length, in bytes.
        size: u64,
    },
    /// An image cannot have the name.
    #[error("workload.files: {0}; give it another name")]
    Name(#[from] TreeError),
    /// The files exceed the limits of an image.
    #[error("workload.files: {0}")]
    Image(WriteError),
    /// The image cannot be opened as a disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// A file on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeFile {
    /// Its path.
    pub path: PathBuf,
    /// Its length at the time of the plan, in bytes.
    pub size: u64,
}

/// The disk of large files.
#[derive(Clone, Debug)]
pub struct LargeDisk {
    /// The image.
    pub disk: Disk,
    /// XXH3 of names, lengths and bytes.
    pub hash: u128,
}

/// The large files of a plan by their names in `/root`. Clones share the image.
#[derive(Clone, Debug, Default)]
pub struct LargeFiles {
    files: BTreeMap<String, LargeFile>,
    disk: Arc<Mutex<Option<LargeDisk>>>,
}

/// Returns the length of the file at `path` in bytes, if it is large.
///
/// # Errors
/// Returns an error if it cannot be read.
pub fn large_size(path: &Path) -> io::Result<Option<u64>> {
    let about = fs::metadata(path)?;
    if !about.is_file() || about.len() < LEAST {
        return Ok(None);
    }
    let mut start = [0; 4];
    File::open(path)?.read_exact(&mut start)?;
    let is_called = CALLED.iter().any(|mark| start.starts_with(mark));
    Ok((!is_called).then_some(about.len()))
}

impl LargeFiles {
    /// Creates the large files from `files`.
    pub fn new(files: BTreeMap<String, LargeFile>) -> Self {
        Self {
            files,
            disk: Arc::default(),
        }
    }

    /// True if there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns names in order, with the paths on this host.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &LargeFile)> {
        self.files.iter().map(|(name, file)| (&**name, file))
    }

    /// Returns the disk, which the first call writes. Without files it has an empty folder.
    ///
    /// # Errors
    /// Returns a [`LargeFilesError`] if a file or the image fails.
    pub fn disk(&self) -> Result<LargeDisk, LargeFilesError> {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(disk) = &*disk {
            return Ok(disk.clone());
        }
        let folder = belljar_images::user_folder("files")?;
        Ok(disk.insert(self.write(&folder)?).clone())
    }

    /// Writes the image into an unnamed file in `folder`.
    fn write(&self, folder: &Path) -> Result<LargeDisk, LargeFilesError> {
        let no_room = |source| LargeFilesError::Room {
            size: self.files.values().map(|file| file.size).sum(),
            folder: folder.to_owned(),
            source,
        };
        fs::create_dir_all(folder).map_err(no_room)?;
        let image = tempfile::tempfile_in(folder).map_err(no_room)?;
        let (tree, nodes) = self.tree()?;
        let fitting = |error| match error {
            WriteError::Image { source, .. } => no_room(source),
            other => LargeFilesError::Image(other),
        };
        let whole = image.try_clone().map_err(no_room)?;
        let mut writer = ErofsWriter::on(&tree, whole, folder).map_err(fitting)?;
        let mut hash = XxHash3_128::new();
        for ((name, file), node) in self.files.iter().zip(nodes) {
            hash.write(format!("{name}\0{}\0", file.size).as_bytes());
            copy(&mut writer, node, &mut hash, name, file).map_err(|error| match error {
                LargeFilesError::Image(error) => fitting(error),
                other => other,
            })?;
        }
        writer.finish().map_err(fitting)?;
        let disk = Disk::of_file(image, folder)?;
        let hash = hash.finish_128();
        Ok(LargeDisk { disk, hash })
    }

    /// Builds the tree of names. Returns it with the node of each file.
    fn tree(&self) -> Result<(FileTree, Vec<NodeId>), TreeError> {
        let mut tree = FileTree::default();
        let nodes = self.files.iter().map(|(name, file)| {
            let node = FileNode {
                kind: NodeKind::File { size: file.size },
                mode: MODE,
                ..FileNode::directory()
            };
            tree.insert(name.as_bytes(), node)
        });
        let nodes = nodes.collect::<Result<_, _>>()?;
        Ok((tree, nodes))
    }
}

/// Copies the bytes of `file` into the image, and into the hash.
fn copy(
    writer: &mut ErofsWriter<'_>,
    node: NodeId,
    hash: &mut XxHash3_128,
    name: &str,
    file: &LargeFile,
) -> Result<(), LargeFilesError> {
    let unreadable = |source| LargeFilesError::File {
        name: name.to_owned(),
        path: file.path.clone(),
        source,
    };
    let bytes = File::open(&file.path).map_err(unreadable)?;
    let copied = writer.file(node, &mut Hashed { bytes, hash });
    copied.map_err(|error| match error {
        WriteError::Length { size, .. } => LargeFilesError::Changed {
            name: name.to_owned(),
            path: file.path.clone(),
            size,
        },
        WriteError::Data { source, .. } => unreadable(source),
        other => LargeFilesError::Image(other),
    })
}

/// A reader that hashes the bytes of a file.
struct Hashed<'a> {
    bytes: File,
    hash: &'a mut XxHash3_128,
}

impl Read for Hashed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(into)?;
        self.hash.write(&into[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, name: &str, start: &[u8], size: u64) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, start).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(size).unwrap();
        path
    }

    fn of(path: &Path, name: &str) -> LargeFiles {
        let file = LargeFile {
            path: path.to_owned(),
            size: fs::metadata(path).unwrap().len(),
        };
        LargeFiles::new(BTreeMap::from([(name.to_owned(), file)]))
    }

    #[test]
    fn programs_scripts_and_small_files_are_not_large() {
        let folder = tempfile::tempdir().unwrap();
        let size = |start: &[u8], size| large_size(&written(folder.path(), "x", start, size));
        assert_eq!(size(b"data", LEAST).unwrap(), Some(LEAST));
        assert_eq!(size(b"data", LEAST - 1).unwrap(), None);
        assert_eq!(size(b"\x7fELF", LEAST).unwrap(), None);
        assert_eq!(size(b"#!/bin/sh\n", LEAST).unwrap(), None);
        assert_eq!(large_size(folder.path()).unwrap(), None);
        assert!(large_size(&folder.path().join("none")).is_err());
    }

    #[test]
    fn the_disk_has_their_bytes_and_the_hash_tells_them_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), "big", b"begin", LEAST + 5);
        let first = of(&path, "in/big").write(folder.path()).unwrap();
        assert!(first.disk.len() > LEAST && !first.disk.is_writable());
        let bytes = |disk: &Disk| {
            let mut bytes = vec![0; disk.len() as usize];
            disk.read(0, &mut bytes).unwrap();
            bytes
        };
        let again = of(&path, "in/big").write(folder.path()).unwrap();
        assert_eq!(first.hash, again.hash);
        assert!(bytes(&first.disk) == bytes(&again.disk), "equal images");
        let found = bytes(&first.disk);
        assert!(found.windows(5).any(|part| part == b"begin"));
        let renamed = of(&path, "in/other").write(folder.path()).unwrap();
        assert_ne!(first.hash, renamed.hash);
        let other = written(folder.path(), "big", b"Begin", LEAST + 5);
        let other = of(&other, "in/big").write(folder.path()).unwrap();
        assert_ne!(first.hash, other.hash);
    }

    #[test]
    fn a_file_that_changed_or_went_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), "big", b"", LEAST);
        let files = of(&path, "in/big");
        for size in [LEAST - 1, LEAST + 1] {
            written(folder.path(), "big", b"", size);
            let error = files.write(folder.path()).unwrap_err().to_string();
            let words = [path.to_str().unwrap(), "`in/big`", "16777216 bytes"];
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        fs::remove_file(&path).unwrap();
        let error = files.write(folder.path()).unwrap_err();
        assert!(matches!(error, LargeFilesError::File { .. }), "{error}");
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = files.write(&file).unwrap_err().to_string();
        assert!(error.contains("XDG_CACHE_HOME"), "{error}");
    }
}
