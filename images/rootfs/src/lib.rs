//! Root file systems that people have, container images among them, as uncompressed EROFS images that
//! a guest mounts and the host reads.
//!
//! A source is listed into a [`FileTree`], whose files' bytes are then copied, once, into the image that is
//! written of it. Owners, modes, times, extended attributes and devices are kept; sources are hostile.
//! Called by `belljar-images`; knows no recipes and no guests.
//!
//! `source` reads what people have, and `erofs` writes and reads images; both import `tree`, and neither the other.

/// EROFS images: how they are written and read.
mod erofs;
/// What people have as a root file system, read into a [`FileTree`].
mod source;
/// A file system as a tree of names and nodes, without the bytes of its files.
mod tree;

pub use erofs::{ErofsError, RootFile, RootTree, WriteError, Writer, root_tree};
pub use source::{Config, FileSink, Listing, Source, SourceError, SourceKind};
pub use tree::{FileTree, Node, NodeId, NodeKind, TreeError};
