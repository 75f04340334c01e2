//! The store of built images: their folders, their manifests, and checks of their files.
//!
//! Images are returned only after their files were compared with their digests. Called by builds and
//! by runs.

/// Folders of built images.
pub(crate) mod cache;
/// Manifests of images.
pub(crate) mod manifest;
/// Checks of an image's files by digest.
pub(crate) mod verified;
