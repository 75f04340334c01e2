//! Packages of Debian: found, locked, fetched, unpacked.
//!
//! Everything is held against the packages' own checksums. Called by builds.

/// Where packages come from.
pub(crate) mod apt_sources;
/// From packages to a chroot.
pub(crate) mod bootstrap;
/// The unpacked packages, read out of an archive.
pub(crate) mod chroot;
/// The two digests of Debian's world.
pub(crate) mod digest;
/// Fetches packages into a folder that outlives the build.
pub(crate) mod fetch;
/// Lock files: which packages, to the byte.
pub(crate) mod lockfile;
/// What dpkg and apt know of the installed packages.
pub(crate) mod packages;
