//! EROFS images: how they are read.

mod reader;

pub use reader::{ErofsError, RootFile, RootTree, root_tree};
