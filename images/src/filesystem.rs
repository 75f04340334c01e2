//! Parts of an image, in memory and on the disk: kernel, initramfs, root file system.
//!
//! The same contents give the same bytes. Called by builds, with contents of packages and recipes.

/// The file tree of an image before it is written.
pub(crate) mod contents;
/// The bytes of a file that goes into an image.
pub(crate) mod data;
/// Dependencies of programs, libraries and modules.
pub(crate) mod elf;
/// The initramfs as a cpio archive.
pub(crate) mod initrd;
/// The distribution's kernel and its modules.
pub(crate) mod kernel;
/// Layout of the image's two file trees.
pub(crate) mod layout;
/// Shared libraries that files need.
pub(crate) mod libraries;
/// Kernel modules beside the initramfs.
pub(crate) mod module_archive;
/// The root file system as an EROFS image.
pub(crate) mod rootfs;
