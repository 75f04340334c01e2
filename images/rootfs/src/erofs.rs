//! EROFS images: writing and reading.
//!
//! Images are uncompressed, with blocks of 4 KiB, as Linux 5.10 and newer mount them. All numbers are little endian,
//! after `fs/erofs/erofs_fs.h` of Linux. An image has the superblock in its first block, the inodes from the second
//! block on, and then the whole blocks of directories, files and long links. The last part of these data follows its
//! inode where it fits. `layout` computes the positions, `writer` writes and `reader` reads.

/// Extended attributes as they follow an inode.
mod attributes;
/// Directories as blocks of names.
mod directory;
/// The bytes of inodes and of the superblock.
mod inode;
/// Layout of an image.
mod layout;
/// Position of one node in an image.
mod place;
/// Reads the files and links of an uncompressed image.
mod reader;
/// Writes a tree as an image.
mod writer;

pub use reader::{ErofsError, RootFile, RootTree, root_tree};
pub use writer::{ErofsWriter, WriteError};

/// Bytes of a block.
const BLOCK: u64 = 4096;
/// Bytes of an extended inode.
const INODE: u64 = 64;
/// Unit of inode numbers, in bytes from the image's beginning.
const SLOT: u64 = 32;
