//! Converts root file systems and container images to uncompressed EROFS images, which guests mount and the host
//! reads.
//!
//! A source is listed into a [`FileTree`], whose files' data are then copied, once, into the image. Owners, modes,
//! times, extended attributes and devices are kept; sources are untrusted. Called by `belljar-images`; independent
//! of recipes and guests.
//!
//! `source` reads sources, and `erofs` writes and reads images; both import `tree`, and not each other.

/// EROFS images: writing and reading.
mod erofs;
/// Sources of root file systems, read into a [`FileTree`].
mod source;
/// A file system as a tree of names and nodes, without the bytes of its files.
mod tree;

pub use erofs::{ErofsError, ErofsWriter, RootFile, RootTree, WriteError, root_tree};
pub use source::{Config, FileSink, Listing, Source, SourceError, SourceKind};
pub use tree::{FileNode, FileTree, NodeId, NodeKind, TreeError};
