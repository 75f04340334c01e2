//! Images that were built: where they lie, what they say of themselves, and whether they still are it.
//!
//! Nothing is given out before its files were compared with its digests. Called by builds and by runs.

/// Where built images lie.
pub(crate) mod cache;
/// What an image says about itself.
pub(crate) mod manifest;
/// Whether an image's files are still what was built.
pub(crate) mod verified;
