//! Guest images built from Debian packages.
//!
//! A [`Recipe`] says what goes in; [`build`] makes an [`Image`] of it in the user's cache and
//! [`locate`] finds one made before. An image is three files: the distribution's kernel, a small
//! initramfs and a read-only root file system. What comes from packages is checked against the
//! packages' own checksums, and what does not is listed in the [`Manifest`]. An image is given to
//! nobody before its files were compared with the digests in its manifest.

mod apt_sources;
mod assemble;
mod bootstrap;
mod build;
mod built_in;
mod cache;
mod chroot;
mod command;
mod contents;
mod data;
mod digest;
mod elf;
mod fetch;
mod initrd;
mod kernel;
mod layout;
mod libraries;
mod lockfile;
mod locks;
mod manifest;
mod packages;
mod pattern;
mod progress;
mod recipe;
mod root_image;
mod root_source;
mod rootfs;
pub mod schema;
pub mod toml_error;
mod tree;
mod verified;

pub use belljar_rootfs::{ErofsError, RootFile, RootTree, root_tree};
pub use bootstrap::BootstrapError;
pub use build::{ImageError, build, build_in, locate, verify};
pub use built_in::built_in_recipes;
pub use cache::{Cache, CacheError, user_folder};
pub use chroot::ChrootError;
pub use command::{CommandError, MissingTool, missing_tools};
pub use contents::ContentsError;
pub use fetch::FetchError;
pub use initrd::InitrdError;
pub use kernel::KernelError;
pub use lockfile::{Lock, LockError};
pub use locks::LockUse;
pub use manifest::{Container, Image, Manifest, ManifestError, OurFile, Part};
pub use packages::{Package, PackageError, SourceFile};
pub use progress::Progress;
pub use recipe::{Recipe, RecipeError, place};
pub use rootfs::RootError;
