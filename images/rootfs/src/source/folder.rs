//! A folder that is a root file system, as unpacked or installed on the host.
//!
//! Every entry has the metadata of `lstat`; links aren't followed. Mount points below, such as `/proc`, `/sys`
//! and `/dev`, become empty directories.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::SourceError;
use super::compression::hex;
use super::error::Budget;
use crate::source::FileSink;
use crate::{FileNode, FileTree, NodeId, NodeKind};

/// The host's device and inode of each node, so that a file replaced between the passes is detected.
#[derive(Debug, Clone, Default)]
pub(super) struct FolderFiles(BTreeMap<NodeId, (u64, u64)>);

struct FolderWalk<'a> {
    root: &'a Path,
    device: u64,
    tree: FileTree,
    budget: Budget,
    files: FolderFiles,
    /// Nodes with several names, by device and inode.
    linked: BTreeMap<(u64, u64), NodeId>,
    open: Vec<Vec<u8>>,
}

/// The tree, the host's files of its nodes, and the digest of names, metadata and data.
///
/// # Errors
/// When something in it can't be read, or exceeds a limit.
pub(super) fn read(root: &Path) -> Result<(FileTree, FolderFiles, String), SourceError> {
    let metadata = fs::metadata(root).map_err(|error| SourceError::io(root.display(), error))?;
    read_on(root, &metadata, metadata.dev())
}

/// Like `read`, for directories on one device only.
pub(super) fn read_on(
    root: &Path,
    metadata: &Metadata,
    device: u64,
) -> Result<(FileTree, FolderFiles, String), SourceError> {
    let mut walk = FolderWalk {
        root,
        device,
        tree: FileTree::default(),
        budget: Budget::default(),
        files: FolderFiles::default(),
        linked: BTreeMap::new(),
        open: vec![Vec::new()],
    };
    walk.put(Vec::new(), metadata)?;
    while let Some(path) = walk.open.pop() {
        walk.list(&path)?;
    }
    let digest = digest(root, &walk.tree, &walk.files)?;
    Ok((walk.tree, walk.files, digest))
}

/// Copies every file that the sink wants.
///
/// # Errors
/// When a file changed since `read` or can't be read, or the sink fails.
pub(super) fn copy(
    root: &Path,
    tree: &FileTree,
    files: &FolderFiles,
    sink: &mut dyn FileSink,
) -> Result<(), SourceError> {
    each(tree, files, |path, id, size| {
        if !sink.wants(id) {
            return Ok(());
        }
        let mut data = open(root, path, files.0.get(&id), size)?;
        let taken = sink.file(id, &mut data);
        taken.map_err(|source| SourceError::Copy {
            place: host_path(root, path).display().to_string(),
            source,
        })
    })
}

/// Visits every file once, by its first path.
fn each(
    tree: &FileTree,
    files: &FolderFiles,
    mut each: impl FnMut(&[u8], NodeId, u64) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let mut left: BTreeMap<NodeId, ()> = files.0.keys().map(|&id| (id, ())).collect();
    for (path, id) in tree.paths() {
        if let (NodeKind::File { size }, Some(())) = (&tree.node(id).kind, left.remove(&id)) {
            each(path, id, *size)?;
        }
    }
    Ok(())
}

impl FolderWalk<'_> {
    fn list(&mut self, folder: &[u8]) -> Result<(), SourceError> {
        let host = host_path(self.root, folder);
        let failed = |error| SourceError::io(host.display(), error);
        for entry in fs::read_dir(&host).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let mut path = folder.to_vec();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(entry.file_name().as_bytes());
            let metadata = entry.metadata();
            let metadata =
                metadata.map_err(|error| SourceError::io(entry.path().display(), error))?;
            self.put(path.clone(), &metadata)?;
            if metadata.is_dir() && metadata.dev() == self.device {
                self.open.push(path);
            }
        }
        Ok(())
    }

    fn put(&mut self, path: Vec<u8>, metadata: &Metadata) -> Result<(), SourceError> {
        let host = host_path(self.root, &path);
        let place = host.display().to_string();
        let key = (metadata.dev(), metadata.ino());
        if let Some(id) = self.linked.get(&key) {
            self.budget.entry(&place, path.len() * 2)?;
            return self
                .tree
                .link(&path, *id)
                .map_err(|error| SourceError::tree(place, error));
        }
        let failed = |error| SourceError::io(&place, error);
        let attributes = attributes(&host).map_err(failed)?;
        let kind = kind(&host, metadata).map_err(failed)?;
        let strings = attributes
            .iter()
            .map(|(name, value)| name.len() + value.len() + 100);
        self.budget
            .entry(&place, path.len() * 2 + strings.sum::<usize>())?;
        let is_file = matches!(kind, NodeKind::File { .. });
        if let NodeKind::File { size } = kind {
            self.budget.file(&place, size)?;
        }
        let node = FileNode {
            kind,
            mode: (metadata.mode() & 0o7777) as u16,
            uid: metadata.uid(),
            gid: metadata.gid(),
            mtime: u64::try_from(metadata.mtime()).unwrap_or(0),
            attributes,
        };
        let id = self
            .tree
            .insert(&path, node)
            .map_err(|error| SourceError::tree(&place, error))?;
        if metadata.nlink() > 1 && !metadata.is_dir() {
            self.linked.insert(key, id);
        }
        if is_file {
            self.files.0.insert(id, key);
        }
        Ok(())
    }
}

fn kind(host: &Path, metadata: &Metadata) -> io::Result<NodeKind> {
    let kind = metadata.file_type();
    let device = metadata.rdev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    Ok(if kind.is_dir() {
        NodeKind::Directory
    } else if kind.is_file() {
        NodeKind::File {
            size: metadata.len(),
        }
    } else if kind.is_symlink() {
        NodeKind::Link(fs::read_link(host)?.into_os_string().into_vec())
    } else if kind.is_char_device() {
        NodeKind::Character { major, minor }
    } else if kind.is_block_device() {
        NodeKind::Block { major, minor }
    } else if kind.is_fifo() {
        NodeKind::Fifo
    } else {
        NodeKind::Socket
    })
}

fn attributes(host: &Path) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let names = match xattr::list(host) {
        Ok(names) => names,
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let mut attributes = BTreeMap::new();
    for name in names {
        // The attribute may have been removed since it was listed.
        if let Some(value) = xattr::get(host, &name)? {
            attributes.insert(name.into_vec(), value);
        }
    }
    Ok(attributes)
}

/// Opens a file, if it is the one that was listed.
fn open(
    root: &Path,
    path: &[u8],
    listed: Option<&(u64, u64)>,
    size: u64,
) -> Result<Exactly, SourceError> {
    let host = host_path(root, path);
    let failed = |error| SourceError::io(host.display(), error);
    // If the file was replaced by a link or a pipe: do not follow or wait.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(&host)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let is_same = listed == Some(&(metadata.dev(), metadata.ino())) && metadata.len() == size;
    if !is_same || !metadata.is_file() {
        return Err(SourceError::damaged(
            host.display(),
            "it changed while it was read",
        ));
    }
    Ok(Exactly { file, left: size })
}

/// Reads exactly a given number of bytes of a file that may grow or shrink meanwhile.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = self.file.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            return Err(io::Error::other(
                "the file became shorter while it was read",
            ));
        }
        self.left -= count as u64;
        Ok(count)
    }
}

fn digest(root: &Path, tree: &FileTree, files: &FolderFiles) -> Result<String, SourceError> {
    let mut hash = Sha256::new();
    let mut first: BTreeMap<NodeId, u64> = BTreeMap::new();
    for (number, (path, id)) in tree.paths().enumerate() {
        // A node is numbered by its first name; node numbers would depend on the host's order of names.
        let first = *first.entry(id).or_insert(number as u64);
        field(&mut hash, path);
        hash.update(first.to_le_bytes());
        if first != number as u64 {
            continue;
        }
        let node = tree.node(id);
        hash.update(node.mode.to_le_bytes());
        hash.update([node.uid, node.gid].map(u32::to_le_bytes).concat());
        hash.update(node.mtime.to_le_bytes());
        hash.update((node.attributes.len() as u64).to_le_bytes());
        for (name, value) in &node.attributes {
            field(&mut hash, name);
            field(&mut hash, value);
        }
        field(&mut hash, format!("{:?}", node.kind).as_bytes());
        if let NodeKind::File { size } = node.kind {
            let mut data = open(root, path, files.0.get(&id), size)?;
            let copied = io::copy(&mut data, &mut hash);
            copied.map_err(|error| SourceError::io(host_path(root, path).display(), error))?;
        }
    }
    Ok(hex(&hash.finalize()))
}

fn field(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn host_path(root: &Path, path: &[u8]) -> PathBuf {
    match path {
        [] => root.to_owned(),
        path => root.join(std::ffi::OsStr::from_bytes(path)),
    }
}
