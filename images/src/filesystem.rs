//! What an image consists of, before and while it is written: kernel, initramfs, root file system.
//!
//! The same contents give the same bytes. Called by builds, with what packages and recipes have.

/// The file tree of an image before it is written.
pub(crate) mod contents;
/// The bytes of a file on its way into an image.
pub(crate) mod data;
/// What programs, libraries and modules say they need.
pub(crate) mod elf;
/// The initramfs as a cpio archive.
pub(crate) mod initrd;
/// The distribution's kernel and its modules.
pub(crate) mod kernel;
/// What lies where in an image's two file trees.
pub(crate) mod layout;
/// Shared libraries that files need.
pub(crate) mod libraries;
/// The root file system as an EROFS image.
pub(crate) mod rootfs;
