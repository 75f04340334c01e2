//! Inodes of a squashfs, and the entries of directories.
//!
//! Sizes, counts and positions are checked before they are used. Called when an image is listed, and for the files that are
//! copied.

use std::collections::BTreeMap;
use std::io;

use super::data::File;
use super::metadata::{Cursor, Metadata, damaged};
use crate::{FileNode, NodeKind};

const NO_ATTRIBUTES: u32 = u32::MAX;
/// Longest text of a symbolic link, as in Linux.
const LONGEST_LINK: u32 = 4095;

/// One inode.
#[derive(Debug, Clone)]
pub(super) struct Inode {
    mode: u16,
    uid: u32,
    gid: u32,
    mtime: u32,
    pub(super) kind: InodeKind,
    /// Its number in the table of attributes.
    pub(super) attributes: Option<u32>,
}

/// Type of an inode.
#[derive(Debug, Clone)]
pub(super) enum InodeKind {
    Directory { block: u32, offset: u16, size: u32 },
    File(File),
    Other(NodeKind),
}

/// Reads the entries of a directory.
pub(super) struct Listing {
    cursor: Cursor,
    left: u32,
    /// Entries left after the last header, and the block of their inodes.
    run: u32,
    inodes: u32,
}

/// Reads an inode's fields one after the other.
struct Fields<'a> {
    metadata: &'a mut Metadata,
    cursor: Cursor,
}

impl Fields<'_> {
    fn u16(&mut self) -> io::Result<u16> {
        Ok(u16::from_le_bytes(self.metadata.array(&mut self.cursor)?))
    }

    fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_le_bytes(self.metadata.array(&mut self.cursor)?))
    }

    fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.metadata.array(&mut self.cursor)?))
    }
}

impl Inode {
    /// Reads the inode at a reference.
    pub(super) fn read(metadata: &mut Metadata, reference: u64) -> io::Result<Self> {
        let cursor = Cursor::at(metadata.superblock.inode_table, reference)?;
        let mut fields = Fields { metadata, cursor };
        let kind = fields.u16()?;
        let mode = fields.u16()?;
        let (uid, gid) = (fields.u16()?, fields.u16()?);
        let mtime = fields.u32()?;
        let _number = fields.u32()?;
        let (kind, attributes) = match kind {
            1 | 8 => directory(&mut fields, kind == 8)?,
            2 | 9 => file(&mut fields, kind == 9)?,
            3..=7 | 10..=14 => other(&mut fields, kind)?,
            _ => return Err(damaged("an inode is of an unknown kind")),
        };
        Ok(Self {
            mode: mode & 0o7777,
            uid: metadata.id(uid)?,
            gid: metadata.id(gid)?,
            mtime,
            kind,
            attributes: Some(attributes).filter(|&number| number != NO_ATTRIBUTES),
        })
    }

    /// Converts it to a node of a tree.
    pub(super) fn node(&self, attributes: BTreeMap<Vec<u8>, Vec<u8>>) -> FileNode {
        let kind = match &self.kind {
            InodeKind::Directory { .. } => NodeKind::Directory,
            InodeKind::File(file) => NodeKind::File { size: file.size },
            InodeKind::Other(kind) => kind.clone(),
        };
        FileNode {
            kind,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            mtime: u64::from(self.mtime),
            attributes,
        }
    }

    /// The entries of this directory.
    pub(super) fn listing(&self, metadata: &Metadata) -> io::Result<Listing> {
        let InodeKind::Directory {
            block,
            offset,
            size,
        } = self.kind
        else {
            return Err(damaged("a directory became something else"));
        };
        let reference = u64::from(block) << 16 | u64::from(offset);
        Ok(Listing {
            cursor: Cursor::at(metadata.superblock.directory_table, reference)?,
            // The size counts three bytes for `.` and `..`, which are not stored.
            left: size.saturating_sub(3),
            run: 0,
            inodes: 0,
        })
    }
}

impl Listing {
    /// The next entry's name, and the reference of its inode.
    pub(super) fn next(&mut self, metadata: &mut Metadata) -> io::Result<Option<(Vec<u8>, u64)>> {
        if self.run == 0 {
            if self.left == 0 {
                return Ok(None);
            }
            self.take(12)?;
            let mut fields = Fields {
                metadata,
                cursor: self.cursor,
            };
            let count = fields.u32()?;
            self.inodes = fields.u32()?;
            let _number = fields.u32()?;
            self.cursor = fields.cursor;
            if count >= 256 {
                return Err(damaged("a directory has an impossible header"));
            }
            self.run = count + 1;
        }
        self.take(8)?;
        let mut fields = Fields {
            metadata,
            cursor: self.cursor,
        };
        let offset = fields.u16()?;
        let _number = fields.u16()?;
        let _kind = fields.u16()?;
        let length = usize::from(fields.u16()?) + 1;
        self.cursor = fields.cursor;
        if length > crate::tree::LONGEST_NAME {
            return Err(damaged("a directory has an impossible name"));
        }
        self.take(length as u32)?;
        let mut name = vec![0; length];
        metadata.fill(&mut self.cursor, &mut name)?;
        self.run -= 1;
        Ok(Some((
            name,
            u64::from(self.inodes) << 16 | u64::from(offset),
        )))
    }

    fn take(&mut self, bytes: u32) -> io::Result<()> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| damaged("a directory ends early"))?;
        Ok(())
    }
}

fn directory(fields: &mut Fields<'_>, is_extended: bool) -> io::Result<(InodeKind, u32)> {
    if !is_extended {
        let block = fields.u32()?;
        let _links = fields.u32()?;
        let size = u32::from(fields.u16()?);
        let offset = fields.u16()?;
        return Ok((
            InodeKind::Directory {
                block,
                offset,
                size,
            },
            NO_ATTRIBUTES,
        ));
    }
    let _links = fields.u32()?;
    let size = fields.u32()?;
    let block = fields.u32()?;
    let _parent = fields.u32()?;
    let _indexes = fields.u16()?;
    let offset = fields.u16()?;
    let attributes = fields.u32()?;
    Ok((
        InodeKind::Directory {
            block,
            offset,
            size,
        },
        attributes,
    ))
}

fn file(fields: &mut Fields<'_>, is_extended: bool) -> io::Result<(InodeKind, u32)> {
    let (start, size, fragment, offset, attributes);
    if is_extended {
        start = fields.u64()?;
        size = fields.u64()?;
        let _holes = fields.u64()?;
        let _links = fields.u32()?;
        fragment = fields.u32()?;
        offset = fields.u32()?;
        attributes = fields.u32()?;
    } else {
        start = u64::from(fields.u32()?);
        fragment = fields.u32()?;
        offset = fields.u32()?;
        size = u64::from(fields.u32()?);
        attributes = NO_ATTRIBUTES;
    }
    let file = File {
        start,
        size,
        fragment: Some(fragment).filter(|&number| number != u32::MAX),
        offset,
        blocks: fields.cursor,
    };
    Ok((InodeKind::File(file), attributes))
}

fn other(fields: &mut Fields<'_>, kind: u16) -> io::Result<(InodeKind, u32)> {
    let _links = fields.u32()?;
    let base = if kind > 7 { kind - 7 } else { kind };
    let node = match base {
        3 => {
            let length = fields.u32()?;
            if length == 0 || length > LONGEST_LINK {
                return Err(damaged("a symbolic link has an impossible length"));
            }
            let mut target = vec![0; length as usize];
            fields.metadata.fill(&mut fields.cursor, &mut target)?;
            NodeKind::Link(target)
        }
        4 | 5 => {
            let device = fields.u32()?;
            let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
            match base {
                4 => NodeKind::Block { major, minor },
                _ => NodeKind::Character { major, minor },
            }
        }
        6 => NodeKind::Fifo,
        _ => NodeKind::Socket,
    };
    let attributes = if kind > 7 {
        fields.u32()?
    } else {
        NO_ATTRIBUTES
    };
    Ok((InodeKind::Other(node), attributes))
}
