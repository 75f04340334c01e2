//! The manifest of an image, and the paths of its parts.
//!
//! A manifest ends with a digest of itself and has the digests of all parts, so damage is found before a
//! node boots. Written by `assemble`, read whenever an image is opened, and sent to the other hosts of a
//! run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::debian::digest;

/// Starts the last line of a manifest, a TOML comment.
const SEAL: &str = "# SHA-256 of all above: ";
/// Name of the manifest in an image's folder.
pub(crate) const MANIFEST: &str = "manifest.toml";
pub(crate) const KERNEL: &str = "vmlinuz";
pub(crate) const INITRD: &str = "initrd.cpio";
pub(crate) const ROOT: &str = "root.erofs";
pub(crate) const NFS: &str = "nfs.tar";
pub(crate) const INFINIBAND: &str = "infiniband.tar";
/// The list of the modules of IP over InfiniBand in an image's archive of the cards' drivers.
pub const IPOIB_LIST: &str = "ipoib";

/// An error of an image in the cache.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file of the image can't be read or written.
    #[error("cannot read or write {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// System error.
        source: std::io::Error,
    },
    /// The file is not a manifest.
    #[error("{path} is not an image manifest: {message}")]
    Parse {
        /// The manifest.
        path: PathBuf,
        /// The parser's message.
        message: String,
    },
    /// A part's size differs from its size when built.
    #[error("{path} has {found} bytes where the image was built with {expected}")]
    Damaged {
        /// The part.
        path: PathBuf,
        /// Its size when built, in bytes.
        expected: u64,
        /// Its size now, in bytes.
        found: u64,
    },
    /// A file of the image changed since it was built.
    #[error("{path} is damaged: its SHA-256 is {found} where the image was built with {expected}")]
    Altered {
        /// The file.
        path: PathBuf,
        /// Its digest when built, in hexadecimal.
        expected: String,
        /// Its digest now.
        found: String,
    },
    /// The manifest belongs to another recipe.
    #[error("{path} is of the recipe with the key {found}, in the folder of {expected}")]
    Key {
        /// The manifest.
        path: PathBuf,
        /// The key of the requested recipe.
        expected: String,
        /// The key in it.
        found: String,
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
    /// Kernel modules of NFS, a tar archive with the lists `server` and `client` of those to load; `None` if the kernel's
    /// package has no NFS.
    pub nfs: Option<PathBuf>,
    /// Drivers of InfiniBand cards, a tar archive with the list `order` of those to load; `None` if the kernel's package has none.
    pub infiniband: Option<PathBuf>,
    /// Its manifest.
    pub manifest: Manifest,
    /// Its folder, which each user locks; `None` for an image outside of a cache.
    _used: Option<Arc<File>>,
}

/// The files of an image that another host sent; `root` is in the image's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedFiles {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initramfs.
    pub initrd: PathBuf,
    /// The root file system.
    pub root: PathBuf,
    /// The archive of NFS's kernel modules; `None` if nodes share no folder.
    pub nfs: Option<PathBuf>,
    /// The archive of InfiniBand's drivers; `None` if nodes have no card.
    pub infiniband: Option<PathBuf>,
}

/// The contents of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name of the recipe.
    pub recipe: String,
    /// The recipe's key: SHA-256 of it and of every file it names.
    pub key: String,
    /// Release of the kernel, as `uname -r` prints it.
    pub kernel_release: String,
    /// Modules in the initramfs, in the order they are loaded.
    pub modules: Vec<String>,
    /// Files that were checked, byte for byte, against the checksums of their packages.
    pub verified_files: u64,
    /// The container image or root file system that nodes run on, if they do not run on packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Environment of every workload, to which a scenario adds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Size and digest of the kernel.
    pub kernel: ImageFile,
    /// Size and digest of the initramfs.
    pub initrd: ImageFile,
    /// Size and digest of the root file system.
    pub root: ImageFile,
    /// Size and digest of the archive of NFS's kernel modules, if the kernel has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nfs: Option<ImageFile>,
    /// Size and digest of the archive of InfiniBand's drivers, if the kernel has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infiniband: Option<ImageFile>,
    /// Every file that comes from no package.
    #[serde(default)]
    pub ours: Vec<OurFile>,
}

/// The container image or root file system that an image's root is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// Its kind, in words.
    pub kind: String,
    /// Its path when the image was built.
    pub path: String,
    /// The tag, if there were several images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// SHA-256 of its content, in hexadecimal: of a file's bytes, of the digests in a container image, or of
    /// names, properties and bytes of a folder.
    pub sha256: String,
}

/// One of the files an image consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageFile {
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// A file of the guest that comes from this project and not from the distribution.
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
    /// Opens the image in `dir`, and checks that its manifest is whole and that its parts have their sizes.
    /// [`verify`](Self::verify) checks their contents; the cache does so before it returns an image.
    ///
    /// # Errors
    /// When the manifest is malformed or a part is missing or has another size.
    pub fn open(dir: &Path) -> Result<Self, ManifestError> {
        let path = dir.join(MANIFEST);
        let text = fs::read_to_string(&path).map_err(|source| ManifestError::File {
            path: path.clone(),
            source,
        })?;
        check_seal(&text, &path)?;
        let manifest: Manifest = toml::from_str(&text).map_err(|error| ManifestError::Parse {
            path,
            message: error.to_string(),
        })?;
        let used = File::open(dir).map_err(|source| ManifestError::File {
            path: dir.to_owned(),
            source,
        })?;
        // A file system without locks is accepted.
        let _ = used.lock_shared();
        let image = Self {
            dir: dir.to_owned(),
            kernel: dir.join(KERNEL),
            initrd: dir.join(INITRD),
            root: dir.join(ROOT),
            nfs: manifest.nfs.is_some().then(|| dir.join(NFS)),
            infiniband: manifest.infiniband.is_some().then(|| dir.join(INFINIBAND)),
            manifest,
            _used: Some(Arc::new(used)),
        };
        for (_, path, part) in image.parts() {
            check_size(path, part)?;
        }
        Ok(image)
    }

    /// An image outside of a cache, of files that were checked already.
    pub fn of_files(files: ReceivedFiles, manifest: Manifest) -> Self {
        let ReceivedFiles {
            kernel,
            initrd,
            root,
            nfs,
            infiniband,
        } = files;
        Self {
            dir: root.parent().unwrap_or(Path::new("/")).to_owned(),
            kernel,
            initrd,
            root,
            nfs,
            infiniband,
            manifest,
            _used: None,
        }
    }

    /// Sets the time of the image's last use, which is its lock file's.
    pub fn note_use(&self) {
        // In a read-only cache, times of use are not recorded.
        let _ = File::create(self.dir.with_extension("lock"));
    }

    /// Its files: names in its folder, paths, and manifest entries.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &Path, &ImageFile)> {
        let of = &self.manifest;
        let nfs = self.nfs.as_deref().zip(of.nfs.as_ref());
        let infiniband = self.infiniband.as_deref().zip(of.infiniband.as_ref());
        [
            (KERNEL, &*self.kernel, &of.kernel),
            (INITRD, &*self.initrd, &of.initrd),
            (ROOT, &*self.root, &of.root),
        ]
        .into_iter()
        .chain(nfs.map(|(path, part)| (NFS, path, part)))
        .chain(infiniband.map(|(path, part)| (INFINIBAND, path, part)))
    }
}

impl Manifest {
    /// The manifest's text, which ends with a digest of the preceding text.
    pub(crate) fn seal(&self) -> String {
        // Plain strings and numbers always have a form in TOML.
        let text = toml::to_string(self).unwrap_or_default();
        let digest = digest::sha256(text.as_bytes());
        format!("{text}{SEAL}{digest}\n")
    }
}

/// Compares a manifest with the digest at its end. Manifests from before it was introduced have none, but
/// still have the digests of the image's files.
fn check_seal(text: &str, path: &Path) -> Result<(), ManifestError> {
    let Some((before, expected)) = text.rsplit_once(SEAL) else {
        return Ok(());
    };
    let (found, expected) = (digest::sha256(before.as_bytes()), expected.trim_end());
    if found == expected {
        return Ok(());
    }
    Err(ManifestError::Altered {
        path: path.to_owned(),
        expected: expected.to_owned(),
        found,
    })
}

fn check_size(path: &Path, part: &ImageFile) -> Result<(), ManifestError> {
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

    /// A manifest of these kernel, initramfs and root file system.
    fn sample([kernel, initrd, root]: [ImageFile; 3], ours: Vec<OurFile>) -> Manifest {
        Manifest {
            recipe: "x".to_owned(),
            key: "k".to_owned(),
            kernel_release: "6.1".to_owned(),
            modules: vec!["virtio".to_owned()],
            verified_files: 1,
            container: None,
            environment: BTreeMap::new(),
            kernel,
            initrd,
            root,
            nfs: None,
            infiniband: None,
            ours,
        }
    }

    #[test]
    fn a_flipped_bit_in_a_manifest_is_found() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let part = ImageFile {
            size: 3,
            sha256: digest::sha256(b"123"),
        };
        let manifest = sample([part.clone(), part.clone(), part], Vec::new());
        for name in [KERNEL, INITRD, ROOT] {
            fs::write(dir.path().join(name), b"123").expect("writes");
        }
        let path = dir.path().join(MANIFEST);
        let whole = manifest.seal().into_bytes();
        fs::write(&path, &whole).expect("writes");
        assert_eq!(Image::open(dir.path()).expect("whole").manifest, manifest);
        let sealed = whole.len() - SEAL.len() - 65;
        for at in (0..sealed).chain(whole.len() - 65..whole.len() - 1) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).expect("writes");
            Image::open(dir.path()).expect_err("damaged");
        }
        // As older builds wrote them.
        fs::write(&path, &whole[..sealed]).expect("writes");
        Image::open(dir.path()).expect("whole");
    }

    #[test]
    fn a_cut_off_part_is_found() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let part = |size| ImageFile {
            size,
            sha256: "00".to_owned(),
        };
        let init = OurFile {
            tree: "root".to_owned(),
            path: "/sbin/init".to_owned(),
            sha256: "11".to_owned(),
        };
        let manifest = sample([part(3), part(2), part(1)], vec![init]);
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
