//! Guest images built from Debian packages.
//!
//! A [`Recipe`] describes an image; [`build()`] makes an [`Image`] of it in the user's cache and
//! [`locate`] finds an existing one. An image is three files: the distribution's kernel, a small
//! initramfs and a read-only root file system. Files from packages are checked against the packages'
//! checksums, and all other files are listed in the [`Manifest`]. An image is returned only after
//! its files were compared with the digests in its manifest.
//!
//! A `recipe` is read first; `build` carries it out, with packages from `debian` and file trees of
//! `filesystem`; `store` keeps images.

/// Builds a recipe's image in the cache.
mod build;
/// The external tools that build images.
mod command;
/// Packages of Debian.
mod debian;
/// Parts of an image.
mod filesystem;
/// Progress of a build.
mod progress;
/// Image recipes.
mod recipe;
/// The keys of a TOML file.
pub mod schema;
/// The store of built images.
mod store;
/// Errors in the text of recipes and scenarios.
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
pub use progress::BuildProgress;
pub use recipe::built_in::built_in_recipes;
pub use recipe::{Recipe, RecipeError, place};
pub use store::cache::{Cache, CacheError, user_folder, user_state_folder};
pub use store::manifest::{
    Container, IPOIB_LIST, Image, ImageFile, Manifest, ManifestError, OurFile, ReceivedFiles,
};
