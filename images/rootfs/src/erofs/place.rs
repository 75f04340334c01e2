//! Position of one node in an image.
//!
//! `layout` computes positions; `inode` and `writer` use them.

use super::{INODE, SLOT};

/// Position of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct InodePosition {
    /// Offset of its inode in bytes; 0 if it has no names and thus no position.
    pub(super) inode: u64,
    /// Bytes of attributes after the inode.
    pub(super) attributes: u32,
    /// Number of its names, including a directory's `.` and `..`.
    pub(super) names: u32,
    /// Bytes of a file, a directory or a link's target.
    pub(super) size: u64,
    /// Number of its first whole block; 0 if it has none.
    pub(super) blocks: u32,
    /// Bytes of inline data, after its inode and attributes.
    pub(super) packed: u16,
}

impl InodePosition {
    /// True if inline data follow its inode.
    pub(super) fn is_packed(&self) -> bool {
        self.packed > 0
    }

    /// Bytes in whole blocks; the last block may be partly used.
    pub(super) fn in_blocks(&self) -> u64 {
        self.size - u64::from(self.packed)
    }

    /// Offset of the inline data.
    pub(super) fn tail(&self) -> u64 {
        self.inode + INODE + u64::from(self.attributes)
    }

    /// Its inode number.
    pub(super) fn number(&self) -> u64 {
        self.inode / SLOT
    }
}
