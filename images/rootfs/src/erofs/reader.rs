//! Reads the files and links of an uncompressed EROFS image, as [`ErofsWriter`](crate::ErofsWriter) and mkfs.erofs make them.
//!
//! Every number in the image is checked before it is used, and depth and number of entries are bounded, so that a
//! damaged image only gives an error. Called to list the programs of a guest's root file system.
//!
//! Layout after `fs/erofs/erofs_fs.h` of Linux 6.1: a superblock at byte 1024; inodes of 32 or 64 bytes, found by
//! number; the last part of a file may follow its inode.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::tree::{LONGEST_PATH, MOST_ENTRIES};

const SUPERBLOCK: u64 = 1024;
const MAGIC: u32 = 0xe0f5_e1e2;
/// Bytes of a directory entry.
const ENTRY: usize = 12;
/// Largest directory that is read.
const MOST_DIRECTORY: u64 = 1 << 30;
const REGULAR: u16 = 0o100_000;
const DIRECTORY: u16 = 0o040_000;
const LINK: u16 = 0o120_000;
/// Longest target of a link.
const LONGEST_LINK: u64 = 4096;
const KIND: u16 = 0o170_000;

/// An error of reading an image.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the root file system {path}: {source}; build the image again")]
pub struct ErofsError {
    /// The image.
    path: PathBuf,
    /// The problem.
    source: io::Error,
}

/// A regular file of an image; reads from its beginning.
#[derive(Clone, Debug)]
pub struct RootFile {
    /// Its path, from `/`.
    pub path: String,
    image: Arc<File>,
    extent: DataExtent,
    at: u64,
}

/// Position of a file's data.
#[derive(Clone, Copy, Debug)]
struct DataExtent {
    size: u64,
    /// Offset of its whole blocks.
    blocks: u64,
    /// Bytes in whole blocks; the rest begins at `tail`.
    whole: u64,
    tail: u64,
}

/// The files and links of an image.
#[derive(Debug, Default)]
pub struct RootTree {
    /// Its regular files, by directory, once for each name.
    pub files: Vec<RootFile>,
    /// Targets of its symbolic links, by their paths from `/`.
    pub links: BTreeMap<String, String>,
}

/// Lists the files and links of the image at `path`.
///
/// # Errors
/// When it can't be read, is not an EROFS image, is compressed or is damaged.
pub fn root_tree(path: &Path) -> Result<RootTree, ErofsError> {
    list(path).map_err(|source| ErofsError {
        path: path.to_owned(),
        source,
    })
}

fn list(path: &Path) -> io::Result<RootTree> {
    let file = Arc::new(File::open(path)?);
    let image = ErofsImage::open(file.clone())?;
    let mut tree = RootTree::default();
    let mut open = vec![(image.root, String::new())];
    // A directory has one name, so that paths have no loops.
    let mut seen = BTreeSet::new();
    while let Some((number, folder)) = open.pop() {
        let (kind, extent) = image.inode(number)?;
        if kind != DIRECTORY || !seen.insert(number) {
            return Err(damaged("a directory that is none, or is in two places"));
        }
        for (number, name) in image.entries(&extent)? {
            let path = format!("{folder}/{name}");
            if path.len() > LONGEST_PATH + 1 {
                return Err(damaged("a path beyond all bounds"));
            }
            let (kind, extent) = image.inode(number)?;
            match kind {
                DIRECTORY => open.push((number, path)),
                REGULAR => tree.files.push(RootFile {
                    path,
                    image: file.clone(),
                    extent,
                    at: 0,
                }),
                LINK => {
                    let target = image.target(&extent)?;
                    tree.links.insert(path, target);
                }
                _ => {}
            }
            if tree.files.len() + tree.links.len() + open.len() > MOST_ENTRIES {
                return Err(damaged("too many files"));
            }
        }
    }
    Ok(tree)
}

struct ErofsImage {
    file: Arc<File>,
    size: u64,
    block: u64,
    inodes: u64,
    root: u64,
}

impl ErofsImage {
    fn open(file: Arc<File>) -> io::Result<Self> {
        let mut head = [0; 128];
        file.read_exact_at(&mut head, SUPERBLOCK)?;
        if word(&head, 0) != MAGIC {
            return Err(damaged("no EROFS superblock"));
        }
        let bits = head[12];
        if !(9..=16).contains(&bits) {
            return Err(damaged("a block size out of range"));
        }
        Ok(Self {
            size: file.metadata()?.len(),
            file,
            block: 1 << bits,
            inodes: u64::from(word(&head, 40)) << bits,
            root: half(&head, 14).into(),
        })
    }

    /// Type and data position of inode `number`.
    fn inode(&self, number: u64) -> io::Result<(u16, DataExtent)> {
        let at = number
            .checked_mul(32)
            .and_then(|offset| self.inodes.checked_add(offset))
            .ok_or_else(|| damaged("an inode beyond all bounds"))?;
        let mut head = [0; 64];
        self.file.read_exact_at(&mut head[..32], at)?;
        let format = half(&head, 0);
        let is_long = format & 1 != 0;
        if is_long {
            self.file.read_exact_at(&mut head, at)?;
        }
        let size = match is_long {
            true => u64::from(word(&head, 8)) | u64::from(word(&head, 12)) << 32,
            false => word(&head, 8).into(),
        };
        let kind = half(&head, 4) & KIND;
        let attributes = match u64::from(half(&head, 2)) {
            0 => 0,
            count => 12 + 4 * (count - 1),
        };
        let behind = at + if is_long { 64 } else { 32 } + attributes;
        let blocks = u64::from(word(&head, 16)) * self.block;
        let (whole, tail) = match format >> 1 & 7 {
            0 => (size, 0),
            2 => (size - size % self.block, behind),
            _ if ![REGULAR, DIRECTORY, LINK].contains(&kind) => (size, 0),
            _ => return Err(damaged("a compressed or chunked file")),
        };
        let extent = DataExtent {
            size,
            blocks,
            whole,
            tail,
        };
        Ok((kind, extent))
    }

    /// Target of a symbolic link.
    fn target(&self, extent: &DataExtent) -> io::Result<String> {
        if extent.size > LONGEST_LINK {
            return Err(damaged("a link beyond all bounds"));
        }
        let mut bytes = vec![0; extent.size as usize];
        extent.read(&self.file, &mut bytes, 0)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Inode numbers and names in a directory, without `.` and `..`.
    fn entries(&self, extent: &DataExtent) -> io::Result<Vec<(u64, String)>> {
        if extent.size > MOST_DIRECTORY.min(self.size) {
            return Err(damaged("a directory beyond all bounds"));
        }
        let mut bytes = vec![0; extent.size as usize];
        extent.read(&self.file, &mut bytes, 0)?;
        let mut entries = Vec::new();
        for block in bytes.chunks(self.block as usize) {
            entries_of(block, &mut entries)?;
        }
        Ok(entries)
    }
}

/// Adds the entries of one block of a directory.
fn entries_of(block: &[u8], entries: &mut Vec<(u64, String)>) -> io::Result<()> {
    let bad = || damaged("a directory entry out of its block");
    let first = usize::from(half(block.get(..ENTRY).ok_or_else(bad)?, 8));
    let count = first / ENTRY;
    let heads = block.get(..count * ENTRY).ok_or_else(bad)?;
    let start = |index: usize| usize::from(half(heads, index * ENTRY + 8));
    for index in 0..count {
        let end = match index + 1 < count {
            true => start(index + 1),
            false => block.len(),
        };
        let name = block.get(start(index)..end).ok_or_else(bad)?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let at = index * ENTRY;
        let number = u64::from(word(heads, at)) | u64::from(word(heads, at + 4)) << 32;
        if name != "." && name != ".." && !name.is_empty() {
            entries.push((number, name));
        }
    }
    Ok(())
}

impl DataExtent {
    /// Fills `into` from byte `from` of the file on.
    fn read(&self, image: &File, into: &mut [u8], from: u64) -> io::Result<()> {
        let inside = self.whole.saturating_sub(from).min(into.len() as u64);
        let (head, rest) = into.split_at_mut(inside as usize);
        image.read_exact_at(head, self.blocks.saturating_add(from))?;
        if rest.is_empty() {
            return Ok(());
        }
        let skipped = from + inside - self.whole;
        image.read_exact_at(rest, self.tail.saturating_add(skipped))
    }
}

impl RootFile {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.extent.size
    }
}

impl Read for RootFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.extent.size.saturating_sub(self.at);
        let length = left.min(into.len() as u64) as usize;
        self.extent
            .read(&self.image, &mut into[..length], self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}

impl Seek for RootFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.extent.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| damaged("a place before the file's beginning"))?;
        Ok(self.at)
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests;
