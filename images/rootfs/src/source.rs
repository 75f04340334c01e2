//! What people have as a root file system, read into a [`FileTree`], and the bytes of its files.
//!
//! A source is opened, which finds what it is and which image of it is meant; listed, which checks every digest
//! that it carries; and copied, which reads each of its parts once more and hands on the files' bytes. Sources are
//! hostile: sizes, counts and depths are bounded, no path leads out of the tree, and what is held in memory is names
//! and metadata, never a file's bytes.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{FileTree, NodeId};

/// One layer's entries, applied to the tree of those below it.
mod apply;
/// The files that a container image consists of, in a folder or in an archive of it.
mod blobs;
/// Compressed streams, told by their first bytes.
mod compression;
/// What a container's configuration says of its processes.
mod config;
/// What `docker save` and `podman save` write.
mod docker;
/// The entries of a tar stream, in order.
mod entries;
/// Variables that an Apptainer image's scripts set.
mod environment;
/// Why a source can't be read, and bounds on what a hostile one costs.
mod error;
/// A folder that is a root file system, as unpacked or installed on the host.
mod folder;
/// Layers of a container image, or the one that a plain archive is.
mod layers;
/// OCI image layouts: index, manifest, configuration and layers.
mod oci;
/// Apptainer's and Singularity's images (SIF).
mod sif;
/// Squashfs 4.0 images, of a file of their own or of a partition in another.
mod squashfs;
#[cfg(test)]
mod tests;

use blobs::{Blobs, Range};
use compression::Compression;
pub use config::Config;
pub use error::SourceError;
use layers::{LayerBlob, Layers};

/// Longest script that is looked through for variables.
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
    /// Whether it takes a file's bytes.
    fn wants(&self, id: NodeId) -> bool;

    /// Takes a file's bytes, as many as its node says.
    ///
    /// # Errors
    /// When they can't be read or kept.
    fn file(&mut self, id: NodeId, data: &mut dyn Read) -> io::Result<()>;
}

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A folder that is an OCI image layout.
    OciLayout,
    /// A tar archive of an OCI image layout, compressed or not.
    OciArchive,
    /// What `docker save` writes, compressed or not, or a folder of it.
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

/// What kind of thing a path is, found by looking at it, never by its name.
#[derive(Debug)]
pub struct Source {
    kind: SourceKind,
    config: Config,
    places: Places,
}

/// Where a source's files are.
#[derive(Debug, Clone)]
enum Places {
    Layers(Layers),
    Folder(PathBuf),
    Squashfs(squashfs::Image),
}

/// Where the data of the tree's files are.
#[derive(Debug, Clone)]
enum Data {
    Layers(Layers, layers::Files),
    Folder(PathBuf, folder::Files),
    Squashfs(squashfs::Image, squashfs::Files),
}

/// A source's names and nodes, and where its files' bytes are.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Names and nodes.
    pub tree: FileTree,
    /// How programs are run in it; empty for what isn't a container.
    pub config: Config,
    /// SHA-256 in hexadecimal that stands for all of it: of a container image over the digests of its
    /// configuration and uncompressed layers, of an archive or squashfs over its bytes, of an Apptainer image over
    /// its root partition's, of a folder over names, metadata and bytes.
    pub digest: String,
    /// Parts of the source that are left out.
    pub warnings: Vec<String>,
    data: Data,
}

impl Source {
    /// Finds what is at a path. The tag chooses the image where there are several: its whole name or the part
    /// after the colon.
    ///
    /// # Errors
    /// When it is nothing that is read here, when the tag chooses no single image or is given for what has no
    /// tags, or when no image is for linux/amd64.
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

    /// What it is.
    pub fn kind(&self) -> SourceKind {
        self.kind
    }

    /// Lists it: names and nodes, after every digest that it carries was checked.
    ///
    /// # Errors
    /// When it is damaged, isn't what its digests say, breaks a bound, or the host refuses.
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
                // One that Apptainer unpacked has its scripts.
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
        // What copies images writes for itself: blobs without a layout.
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
    /// Gives every file that the sink wants, one pass over each layer.
    ///
    /// # Errors
    /// When the source changed since it was listed, the host refuses, or the sink does.
    pub fn copy(&self, sink: &mut dyn FileSink) -> Result<(), SourceError> {
        match &self.data {
            Data::Layers(layers, files) => layers.copy(files, sink),
            Data::Folder(root, files) => folder::copy(root, &self.tree, files, sink),
            Data::Squashfs(image, files) => image.copy(&self.tree, files, sink),
        }
    }
}

/// A script of a folder, if it is a file there and not too long. That nothing above it is a link, the folder's tree says.
fn script_of_folder(root: &Path, path: &[u8]) -> Option<Vec<u8>> {
    let path = root.join(OsStr::from_bytes(path));
    let data = path.symlink_metadata().ok()?;
    (data.is_file() && data.len() <= LONGEST_SCRIPT).then(|| std::fs::read(path).ok())?
}

/// Enough to tell what a file is.
fn first_bytes(path: &Path) -> Result<Vec<u8>, SourceError> {
    let failed = |error| SourceError::io(path.display(), error);
    let mut first = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(512).read_to_end(&mut first).map_err(failed)?;
    Ok(first)
}

/// Kinds of files that people may take for what is read here.
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

/// Whether a tar archive begins so: with a header, or with the zeros of an empty one.
fn is_tar(first: &[u8]) -> bool {
    first.len() == 512 && entries::Entries::new(first).next_is_header()
}

fn whole_squashfs(path: &Path, length: u64) -> Result<squashfs::Image, SourceError> {
    let file = File::open(path).map_err(|error| SourceError::io(path.display(), error))?;
    Ok(squashfs::Image {
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
