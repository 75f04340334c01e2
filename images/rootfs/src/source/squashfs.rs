//! Squashfs 4.0 images, in a file of their own or in a partition.
//!
//! Each position is checked before directories and inodes are read there. An image can thus refer to nothing
//! outside itself, to no directory twice, and to nothing larger than the format's limits. Memory holds an
//! image's names, a bounded number of its metadata blocks and one block of a file.
//!
//! The crate `backhand` (0.25) has other bounds: it reads no extended attributes, keeps all inodes and directory entries of an
//! image in memory whatever their number, and descends into folders by recursion, so that a deep image ends the process.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use super::SourceError;
use super::blobs::Range;
use super::compression::Hashed;
use super::error::{Budget, shown};
use crate::source::FileSink;
use crate::{FileTree, NodeId, NodeKind};

/// Extended attributes: a table of sets, each a run of names and values.
mod attributes;
/// Data of files: blocks, and ends in shared fragment blocks.
mod data;
/// Inodes of a squashfs, and the entries of directories.
mod inode;
/// The superblock, and chains of metadata blocks.
mod metadata;

use data::{BlockReader, Fragments};
use inode::{Inode, InodeKind};
use metadata::Metadata;

/// A squashfs image.
#[derive(Debug, Clone)]
pub(super) struct SquashfsImage {
    pub(super) bytes: Range,
    /// The file, and the partition in it, for errors.
    pub(super) place: String,
}

/// Positions of the files' inodes.
#[derive(Debug, Clone, Default)]
pub(super) struct SquashfsFiles(BTreeMap<NodeId, u64>);

/// A directory that is not listed yet.
struct Folder {
    path: Vec<u8>,
    inode: u64,
}

/// State of a walk through the directories.
struct SquashfsWalk<'a> {
    image: &'a SquashfsImage,
    metadata: Metadata,
    tree: FileTree,
    budget: Budget,
    files: SquashfsFiles,
    /// Nodes by inode: a second name is a hard link.
    nodes: BTreeMap<u64, NodeId>,
    folders: BTreeSet<u64>,
    open: Vec<Folder>,
}

impl SquashfsImage {
    /// The tree, the location of its files' data, and the digest of the whole image.
    ///
    /// # Errors
    /// When the image is damaged, its compression is unsupported, or it is too large.
    pub(super) fn read(&self) -> Result<(FileTree, SquashfsFiles, String), SourceError> {
        let failed = |error| super::blobs::unreadable(&self.place, error);
        let (digest, _) = Hashed::new(self.bytes.clone()).finish().map_err(failed)?;
        let metadata = Metadata::open(self.bytes.clone()).map_err(failed)?;
        let mut walk = SquashfsWalk {
            image: self,
            metadata,
            tree: FileTree::default(),
            budget: Budget::default(),
            files: SquashfsFiles::default(),
            nodes: BTreeMap::new(),
            folders: BTreeSet::new(),
            open: Vec::new(),
        };
        walk.run()?;
        Ok((walk.tree, walk.files, digest))
    }

    /// Copies every file that the sink wants, in the order of their inodes.
    ///
    /// # Errors
    /// When the image is damaged, or the sink fails.
    pub(super) fn copy(
        &self,
        tree: &FileTree,
        files: &SquashfsFiles,
        sink: &mut dyn FileSink,
    ) -> Result<(), SourceError> {
        let failed = |error| super::blobs::unreadable(&self.place, error);
        let mut metadata = Metadata::open(self.bytes.clone()).map_err(failed)?;
        let mut fragments = Fragments::default();
        let names: BTreeMap<NodeId, &[u8]> = tree.paths().map(|(path, id)| (id, path)).collect();
        for (&id, &reference) in &files.0 {
            if !sink.wants(id) {
                continue;
            }
            let inode = Inode::read(&mut metadata, reference).map_err(failed)?;
            let InodeKind::File(file) = inode.kind else {
                return Err(SourceError::damaged(
                    &self.place,
                    "it changed while it was read",
                ));
            };
            let mut data = BlockReader::new(&mut metadata, &mut fragments, file);
            let taken = sink.file(id, &mut data);
            taken.map_err(|source| SourceError::Copy {
                place: format!(
                    "{} in {}",
                    shown(names.get(&id).copied().unwrap_or_default()),
                    self.place
                ),
                source,
            })?;
        }
        Ok(())
    }

    /// A small file's data, if it exists and is within the limit.
    ///
    /// # Errors
    /// When the image is damaged.
    pub(super) fn bytes(
        &self,
        tree: &FileTree,
        files: &SquashfsFiles,
        path: &[u8],
        longest: u64,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        let Some(&reference) = tree.find(path).and_then(|id| files.0.get(&id)) else {
            return Ok(None);
        };
        let failed = |error| super::blobs::unreadable(&self.place, error);
        let mut metadata = Metadata::open(self.bytes.clone()).map_err(failed)?;
        let mut fragments = Fragments::default();
        let inode = Inode::read(&mut metadata, reference).map_err(failed)?;
        let InodeKind::File(file) = inode.kind else {
            return Ok(None);
        };
        if file.size > longest {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let mut contents = BlockReader::new(&mut metadata, &mut fragments, file);
        contents.read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some(bytes))
    }
}

impl SquashfsWalk<'_> {
    fn run(&mut self) -> Result<(), SourceError> {
        let root = self.metadata.superblock.root_inode;
        let kind = self.put(Vec::new(), root)?;
        if !matches!(kind, InodeKind::Directory { .. }) {
            return Err(SourceError::damaged(
                &self.image.place,
                "its root is no directory",
            ));
        }
        while let Some(folder) = self.open.pop() {
            let failed = |error| super::blobs::unreadable(&self.image.place, error);
            let inode = Inode::read(&mut self.metadata, folder.inode).map_err(failed)?;
            let mut listing = inode.listing(&self.metadata).map_err(failed)?;
            while let Some((name, reference)) = listing.next(&mut self.metadata).map_err(failed)? {
                let mut path = folder.path.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                if name.contains(&b'/') || name == b"." || name == b".." {
                    let why = format!("it has the file name {}", shown(&name));
                    return Err(SourceError::damaged(&self.image.place, why));
                }
                path.extend_from_slice(&name);
                self.put(path, reference)?;
            }
        }
        Ok(())
    }

    /// Puts an inode at a path, as a new node or as another name of an existing one.
    fn put(&mut self, path: Vec<u8>, reference: u64) -> Result<InodeKind, SourceError> {
        let place = format!("{} in {}", shown(&path), self.image.place);
        let inode = Inode::read(&mut self.metadata, reference);
        let inode = inode.map_err(|error| super::blobs::unreadable(&place, error))?;
        let attributes = attributes::read(&mut self.metadata, inode.attributes);
        let attributes = attributes.map_err(|error| super::blobs::unreadable(&place, error))?;
        let strings = attributes
            .iter()
            .map(|(name, value)| name.len() + value.len() + 100);
        let target = match &inode.kind {
            InodeKind::Other(NodeKind::Link(target)) => target.len(),
            _ => 0,
        };
        let strings = path.len() * 2 + target + strings.sum::<usize>();
        self.budget.entry(&place, strings)?;
        if let Some(id) = self.nodes.get(&reference) {
            let linked = self.tree.link(&path, *id);
            linked.map_err(|error| SourceError::tree(place, error))?;
            return Ok(inode.kind);
        }
        let is_folder = matches!(inode.kind, InodeKind::Directory { .. });
        if is_folder && !self.folders.insert(reference) {
            return Err(SourceError::damaged(place, "a directory has two names"));
        }
        let node = inode.node(attributes);
        if let NodeKind::File { size } = node.kind {
            self.budget.file(&place, size)?;
        }
        let is_file = matches!(node.kind, NodeKind::File { .. });
        let id = self.tree.insert(&path, node);
        let id = id.map_err(|error| SourceError::tree(place, error))?;
        if is_folder {
            self.open.push(Folder {
                path,
                inode: reference,
            });
        } else {
            self.nodes.insert(reference, id);
        }
        if is_file {
            self.files.0.insert(id, reference);
        }
        Ok(inode.kind)
    }
}
