//! Guest images built from Debian packages.
//!
//! A [`Recipe`] says what goes in; [`build()`] makes an [`Image`] of it in the user's cache and
//! [`locate`] finds one made before. An image is three files: the distribution's kernel, a small
//! initramfs and a read-only root file system. What comes from packages is checked against the
//! packages' own checksums, and what does not is listed in the [`Manifest`]. An image is given to
//! nobody before its files were compared with the digests in its manifest.
//!
//! A `recipe` is read first; `build` carries it out, with packages out of `debian` and file trees of
//! `filesystem`; `store` keeps images and gives them out.

/// From a recipe to an image in the cache.
mod build;
/// The tools that images are made with.
mod command;
/// Packages of Debian.
mod debian;
/// What an image consists of.
mod filesystem;
/// What a build tells while it runs.
mod progress;
/// What goes into an image.
mod recipe;
/// The keys of a TOML file.
pub mod schema;
/// Images that were built.
mod store;
/// What is wrong with a recipe's or a scenario's text.
pub mod toml_error;

pub use belljar_rootfs::{ErofsError, RootFile, RootTree, root_tree};
pub use build::error::ImageError;
pub use build::locks::LockUse;
pub use build::{build, build_in, locate, verify};
pub use command::{CommandError, MissingTool, missing_tools};
pub use debian::bootstrap::BootstrapError;
pub use debian::chroot::ChrootError;
pub use debian::fetch::FetchError;
pub use debian::lockfile::{Lock, LockError};
pub use debian::packages::{Package, PackageError, SourceFile};
pub use filesystem::contents::ContentsError;
pub use filesystem::initrd::InitrdError;
pub use filesystem::kernel::KernelError;
pub use filesystem::rootfs::RootError;
pub use progress::Progress;
pub use recipe::built_in::built_in_recipes;
pub use recipe::{Recipe, RecipeError, place};
pub use store::cache::{Cache, CacheError, user_folder};
pub use store::manifest::{Container, Image, Manifest, ManifestError, OurFile, Part};
