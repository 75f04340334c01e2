//! Sources of root file systems: lists them into a [`FileTree`], and copies the data of their files.
//!
//! A source is opened, which detects its kind and selects an image; listed, which checks all its digests; and copied,
//! which reads each part once more and passes on the files' data. Sources are untrusted: sizes, counts and depths are
//! bounded, no path leads out of the tree, and memory is used for names and metadata, never for a file's data.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{FileTree, NodeId};

/// Applies one layer's entries to the tree of the layers below.
mod apply;
/// The blobs of a container image, in a folder or an archive.
mod blobs;
/// Compressed streams, detected by their first bytes.
mod compression;
/// Process settings in a container's configuration.
mod config;
/// Archives of `docker save` and `podman save`.
mod docker;
/// The entries of a tar stream, in order.
mod entries;
/// Variables that an Apptainer image's scripts set.
mod environment;
/// Errors of sources, and limits on untrusted ones.
mod error;
/// A folder that is a root file system, as unpacked or installed on the host.
mod folder;
/// Layers of a container image; a plain archive is one layer.
mod layers;
/// OCI image layouts: index, manifest, configuration and layers.
mod oci;
/// Apptainer's and Singularity's images (SIF).
mod sif;
/// Squashfs 4.0 images, in a file of their own or in a partition.
mod squashfs;
#[cfg(test)]
mod tests;

use blobs::{Blobs, Range};
use compression::Compression;
pub use config::Config;
pub use error::SourceError;
use layers::{LayerBlob, Layers};

/// Longest script that is searched for variables.
const LONGEST_SCRIPT: u64 = 1 << 20;

/// Takes the bytes of a tree's files.
///
/// ```
/// use std::io::{self, Read};
///
/// use belljar_rootfs::{FileSink, NodeId};
///
/// /// Adds up how long files are, and keeps none.
/// #[derive(Default)]
/// struct Count(u64);
///
/// impl FileSink for Count {
///     fn wants(&self, _: NodeId) -> bool {
///         true
///     }
///
///     fn file(&mut self, _: NodeId, data: &mut dyn Read) -> io::Result<()> {
///         self.0 += io::copy(data, &mut io::sink())?;
///         Ok(())
///     }
/// }
///
/// assert_eq!(Count::default().0, 0);
/// ```
pub trait FileSink {
    /// True if it takes the file's data.
    fn wants(&self, id: NodeId) -> bool;

    /// Takes a file's data; their size is the node's.
    ///
    /// # Errors
    /// When they can't be read or stored.
    fn file(&mut self, id: NodeId, data: &mut dyn Read) -> io::Result<()>;
}

/// Kind of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A folder that is an OCI image layout.
    OciLayout,
    /// A tar archive of an OCI image layout, compressed or not.
    OciArchive,
    /// An archive of `docker save`, compressed or not, or a folder with its contents.
    DockerArchive,
    /// An image of Apptainer or Singularity.
    Sif,
    /// A folder that is the root.
    Folder,
    /// A tar archive of the root, plain or compressed by gzip, xz or zstd.
    Archive,
    /// A squashfs image.
    Squashfs,
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OciLayout => "OCI image layout",
            Self::OciArchive => "OCI archive",
            Self::DockerArchive => "docker archive",
            Self::Sif => "Apptainer image",
            Self::Folder => "folder",
            Self::Archive => "archive",
            Self::Squashfs => "squashfs",
        })
    }
}

/// A source; its kind is detected by its contents, never by its name.
#[derive(Debug)]
pub struct Source {
    kind: SourceKind,
    config: Config,
    places: Places,
}

/// Location of a source's files.
#[derive(Debug, Clone)]
enum Places {
    Layers(Layers),
    Folder(PathBuf),
    Squashfs(squashfs::SquashfsImage),
}

/// Location of the data of the tree's files.
#[derive(Debug, Clone)]
enum Data {
    Layers(Layers, layers::LayerFiles),
    Folder(PathBuf, folder::FolderFiles),
    Squashfs(squashfs::SquashfsImage, squashfs::SquashfsFiles),
}

/// A source's names and nodes, and the location of its files' data.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Names and nodes.
    pub tree: FileTree,
    /// Settings of programs in it; empty if it is not a container.
    pub config: Config,
    /// SHA-256 in hexadecimal of the whole. For a container image it covers the digests of its configuration and
    /// uncompressed layers; for an archive or squashfs, its bytes; for an Apptainer image, its root partition's; for a
    /// folder, names, metadata and data.
    pub digest: String,
    /// Parts of the source that are left out.
    pub warnings: Vec<String>,
    data: Data,
}

impl Source {
    /// Opens the source at a path. The tag selects one of several images: its whole name or the part after the colon.
    ///
    /// # Errors
    /// When its kind is not supported, when the tag selects no or several images or is given for a source without tags,
    /// or when no image is for linux/amd64.
    pub fn open(path: &Path, tag: Option<&str>) -> Result<Self, SourceError> {
        let metadata = std::fs::metadata(path);
        let metadata = metadata.map_err(|error| SourceError::io(path.display(), error))?;
        if metadata.is_dir() {
            return Self::open_folder(path, tag);
        }
        if !metadata.is_file() {
            return Err(unknown(path, "neither a file nor a folder"));
        }
        let first = first_bytes(path)?;
        if sif::is_here(&first) {
            return Self::plain(
                path,
                tag,
                SourceKind::Sif,
                Places::Squashfs(sif::open(path)?),
            );
        }
        if first.starts_with(b"hsqs") {
            let places = Places::Squashfs(whole_squashfs(path, metadata.len())?);
            return Self::plain(path, tag, SourceKind::Squashfs, places);
        }
        if let Some(what) = unread(&first) {
            return Err(unknown(path, what));
        }
        if Compression::of(&first) == Compression::None && !is_tar(&first) {
            return Err(unknown(path, "a file of an unknown kind"));
        }
        if let Some(blobs) = Blobs::archive(path, &first)? {
            let kind = match blobs.has("manifest.json") {
                true => SourceKind::DockerArchive,
                false => SourceKind::OciArchive,
            };
            return Self::container(kind, blobs, tag);
        }
        let layers = Layers {
            blobs: Arc::new(Blobs::file(path)),
            layers: vec![LayerBlob::default()],
            config: None,
        };
        Self::plain(path, tag, SourceKind::Archive, Places::Layers(layers))
    }

    /// Its kind.
    pub fn kind(&self) -> SourceKind {
        self.kind
    }

    /// Lists names and nodes, after checking all its digests.
    ///
    /// # Errors
    /// When it is damaged, differs from its digests, exceeds a limit, or can't be read.
    pub fn read(&self) -> Result<Listing, SourceError> {
        let mut config = self.config.clone();
        let mut warnings = Vec::new();
        let (tree, data, digest) = match &self.places {
            Places::Layers(layers) => {
                let (tree, files, digest) = layers.read()?;
                (tree, Data::Layers(layers.clone(), files), digest)
            }
            Places::Folder(root) => {
                let (tree, files, digest) = folder::read(root)?;
                // A folder that Apptainer unpacked has its scripts.
                let bytes = |path: &[u8]| Ok(script_of_folder(root, path));
                (config.environment, warnings) = sif::environment(&tree, &bytes)?;
                (tree, Data::Folder(root.clone(), files), digest)
            }
            Places::Squashfs(image) => {
                let (tree, files, digest) = image.read()?;
                if self.kind == SourceKind::Sif {
                    let bytes = |path: &[u8]| image.bytes(&tree, &files, path, LONGEST_SCRIPT);
                    (config.environment, warnings) = sif::environment(&tree, &bytes)?;
                }
                (tree, Data::Squashfs(image.clone(), files), digest)
            }
        };
        Ok(Listing {
            tree,
            config,
            digest,
            warnings,
            data,
        })
    }

    fn open_folder(path: &Path, tag: Option<&str>) -> Result<Self, SourceError> {
        let blobs = Blobs::folder(path)?;
        if docker::is_here(&blobs) {
            return Self::container(SourceKind::DockerArchive, blobs, tag);
        }
        if blobs.has("oci-layout") && blobs.has("index.json") {
            return Self::container(SourceKind::OciLayout, blobs, tag);
        }
        // skopeo's own format: blobs without a layout.
        let version = std::fs::read(path.join("version")).unwrap_or_default();
        if version.starts_with(b"Directory Transport") {
            return Err(unknown(
                path,
                "a folder of skopeo's `dir:` (copy it with `skopeo copy dir:FOLDER oci:OTHER`)",
            ));
        }
        Self::plain(
            path,
            tag,
            SourceKind::Folder,
            Places::Folder(path.to_owned()),
        )
    }

    fn container(kind: SourceKind, blobs: Blobs, tag: Option<&str>) -> Result<Self, SourceError> {
        let blobs = Arc::new(blobs);
        let (layers, config) = match kind {
            SourceKind::DockerArchive => docker::open(blobs, tag)?,
            _ => oci::open(blobs, tag)?,
        };
        Ok(Self {
            kind,
            config,
            places: Places::Layers(layers),
        })
    }

    fn plain(
        path: &Path,
        tag: Option<&str>,
        kind: SourceKind,
        places: Places,
    ) -> Result<Self, SourceError> {
        if let Some(tag) = tag {
            return Err(SourceError::Tag {
                path: path.display().to_string(),
                what: format!("is no container image that could have the tag {tag:?}"),
                tags: "no tags".to_owned(),
            });
        }
        let mut config = Config::default();
        if kind == SourceKind::Sif {
            config.architecture = Some("amd64".to_owned());
        }
        Ok(Self {
            kind,
            config,
            places,
        })
    }
}

impl Listing {
    /// Copies every file that the sink wants, in one pass over each layer.
    ///
    /// # Errors
    /// When the source changed since it was listed or can't be read, or the sink fails.
    pub fn copy(&self, sink: &mut dyn FileSink) -> Result<(), SourceError> {
        match &self.data {
            Data::Layers(layers, files) => layers.copy(files, sink),
            Data::Folder(root, files) => folder::copy(root, &self.tree, files, sink),
            Data::Squashfs(image, files) => image.copy(&self.tree, files, sink),
        }
    }
}

/// A script of a folder, if it is a file and not too long. The folder's tree ensures that no parent is a link.
fn script_of_folder(root: &Path, path: &[u8]) -> Option<Vec<u8>> {
    let path = root.join(OsStr::from_bytes(path));
    let data = path.symlink_metadata().ok()?;
    (data.is_file() && data.len() <= LONGEST_SCRIPT).then(|| std::fs::read(path).ok())?
}

/// The first bytes of a file, enough to detect its kind.
fn first_bytes(path: &Path) -> Result<Vec<u8>, SourceError> {
    let failed = |error| SourceError::io(path.display(), error);
    let mut first = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(512).read_to_end(&mut first).map_err(failed)?;
    Ok(first)
}

/// Kinds of files that users may take for supported ones.
fn unread(first: &[u8]) -> Option<&'static str> {
    match first {
        [] => Some("an empty file"),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => {
            Some("compressed by bzip2, which is not read: unpack it")
        }
        [b's', b'q', b's', b'h', ..] => Some("a big-endian squashfs"),
        [b'Q', b'F', b'I', 0xfb, ..] => Some("a disk image of QEMU"),
        [0x7f, b'E', b'L', b'F', ..] => Some("a program"),
        _ => None,
    }
}

/// True for the beginning of a tar archive: a header, or the zeros of an empty archive.
fn is_tar(first: &[u8]) -> bool {
    first.len() == 512 && entries::Entries::new(first).next_is_header()
}

fn whole_squashfs(path: &Path, length: u64) -> Result<squashfs::SquashfsImage, SourceError> {
    let file = File::open(path).map_err(|error| SourceError::io(path.display(), error))?;
    Ok(squashfs::SquashfsImage {
        bytes: Range::new(Arc::new(file), 0, length),
        place: path.display().to_string(),
    })
}

fn unknown(path: &Path, what: &'static str) -> SourceError {
    SourceError::Unknown {
        path: path.display().to_string(),
        what,
    }
}
