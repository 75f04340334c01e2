//! Writes a tree as an EROFS image.
//!
//! Equal trees with equal bytes give equal images, in whichever order files are copied. The superblock is written last,
//! so a partly written image is not valid. Memory grows with the number of names in the tree, not with the sizes of its
//! files. Called with a source's tree and then with the data of its files.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::layout::{ErofsLayout, Unfit};
use super::place::InodePosition;
use super::{BLOCK, attributes, directory, inode};
use crate::tree::{FileTree, NodeId, NodeKind};

/// Bytes per read.
const CHUNK: usize = 1 << 16;

/// An error of writing an image.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The image's file can't be written.
    #[error("cannot write the root file system {path}: {source}; make room or rights for it")]
    Image {
        /// The image.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
    /// A node of the tree can't be encoded.
    #[error(
        "{path:?} cannot stand in a root file system: {why}; leave it out of what the image is made of"
    )]
    Node {
        /// Its first path, from `/`.
        path: String,
        /// The problem.
        why: String,
    },
    /// An image has at most 16 TiB.
    #[error("the file system is larger than the 16 TiB that an image takes; leave out large files")]
    Size,
    /// A name's parent is not a directory.
    #[error("the tree of files is not whole: a name stands in no directory; list the source again")]
    Tree,
    /// The node takes no data: it is not a regular file, has no names or belongs to another tree.
    #[error(
        "node {number} of the tree takes no bytes: it is no file with a name; ask which files are wanted"
    )]
    NoFile {
        /// The node's number.
        number: u32,
    },
    /// A file's data were copied before.
    #[error("{path:?} was copied before; copy each file once, whatever its names")]
    Again {
        /// Its first path.
        path: String,
    },
    /// A file's data can't be read from the source.
    #[error("cannot read the bytes of {path:?}: {source}; look at what the image is made of")]
    Data {
        /// Its first path.
        path: String,
        /// The source's error.
        source: io::Error,
    },
    /// The size of a file's data differs from the tree's.
    #[error(
        "{path:?} has {found} bytes than the {size} that it was listed with; list the source again"
    )]
    Length {
        /// Its first path.
        path: String,
        /// Size according to the tree, in bytes.
        size: u64,
        /// `fewer` or `more`.
        found: &'static str,
    },
    /// A file's data were not copied.
    #[error("the bytes of {path:?} are missing; copy all files that are wanted")]
    Missing {
        /// Its first path.
        path: String,
    },
}

/// Progress of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyState {
    Missing,
    /// Copying began and failed: the file's space may have data.
    Begun,
    Copied,
}

/// An image that is being written.
///
/// Files are copied in any order; [`ErofsWriter::finish`] writes the rest.
#[derive(Debug)]
pub struct ErofsWriter<'a> {
    tree: &'a FileTree,
    layout: ErofsLayout<'a>,
    /// Indexed by node number.
    states: Vec<CopyState>,
    path: PathBuf,
    image: File,
}

impl<'a> ErofsWriter<'a> {
    /// Lays the tree out in a new file at `path`, which replaces an existing file.
    ///
    /// # Errors
    /// When a node can't be encoded, the tree is too large, or the file can't be created.
    pub fn create(tree: &'a FileTree, path: &Path) -> Result<Self, WriteError> {
        let layout = lay_out(tree)?;
        let image = File::create(path).map_err(|source| WriteError::Image {
            path: path.to_owned(),
            source,
        })?;
        Self::of_layout(tree, layout, image, path)
    }

    /// Lays the tree out in an empty, writable file, which need not have a name; `path` is for errors.
    ///
    /// # Errors
    /// As for [`ErofsWriter::create`].
    pub fn on(tree: &'a FileTree, image: File, path: &Path) -> Result<Self, WriteError> {
        Self::of_layout(tree, lay_out(tree)?, image, path)
    }

    fn of_layout(
        tree: &'a FileTree,
        layout: ErofsLayout<'a>,
        image: File,
        path: &Path,
    ) -> Result<Self, WriteError> {
        let sized = image.set_len(u64::from(layout.blocks) * BLOCK);
        sized.map_err(|source| WriteError::Image {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            tree,
            states: vec![CopyState::Missing; layout.places.len()],
            layout,
            path: path.to_owned(),
            image,
        })
    }

    /// True if the node is a regular, non-empty file of the tree that has a name and was not copied yet.
    pub fn wants(&self, id: NodeId) -> bool {
        let is_missing = self.states.get(id.0 as usize) != Some(&CopyState::Copied);
        is_missing && self.file_at(id).is_some_and(|place| place.size > 0)
    }

    /// Copies a file's data, which must be exactly its size. Files may come in any order, each once. An empty file need
    /// not be copied. After an error the same file may be tried again.
    ///
    /// # Errors
    /// When the node is not a file with a name, was copied before, its data are shorter or longer than the tree says,
    /// or data can't be read or written.
    pub fn file(&mut self, id: NodeId, data: &mut dyn Read) -> Result<(), WriteError> {
        let number = id.0;
        let place = self.file_at(id).ok_or(WriteError::NoFile { number })?;
        let state = self.states[number as usize];
        if state == CopyState::Copied {
            let path = self.name(id);
            return Err(WriteError::Again { path });
        }
        let (place, size) = (place.clone(), place.size);
        self.states[number as usize] = CopyState::Begun;
        let mut buffer = vec![0; CHUNK];
        let mut at = 0;
        while at < size {
            let length = (size - at).min(CHUNK as u64) as usize;
            let got = self.read(id, data, &mut buffer[..length])?;
            if got == 0 {
                return Err(self.length(id, size, "fewer"));
            }
            let bytes = &buffer[..got];
            // Unwritten parts read as zeros: long runs of zeros use no disk space.
            if state == CopyState::Begun || bytes.iter().any(|&byte| byte != 0) {
                self.put(&place, at, bytes)?;
            }
            at += got as u64;
        }
        if self.read(id, data, &mut buffer[..1])? > 0 {
            return Err(self.length(id, size, "more"));
        }
        self.states[number as usize] = CopyState::Copied;
        Ok(())
    }

    /// Writes the rest of the image; the error names a file that was not copied.
    ///
    /// # Errors
    /// When a file was not copied, or the image can't be written.
    pub fn finish(self) -> Result<(), WriteError> {
        let mut nodes = 0;
        for number in 0..self.layout.places.len() as u32 {
            let id = NodeId(number);
            let Some(place) = self.layout.place(id) else {
                continue;
            };
            if self.wants(id) {
                let path = self.name(id);
                return Err(WriteError::Missing { path });
            }
            nodes += 1;
            self.write_node(id, place)?;
        }
        let root = self.layout.place(NodeId(0)).map(InodePosition::number);
        let root = root.and_then(|number| u16::try_from(number).ok());
        let root = root.ok_or(WriteError::Tree)?;
        let superblock = inode::superblock(root, nodes, self.layout.blocks);
        self.write(&superblock, inode::SUPERBLOCK)
    }

    /// Writes a node's inode, attributes, and its entries or link target.
    fn write_node(&self, id: NodeId, place: &InodePosition) -> Result<(), WriteError> {
        let node = self.tree.node(id);
        let attributes = attributes::encode(&node.attributes).ok_or(WriteError::Tree)?;
        let units = attributes::units(attributes.len()) as u16;
        let mut bytes = inode::encode(node, place, units, id.0);
        bytes.extend(attributes);
        self.write(&bytes, place.inode)?;
        match &node.kind {
            NodeKind::Directory => self.write_directory(id, place),
            NodeKind::Link(text) => self.put(place, 0, text),
            _ => Ok(()),
        }
    }

    fn write_directory(&self, id: NodeId, place: &InodePosition) -> Result<(), WriteError> {
        let number = |node: u32| self.layout.places[node as usize].number();
        let entries = directory::of_folder(&self.layout.entries, id.0);
        for (index, block) in directory::blocks(entries).enumerate() {
            let bytes = directory::encode(self.tree, block, number);
            self.put(place, index as u64 * BLOCK, &bytes)?;
        }
        Ok(())
    }

    /// Writes data of a file, a directory or a link from its byte `from` on: to its blocks, after its inode, or both.
    fn put(&self, place: &InodePosition, from: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let inside = place.in_blocks().saturating_sub(from);
        let inside = inside.min(bytes.len() as u64) as usize;
        let (head, rest) = bytes.split_at(inside);
        if !head.is_empty() {
            self.write(head, u64::from(place.blocks) * BLOCK + from)?;
        }
        if !rest.is_empty() {
            let skipped = from + inside as u64 - place.in_blocks();
            self.write(rest, place.tail() + skipped)?;
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<(), WriteError> {
        let written = self.image.write_all_at(bytes, at);
        written.map_err(|source| WriteError::Image {
            path: self.path.clone(),
            source,
        })
    }

    /// Reads until the buffer is full or the data end, and returns the number of bytes.
    fn read(&self, id: NodeId, data: &mut dyn Read, into: &mut [u8]) -> Result<usize, WriteError> {
        let mut got = 0;
        while got < into.len() {
            match data.read(&mut into[got..]) {
                Ok(0) => break,
                Ok(count) => got += count.min(into.len() - got),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let path = self.name(id);
                    return Err(WriteError::Data { path, source });
                }
            }
        }
        Ok(got)
    }

    /// The position of a regular file that has names.
    fn file_at(&self, id: NodeId) -> Option<&InodePosition> {
        let place = self.layout.place(id)?;
        let is_file = matches!(self.tree.node(id).kind, NodeKind::File { .. });
        is_file.then_some(place)
    }

    fn length(&self, id: NodeId, size: u64, found: &'static str) -> WriteError {
        let path = self.name(id);
        WriteError::Length { path, size, found }
    }

    fn name(&self, id: NodeId) -> String {
        name(self.tree, id)
    }
}

fn lay_out(tree: &FileTree) -> Result<ErofsLayout<'_>, WriteError> {
    ErofsLayout::new(tree).map_err(|unfit| match unfit {
        Unfit::Node(id, why) => WriteError::Node {
            path: name(tree, id),
            why,
        },
        Unfit::Size => WriteError::Size,
        Unfit::Tree => WriteError::Tree,
    })
}

/// A node's first path, from `/`.
fn name(tree: &FileTree, id: NodeId) -> String {
    let found = tree.paths().find(|(_, other)| *other == id);
    let path = found.map_or(&[][..], |(path, _)| path);
    format!("/{}", String::from_utf8_lossy(path))
}

#[cfg(test)]
mod tests;
