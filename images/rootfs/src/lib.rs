//! Root file systems that people have, container images among them, as uncompressed EROFS images that
//! a guest mounts and the host reads.
//!
//! A source is listed into a [`FileTree`], whose files' bytes are then copied, once, into the image that is
//! written of it. Owners, modes, times, extended attributes and devices are kept; sources are hostile.
//! Called by `belljar-images`; knows no recipes and no guests.

mod erofs;
mod source;
mod tree;

pub use erofs::{ErofsError, RootFile, RootTree, WriteError, Writer, root_tree};
pub use source::{Config, FileSink, Listing, Source, SourceError, SourceKind};
pub use tree::{FileTree, Node, NodeId, NodeKind, TreeError};
