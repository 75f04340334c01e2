//! Packages of Debian: finding, locking, fetching and unpacking.
//!
//! Everything is compared with the packages' checksums. Called by builds.

/// Sources of packages.
pub(crate) mod apt_sources;
/// From packages to a chroot.
pub(crate) mod bootstrap;
/// The unpacked packages, read out of an archive.
pub(crate) mod chroot;
/// The two digests that Debian uses.
pub(crate) mod digest;
/// Fetches packages into a folder that is kept across builds.
pub(crate) mod fetch;
/// Lock files: pinned packages.
pub(crate) mod lockfile;
/// Metadata of dpkg and apt about the installed packages.
pub(crate) mod packages;
