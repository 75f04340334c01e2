//! Whether an image's files are still what was built, by their digests.
//!
//! To hash an image takes longer than to open one, so it is done once for each identity of a file
//! (device, inode, size, times of the last write and the last change). What was found whole is kept
//! in the image's folder, in `STAMPS`; a file whose stamp says anything else than the file itself or the
//! manifest is hashed again, and so is one that was changed so shortly before it was hashed that a later
//! write could have left the same times. A cache that can't be written to has no stamps, and each
//! run hashes. No stamp sees what changes below the file system: `Image::verify` looks at everything.
//!
//! Called by the cache before it gives an image to anybody.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use serde::{Deserialize, Serialize};

use crate::debian::digest::{self, Sha256Hex};
use crate::store::manifest::{Image, ManifestError, Part};

/// Name of the stamps in an image's folder.
const STAMPS: &str = "verified.toml";
/// Bytes that are hashed at a time.
const PIECE: usize = 1 << 20;
/// Seconds that lie between a file's last change and its hashing, where a stamp is to be trusted: the
/// coarsest clock of a file system (FAT) ticks every two seconds.
const SETTLED: i64 = 2;

/// The stamps, by the files' names.
type Stamps = BTreeMap<String, Stamp>;

/// What was hashed, and what came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    sha256: String,
    identity: Identity,
}

/// What changes when a file is written to or another one takes its place.
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

    /// Whether whoever writes to the file from `second` on gives it another time than it has.
    fn is_settled(&self, second: i64) -> bool {
        self.changed.0.saturating_add(SETTLED) <= second
    }
}

/// How much is believed of what was found before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Stamps that fit.
    Stamps,
    /// Nothing: all is read from the disk and hashed.
    Nothing,
}

impl Image {
    /// Reads all of its files from the disk and compares them with their digests, whatever is known of
    /// them already.
    ///
    /// # Errors
    /// [`ManifestError`], naming the first file that can't be read or is another one.
    pub fn verify(&self) -> Result<(), ManifestError> {
        check(self, Trust::Nothing)
    }
}

/// Checks every file of `image` against its manifest.
///
/// # Errors
/// [`ManifestError`], naming the first file that can't be read or is another one.
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
            // A wish only: what others have mapped stays in memory.
            let _ = posix_fadvise(&open, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        }
        checker.hash(name, path, part, open)?;
    }
    checker.keep();
    Ok(())
}

/// What hashes files, and keeps stamps of those that are whole.
struct Checker<'a> {
    folder: &'a Path,
    /// Where the stamps will be kept, made before anything is hashed: the file system's own clock tells
    /// what was written since. `Err` where it can't be made.
    begun: Option<io::Result<(tempfile::NamedTempFile, i64)>>,
    stamps: Stamps,
}

impl Checker<'_> {
    fn hash(
        &mut self,
        name: &str,
        path: &Path,
        part: &Part,
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

/// A new file in `folder`, and the second at which it was made.
fn begin(folder: &Path) -> io::Result<(tempfile::NamedTempFile, i64)> {
    let file = tempfile::Builder::new()
        .prefix(".verified-")
        // Whoever uses the cache may read them.
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    let second = file.as_file().metadata()?.mtime();
    Ok((file, second))
}

/// The stamps in `folder`; none where they can't be read or make no sense.
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
/// When the file can't be read, or changes while it is.
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
        // Without it the next run hashes again.
        if out.write_all(text.as_bytes()).is_ok() {
            let _ = out.persist(folder.join(name));
        }
    }
    Ok(sha256)
}

#[cfg(test)]
mod tests;
