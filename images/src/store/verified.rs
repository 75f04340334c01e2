//! Checks of an image's files by digest.
//!
//! Hashing an image takes longer than opening one, so it is done once for each identity of a file (device,
//! inode, size, times of the last write and the last change). Results are kept in `STAMPS` in the image's
//! folder. A file is hashed again if its stamp differs from the file or the manifest. The same applies if
//! it changed so shortly before hashing that a later write could have left the same times. In a read-only
//! cache there are no stamps, and each run hashes. Stamps do not detect changes below the file system:
//! `Image::verify` reads everything.
//!
//! Called by the cache before it returns an image.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use serde::{Deserialize, Serialize};

use crate::debian::digest::{self, Sha256Hex};
use crate::store::manifest::{Image, ImageFile, ManifestError};

/// Name of the stamps in an image's folder.
const STAMPS: &str = "verified.toml";
/// Bytes per read.
const PIECE: usize = 1 << 20;
/// Seconds between a file's last change and its hashing for a stamp to be trusted: the coarsest clock of a
/// file system (FAT) ticks every two seconds.
const SETTLED: i64 = 2;

/// The stamps, by the files' names.
type Stamps = BTreeMap<String, Stamp>;

/// A file's digest and its identity at that time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    sha256: String,
    identity: Identity,
}

/// Metadata that change when a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(file: &File) -> io::Result<Self> {
        let data = file.metadata()?;
        Ok(Self {
            device: data.dev(),
            inode: data.ino(),
            size: data.len(),
            modified: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        })
    }

    /// True if a write to the file from `second` on changes its times.
    fn is_settled(&self, second: i64) -> bool {
        self.changed.0.saturating_add(SETTLED) <= second
    }
}

/// Trust in earlier checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Trust matching stamps.
    Stamps,
    /// Trust nothing: read and hash everything.
    Nothing,
}

impl Image {
    /// Reads all of its files from the disk and compares them with their digests, regardless of earlier
    /// checks.
    ///
    /// # Errors
    /// [`ManifestError`], naming the first file that can't be read or differs.
    pub fn verify(&self) -> Result<(), ManifestError> {
        check(self, Trust::Nothing)
    }
}

/// Checks every file of `image` against its manifest.
///
/// # Errors
/// [`ManifestError`], naming the first file that can't be read or differs.
pub(crate) fn check(image: &Image, trust: Trust) -> Result<(), ManifestError> {
    let known = match trust {
        Trust::Stamps => read(&image.dir),
        Trust::Nothing => Stamps::new(),
    };
    let mut checker = Checker {
        folder: &image.dir,
        begun: None,
        stamps: Stamps::new(),
    };
    for (name, path, part) in image.parts() {
        let file = |source| ManifestError::File {
            path: path.to_owned(),
            source,
        };
        let open = File::open(path).map_err(file)?;
        let identity = Identity::of(&open).map_err(file)?;
        if identity.size != part.size {
            return Err(ManifestError::Damaged {
                path: path.to_owned(),
                expected: part.size,
                found: identity.size,
            });
        }
        let stamp = Stamp {
            sha256: part.sha256.clone(),
            identity,
        };
        if known.get(name) == Some(&stamp) {
            checker.stamps.insert(name.to_owned(), stamp);
            continue;
        }
        if trust == Trust::Nothing {
            // Advice only: pages that others have mapped stay in memory.
            let _ = posix_fadvise(&open, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        }
        checker.hash(name, path, part, open)?;
    }
    checker.keep();
    Ok(())
}

/// Hashes files, and keeps stamps of matching ones.
struct Checker<'a> {
    folder: &'a Path,
    /// The new stamp file, created before anything is hashed: its time by the file system's clock shows
    /// later writes. `Err` if it can't be created.
    begun: Option<io::Result<(tempfile::NamedTempFile, i64)>>,
    stamps: Stamps,
}

impl Checker<'_> {
    fn hash(
        &mut self,
        name: &str,
        path: &Path,
        part: &ImageFile,
        file: File,
    ) -> Result<(), ManifestError> {
        let failed = |source| ManifestError::File {
            path: path.to_owned(),
            source,
        };
        let begun = self.begun.get_or_insert_with(|| begin(self.folder));
        let before = Identity::of(&file).map_err(failed)?;
        let found = digest_of(&file).map_err(failed)?;
        if found != part.sha256 {
            return Err(ManifestError::Altered {
                path: path.to_owned(),
                expected: part.sha256.clone(),
                found,
            });
        }
        let after = Identity::of(&file).map_err(failed)?;
        if let Ok((_, second)) = begun
            && before == after
            && before.is_settled(*second)
        {
            let stamp = Stamp {
                sha256: found,
                identity: before,
            };
            self.stamps.insert(name.to_owned(), stamp);
        }
        Ok(())
    }

    /// Writes the stamps, if anything was hashed. Without them the next run hashes again.
    fn keep(self) {
        let Some(Ok((mut file, _))) = self.begun else {
            return;
        };
        let text = toml::to_string(&self.stamps).unwrap_or_default();
        if file.write_all(text.as_bytes()).is_ok() {
            let _ = file.persist(self.folder.join(STAMPS));
        }
    }
}

/// Creates a file in `folder`; also returns its creation time in seconds.
fn begin(folder: &Path) -> io::Result<(tempfile::NamedTempFile, i64)> {
    let file = tempfile::Builder::new()
        .prefix(".verified-")
        // Readable by all users of the cache.
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    let second = file.as_file().metadata()?.mtime();
    Ok((file, second))
}

/// The stamps in `folder`; empty if they can't be read or parsed.
fn read(folder: &Path) -> Stamps {
    let text = fs::read_to_string(folder.join(STAMPS)).unwrap_or_default();
    toml::from_str(&text).unwrap_or_default()
}

fn digest_of(mut file: &File) -> io::Result<String> {
    let mut hash = Sha256Hex::default();
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hash.finish()),
            read => hash.update(&piece[..read]),
        }
    }
}

/// The SHA-256 of the user's file at `path`, in hexadecimal, with a stamp in `folder` so that it is hashed
/// once for each identity.
///
/// # Errors
/// When the file can't be read, or changes meanwhile.
pub(crate) fn digest_once(path: &Path, folder: Option<&Path>) -> io::Result<String> {
    let full = std::path::absolute(path)?;
    let name = format!("{}.toml", digest::sha256(full.as_os_str().as_bytes()));
    let file = File::open(path)?;
    let before = Identity::of(&file)?;
    let known = folder.and_then(|folder| fs::read_to_string(folder.join(&name)).ok());
    if let Some(stamp) = known.and_then(|text| toml::from_str::<Stamp>(&text).ok())
        && stamp.identity == before
    {
        return Ok(stamp.sha256);
    }
    let begun = folder.map(|folder| fs::create_dir_all(folder).and_then(|()| begin(folder)));
    let sha256 = digest_of(&file)?;
    if Identity::of(&file)? != before {
        return Err(io::Error::other("it changed while it was read"));
    }
    if let (Some(Ok((mut out, second))), Some(folder)) = (begun, folder)
        && before.is_settled(second)
    {
        let (sha256, identity) = (sha256.clone(), before);
        let text = toml::to_string(&Stamp { sha256, identity }).unwrap_or_default();
        // Without a stamp the next run hashes again.
        if out.write_all(text.as_bytes()).is_ok() {
            let _ = out.persist(folder.join(name));
        }
    }
    Ok(sha256)
}

#[cfg(test)]
mod tests;
