//! Guest images built from Debian packages.
//!
//! A [`Recipe`] says what goes in; [`build`] makes an [`Image`] of it in the user's cache and
//! [`locate`] finds one made before. An image is three files: the distribution's kernel, a small
//! initramfs and a read-only root file system. What comes from packages is checked against the
//! packages' own checksums, and what does not is listed in the [`Manifest`]. An image is given to
//! nobody before its files were compared with the digests in its manifest.

mod apt_sources;
mod bootstrap;
mod build;
mod cache;
mod chroot;
mod command;
mod contents;
mod digest;
mod elf;
mod erofs;
mod initrd;
mod kernel;
mod lockfile;
mod manifest;
mod packages;
mod progress;
mod recipe;
mod rootfs;
pub mod schema;
pub mod toml_error;
mod verified;

pub use bootstrap::BootstrapError;
pub use build::{ImageError, build, build_in, locate, verify};
pub use cache::{Cache, CacheError, user_folder};
pub use chroot::ChrootError;
pub use command::{CommandError, MissingTool, missing_tools};
pub use contents::ContentsError;
pub use erofs::{ErofsError, RootFile, root_files};
pub use initrd::InitrdError;
pub use kernel::KernelError;
pub use lockfile::{Lock, LockError};
pub use manifest::{Image, Manifest, ManifestError, OurFile, Part};
pub use packages::{Package, PackageError, SourceFile};
pub use progress::Progress;
pub use recipe::{Recipe, RecipeError};
pub use rootfs::RootError;
