//! EROFS images: how they are written and read.
//!
//! Uncompressed, with blocks of 4 KiB, as Linux 5.10 and newer mount them. All that stands in an image stands in
//! little endian, after `fs/erofs/erofs_fs.h` of Linux. An image has the superblock in its first block, the
//! inodes from the second block on, and then the whole blocks of directories, files and long links; the last part of
//! these follows its inode where it fits. `layout` says where each stands, `writer` puts it there and `reader`
//! finds it again.

/// Extended attributes as they follow an inode.
mod attributes;
/// Directories as blocks of names.
mod directory;
/// The bytes of inodes and of the superblock.
mod inode;
/// Where everything stands in an image.
mod layout;
/// Where one node stands in an image.
mod place;
/// Reads the files and links of an uncompressed image.
mod reader;
/// Writes a tree as an image.
mod writer;

pub use reader::{ErofsError, RootFile, RootTree, root_tree};
pub use writer::{WriteError, Writer};

/// Bytes of a block.
const BLOCK: u64 = 4096;
/// Bytes of an extended inode.
const INODE: u64 = 64;
/// Inodes are numbered by their places in units of so many bytes, from the image's beginning on.
const SLOT: u64 = 32;
