//! What an image says about itself, and the paths of its parts.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Name of the manifest in an image's folder.
pub(crate) const MANIFEST: &str = "manifest.toml";
pub(crate) const KERNEL: &str = "vmlinuz";
pub(crate) const INITRD: &str = "initrd.cpio";
pub(crate) const ROOT: &str = "root.erofs";

/// Why an image in the cache can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file of the image can't be read or written.
    #[error("cannot read or write {path}: {source}; remove the image's folder and build it again")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The manifest is not one.
    #[error(
        "{path} is not an image manifest: {message}; remove the image's folder and build it again"
    )]
    Parse {
        /// The manifest.
        path: PathBuf,
        /// The parser's words.
        message: String,
    },
    /// A part has not the size it had when it was built.
    #[error(
        "{path} has {found} bytes where the image was built with {expected}; remove the image's folder and build it again"
    )]
    Damaged {
        /// The part.
        path: PathBuf,
        /// Its size when built, in bytes.
        expected: u64,
        /// Its size now, in bytes.
        found: u64,
    },
}

/// A built image.
#[derive(Debug, Clone)]
pub struct Image {
    /// Folder of the image in the cache.
    pub dir: PathBuf,
    /// The distribution's kernel (a bzImage), byte for byte.
    pub kernel: PathBuf,
    /// The initramfs, an uncompressed cpio archive.
    pub initrd: PathBuf,
    /// The root file system, an uncompressed EROFS image for the first disk, `/dev/vda`.
    pub root: PathBuf,
    /// What it is made of.
    pub manifest: Manifest,
}

/// What an image is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name of the recipe.
    pub recipe: String,
    /// The recipe's key: SHA-256 of it and of every file it names.
    pub key: String,
    /// Release of the kernel, as `uname -r` tells it.
    pub kernel_release: String,
    /// Modules in the initramfs, in the order they are loaded.
    pub modules: Vec<String>,
    /// Files that were checked, byte for byte, against the checksums of their packages.
    pub verified_files: u64,
    /// Size and digest of the kernel.
    pub kernel: Part,
    /// Size and digest of the initramfs.
    pub initrd: Part,
    /// Size and digest of the root file system.
    pub root: Part,
    /// Every file that comes from no package.
    #[serde(default)]
    pub ours: Vec<OurFile>,
}

/// One of the files an image consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// A file of the guest that is this project's and not the distribution's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OurFile {
    /// `initramfs` or `root`.
    pub tree: String,
    /// Path in that tree.
    pub path: String,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

impl Image {
    /// Opens the image in `dir`, checking that its parts are there whole.
    ///
    /// # Errors
    /// When the manifest is malformed or a part is missing or has another size.
    pub fn open(dir: &Path) -> Result<Self, ManifestError> {
        let path = dir.join(MANIFEST);
        let text = fs::read_to_string(&path).map_err(|source| ManifestError::File {
            path: path.clone(),
            source,
        })?;
        let manifest: Manifest = toml::from_str(&text).map_err(|error| ManifestError::Parse {
            path,
            message: error.to_string(),
        })?;
        let image = Self {
            dir: dir.to_owned(),
            kernel: dir.join(KERNEL),
            initrd: dir.join(INITRD),
            root: dir.join(ROOT),
            manifest,
        };
        let of = &image.manifest;
        for (path, part) in [
            (&image.kernel, &of.kernel),
            (&image.initrd, &of.initrd),
            (&image.root, &of.root),
        ] {
            check_size(path, part)?;
        }
        Ok(image)
    }
}

fn check_size(path: &Path, part: &Part) -> Result<(), ManifestError> {
    let found = fs::metadata(path)
        .map_err(|source| ManifestError::File {
            path: path.to_owned(),
            source,
        })?
        .len();
    if found != part.size {
        return Err(ManifestError::Damaged {
            path: path.to_owned(),
            expected: part.size,
            found,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_off_part_is_found() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let part = |size| Part {
            size,
            sha256: "00".to_owned(),
        };
        let manifest = Manifest {
            recipe: "x".to_owned(),
            key: "k".to_owned(),
            kernel_release: "6.1".to_owned(),
            modules: vec!["virtio".to_owned()],
            verified_files: 1,
            kernel: part(3),
            initrd: part(2),
            root: part(1),
            ours: vec![OurFile {
                tree: "root".to_owned(),
                path: "/sbin/init".to_owned(),
                sha256: "11".to_owned(),
            }],
        };
        let text = toml::to_string(&manifest).expect("plain values");
        fs::write(dir.path().join(MANIFEST), text).expect("writes");
        for (name, size) in [(KERNEL, 3), (INITRD, 2), (ROOT, 1)] {
            fs::write(dir.path().join(name), vec![0; size]).expect("writes");
        }
        assert_eq!(Image::open(dir.path()).expect("whole").manifest, manifest);
        fs::write(dir.path().join(INITRD), b"1").expect("writes");
        let error = Image::open(dir.path()).expect_err("cut off").to_string();
        assert!(error.contains("initrd.cpio has 1 bytes"), "{error}");
    }
}
