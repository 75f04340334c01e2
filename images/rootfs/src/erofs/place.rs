//! Where one node stands in an image.
//!
//! `layout` finds the places, `inode` and `writer` put bytes there.

use super::{INODE, SLOT};

/// Where one node stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Where its inode begins, in bytes; 0 when it has no names and so no place.
    pub(super) inode: u64,
    /// Bytes of attributes after the inode.
    pub(super) attributes: u32,
    /// How many names it has, `.` and `..` among a directory's.
    pub(super) names: u32,
    /// Bytes of a file, a directory or a link's text.
    pub(super) size: u64,
    /// Block in which its whole blocks begin; 0 when it has none.
    pub(super) blocks: u32,
    /// Bytes that follow its inode and its attributes.
    pub(super) packed: u16,
}

impl Place {
    /// Whether bytes follow its inode.
    pub(super) fn is_packed(&self) -> bool {
        self.packed > 0
    }

    /// Bytes in whole blocks, the last of them perhaps not full.
    pub(super) fn in_blocks(&self) -> u64 {
        self.size - u64::from(self.packed)
    }

    /// Where the bytes stand that follow the inode.
    pub(super) fn tail(&self) -> u64 {
        self.inode + INODE + u64::from(self.attributes)
    }

    /// Its inode's number.
    pub(super) fn number(&self) -> u64 {
        self.inode / SLOT
    }
}
