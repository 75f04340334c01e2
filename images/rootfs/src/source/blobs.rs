//! The blobs of a container image, in a folder or an archive.
//!
//! Names are relative paths with `/`, which do not lead out of the folder or archive. Data are read in
//! place; a compressed archive is unpacked once into an unnamed file, since its entries are needed in
//! another order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tar::EntryType;

use super::SourceError;
use super::compression::{Compression, unpacked};
use super::entries::Entries;
use super::error::LONGEST_JSON;

/// Limits on the files of an archive of container images, and on chains of links.
const MOST_FILES: usize = 1 << 16;
const MOST_LINKS: usize = 8;

/// Location of the files.
#[derive(Debug)]
pub(super) struct Blobs {
    path: PathBuf,
    place: BlobLocation,
}

#[derive(Debug)]
enum BlobLocation {
    Folder(PathBuf),
    Archive {
        file: Arc<File>,
        files: BTreeMap<String, InArchive>,
    },
    /// A single file, which is the only layer.
    File,
}

#[derive(Debug)]
enum InArchive {
    Bytes { start: u64, size: u64 },
    Link(String),
}

impl Blobs {
    pub(super) fn folder(path: &Path) -> Result<Self, SourceError> {
        let root = path.canonicalize();
        Ok(Self {
            path: path.to_owned(),
            place: BlobLocation::Folder(
                root.map_err(|error| SourceError::io(path.display(), error))?,
            ),
        })
    }

    pub(super) fn file(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            place: BlobLocation::File,
        }
    }

    /// The archive's files, if its names are those of a container image; `None` for another archive.
    ///
    /// # Errors
    /// When it can't be read or is damaged.
    pub(super) fn archive(path: &Path, first: &[u8]) -> Result<Option<Self>, SourceError> {
        let failed = |error| unreadable(path, error);
        let mut file = File::open(path).map_err(failed)?;
        let mut opened = unpacked(&file).map_err(failed)?;
        if Compression::of(first) != Compression::None {
            // Other archives are detected by their first entry, before anything is unpacked.
            if files(Entries::new(&mut opened)).map_err(failed)?.is_none() {
                return Ok(None);
            }
            let mut plain = tempfile::tempfile().map_err(failed)?;
            drop(opened);
            file.seek(SeekFrom::Start(0)).map_err(failed)?;
            let mut opened = unpacked(&file).map_err(failed)?;
            io::copy(&mut opened, &mut plain).map_err(failed)?;
            drop(opened);
            file = plain;
        } else {
            drop(opened);
        }
        let length = file.metadata().map_err(failed)?.len();
        let file = Arc::new(file);
        let range = Range::new(file.clone(), 0, length);
        let Some(files) = files(Entries::new(range)).map_err(failed)? else {
            return Ok(None);
        };
        let blobs = Self {
            path: path.to_owned(),
            place: BlobLocation::Archive { file, files },
        };
        let is_image =
            blobs.has("manifest.json") || blobs.has("oci-layout") && blobs.has("index.json");
        Ok(is_image.then_some(blobs))
    }

    /// True if there is a file of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        match &self.place {
            BlobLocation::Folder(root) => is_inside(name) && root.join(name).is_file(),
            BlobLocation::Archive { files, .. } => files.contains_key(name),
            BlobLocation::File => false,
        }
    }

    /// A file's data, with its size.
    ///
    /// # Errors
    /// When there is no such file or it can't be read.
    pub(super) fn open(&self, name: &str) -> Result<(Range, u64), SourceError> {
        let failed = |error| SourceError::io(self.place(name), error);
        let missing = || SourceError::damaged(self.place(name), "it is missing");
        let path = match &self.place {
            BlobLocation::Archive { file, files } => {
                let (start, size) = find(files, name).ok_or_else(missing)?;
                return Ok((Range::new(file.clone(), start, size), size));
            }
            BlobLocation::File => self.path.clone(),
            BlobLocation::Folder(root) => {
                if !is_inside(name) || !root.join(name).exists() {
                    return Err(missing());
                }
                let path = root.join(name).canonicalize().map_err(failed)?;
                if !path.starts_with(root) {
                    return Err(SourceError::damaged(self.place(name), "it lies outside"));
                }
                path
            }
        };
        let file = File::open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(SourceError::damaged(self.place(name), "it is no file"));
        }
        let size = metadata.len();
        Ok((Range::new(Arc::new(file), 0, size), size))
    }

    /// A small file's data.
    ///
    /// # Errors
    /// When there is no such file, or it exceeds the limit for JSON documents.
    pub(super) fn bytes(&self, name: &str) -> Result<Vec<u8>, SourceError> {
        let (file, size) = self.open(name)?;
        if size > LONGEST_JSON {
            return Err(SourceError::damaged(
                self.place(name),
                "it is longer than 16 MiB",
            ));
        }
        let mut bytes = Vec::new();
        let read = file.take(LONGEST_JSON).read_to_end(&mut bytes);
        read.map_err(|error| SourceError::io(self.place(name), error))?;
        Ok(bytes)
    }

    /// A JSON document.
    ///
    /// # Errors
    /// Those of `bytes`, and when it is not JSON of that form.
    pub(super) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, SourceError> {
        self.parse(name, &self.bytes(name)?)
    }

    /// Parses a file's data as JSON.
    pub(super) fn parse<T: DeserializeOwned>(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<T, SourceError> {
        serde_json::from_slice(bytes).map_err(|error| SourceError::damaged(self.place(name), error))
    }

    /// Describes a file for an error.
    pub(super) fn place(&self, name: &str) -> String {
        match &self.place {
            BlobLocation::File => self.path.display().to_string(),
            _ => format!(
                "{} in {}",
                super::error::shown(name.as_bytes()),
                self.path.display()
            ),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Classifies an error of reading data: a system error, or damage that a decoder found.
pub(super) fn unreadable(place: impl AsRef<Path>, error: io::Error) -> SourceError {
    let place = place.as_ref().display();
    // System errors have a number, those of decoders and of the tar reader have none.
    match (error.raw_os_error(), error.kind()) {
        (Some(_), _) => SourceError::io(place, error),
        // Intact, but of an unsupported kind.
        (None, io::ErrorKind::Unsupported) => SourceError::unsupported(place, error),
        (None, io::ErrorKind::UnexpectedEof) => SourceError::damaged(place, "it ends early"),
        (None, _) => SourceError::damaged(place, error),
    }
}

/// The files by name, or `None` if an archive of container images would not have such a name.
fn files(mut entries: Entries<impl Read>) -> io::Result<Option<BTreeMap<String, InArchive>>> {
    let mut files = BTreeMap::new();
    while let Some(entry) = entries.next()? {
        let Some(name) = normal(&entry.path).filter(|name| is_image_name(name)) else {
            return Ok(None);
        };
        let file = match entry.kind {
            EntryType::Regular | EntryType::Continuous => InArchive::Bytes {
                start: entries.position(),
                size: entry.size,
            },
            EntryType::Symlink | EntryType::Link => {
                let folder = match entry.kind {
                    EntryType::Symlink => name.rsplit_once('/').map_or("", |(folder, _)| folder),
                    _ => "",
                };
                match joined(folder, &entry.link) {
                    Some(target) => InArchive::Link(target),
                    None => return Ok(None),
                }
            }
            EntryType::Directory => continue,
            _ => return Ok(None),
        };
        files.insert(name, file);
        if files.len() > MOST_FILES {
            return Ok(None);
        }
    }
    Ok(Some(files))
}

fn find(files: &BTreeMap<String, InArchive>, name: &str) -> Option<(u64, u64)> {
    let mut name = name;
    for _ in 0..MOST_LINKS {
        match files.get(name)? {
            InArchive::Bytes { start, size } => return Some((*start, *size)),
            InArchive::Link(target) => name = target,
        }
    }
    None
}

/// A path without a leading `./` or `/` and without a trailing `/`.
fn normal(path: &[u8]) -> Option<String> {
    joined("", path)
}

fn joined(folder: &str, path: &[u8]) -> Option<String> {
    let path = std::str::from_utf8(path).ok()?;
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// True for names of files in archives of container images, of either form.
fn is_image_name(name: &str) -> bool {
    let is_digest =
        |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let top = name.split('/').next().unwrap_or_default();
    let known = [
        "",
        "blobs",
        "oci-layout",
        "index.json",
        "manifest.json",
        "repositories",
    ];
    // Tools that build images without a daemon use the last two.
    let stem = [".json", ".tar", ".tar.gz"]
        .iter()
        .find_map(|end| top.strip_suffix(end))
        .or(top.strip_prefix("sha256:"))
        .unwrap_or(top);
    known.contains(&top) || is_digest(stem)
}

fn is_inside(name: &str) -> bool {
    let good = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    name.split('/').all(good)
}

/// A range of a file's data, with a read position of its own.
#[derive(Debug, Clone)]
pub(super) struct Range {
    file: Arc<File>,
    position: u64,
    end: u64,
}

impl Range {
    /// A range of `size` bytes; shorter if the file ends before.
    pub(super) fn new(file: Arc<File>, start: u64, size: u64) -> Self {
        Self {
            file,
            position: start,
            end: start.saturating_add(size),
        }
    }

    /// Its first `size` bytes, if it has as many.
    pub(super) fn first(&self, size: u64) -> Option<Self> {
        let end = self
            .position
            .checked_add(size)
            .filter(|&end| end <= self.end)?;
        Some(Self {
            end,
            ..self.clone()
        })
    }

    /// The range from an offset on, if that is not after its end.
    pub(super) fn from(&self, place: u64) -> Option<Self> {
        let position = self
            .position
            .checked_add(place)
            .filter(|&position| position <= self.end)?;
        Some(Self {
            file: self.file.clone(),
            position,
            end: self.end,
        })
    }
}

impl Read for Range {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_sub(self.position);
        let most = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = self.file.read_at(&mut buffer[..most], self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}
