//! Files of one host that others need, identified by their content.
//!
//! A host that sees the file at the same place (a shared file system) takes it there. Others
//! keep received files in a folder of the user's cache, under their hashes.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use belljar_files::open_input;
use belljar_images::CacheError;
use twox_hash::XxHash3_128;

use super::message::FileOffer;

/// Bytes of a file that are sent in one message.
pub(super) const PIECE: usize = 1 << 20;
/// Maximum number of kept files; the newest ones stay.
const KEPT: usize = 16;

/// Errors of offering or keeping a file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder for received files cannot be found.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The host refuses a file.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The received file differs from the offered one.
    #[error("the file {0} arrived damaged")]
    Damaged(String),
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io {
        action,
        path,
        source,
    }
}

/// The offer of the file at `path`.
pub(super) fn offer(path: &Path) -> Result<FileOffer, StoreError> {
    let path = fs::canonicalize(path).map_err(failed("find", path))?;
    let (length, hash) = digest(&path).map_err(failed("read", &path))?;
    Ok(FileOffer {
        path: path.to_string_lossy().into_owned(),
        length,
        hash,
    })
}

fn digest(path: &Path) -> io::Result<(u64, u128)> {
    let mut file = open_input(path)?;
    let mut hash = XxHash3_128::new();
    let mut length = 0;
    let mut buffer = vec![0; PIECE];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((length, hash.finish_128())),
            read => {
                hash.write(&buffer[..read]);
                length += read as u64;
            }
        }
    }
}

/// The files that were sent to this host.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
}

impl Store {
    pub(super) fn open() -> Result<Self, StoreError> {
        Self::at(belljar_images::user_folder("received")?)
    }

    fn at(folder: PathBuf) -> Result<Self, StoreError> {
        fs::create_dir_all(&folder).map_err(failed("make the folder", &folder))?;
        Ok(Self { folder })
    }

    fn place(&self, offer: &FileOffer) -> PathBuf {
        self.folder.join(format!("{:032x}", offer.hash))
    }

    /// The path of the file on this host, if it exists.
    pub(super) fn find(&self, offer: &FileOffer) -> Option<PathBuf> {
        let is_it = |path: &PathBuf| {
            let same_length = fs::metadata(path).is_ok_and(|file| file.len() == offer.length);
            same_length && digest(path).is_ok_and(|found| found == (offer.length, offer.hash))
        };
        let places = [PathBuf::from(&offer.path), self.place(offer)];
        places.into_iter().find(is_it)
    }

    /// Starts receiving a file.
    pub(super) fn receive(&self, offer: &FileOffer) -> Result<ArrivingFile, StoreError> {
        let file = tempfile::NamedTempFile::new_in(&self.folder)
            .map_err(failed("make a file in", &self.folder))?;
        Ok(ArrivingFile {
            file,
            place: self.place(offer),
            left: offer.length,
            hash: XxHash3_128::new(),
            offer: offer.clone(),
        })
    }

    /// Removes all but the newest files and those `of_use`.
    pub(super) fn prune(&self, of_use: &[PathBuf]) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let dated = entries.filter_map(|entry| {
            let modified = entry.metadata().ok()?.modified().ok()?;
            Some((modified, entry.path()))
        });
        let mut files: Vec<_> = dated.collect();
        files.sort();
        let old = files.len().saturating_sub(KEPT);
        for (_, path) in files.drain(..old) {
            if of_use.contains(&path) {
                continue;
            }
            // Another run may have stored it first.
            let _ = fs::remove_file(path);
        }
    }
}

/// A file that is arriving.
pub(super) struct ArrivingFile {
    file: tempfile::NamedTempFile,
    place: PathBuf,
    left: u64,
    hash: XxHash3_128,
    offer: FileOffer,
}

impl ArrivingFile {
    /// Takes the next piece.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        let left = self.left.checked_sub(piece.len() as u64);
        self.left = left.ok_or_else(|| StoreError::Damaged(self.offer.path.clone()))?;
        self.hash.write(piece);
        let path = self.file.path().to_owned();
        self.file.write_all(piece).map_err(failed("write", &path))
    }

    /// Completes the file and returns its path.
    pub(super) fn finish(self) -> Result<PathBuf, StoreError> {
        if self.left > 0 || self.hash.finish_128() != self.offer.hash {
            return Err(StoreError::Damaged(self.offer.path));
        }
        let kept = self.file.persist(&self.place);
        kept.map_err(|error| error.error)
            .map_err(failed("keep", &self.place))?;
        Ok(self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_content_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let original = folder.path().join("root.erofs");
        fs::write(&original, vec![7; 3 * PIECE + 5]).unwrap();
        let offer = offer(&original).unwrap();
        let store = Store::at(folder.path().join("received")).unwrap();
        assert_eq!(store.find(&offer), Some(PathBuf::from(&offer.path)));
        fs::write(&original, vec![8; 3 * PIECE + 5]).unwrap();
        assert_eq!(store.find(&offer), None);
        let mut arrival = store.receive(&offer).unwrap();
        for piece in [PIECE, PIECE, PIECE + 5] {
            arrival.take(&vec![7; piece]).unwrap();
        }
        let place = arrival.finish().unwrap();
        assert_eq!(store.find(&offer), Some(place.clone()));
        // A needed file stays, even if it is the oldest of too many.
        for newer in 0..KEPT {
            fs::write(store.folder.join(format!("newer{newer}")), b"").unwrap();
        }
        store.prune(std::slice::from_ref(&place));
        assert_eq!(store.find(&offer), Some(place.clone()));
        fs::write(&place, vec![7; 3 * PIECE + 4]).unwrap();
        assert_eq!(store.find(&offer), None);
    }

    #[test]
    fn what_is_not_what_was_offered_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let original = folder.path().join("kernel");
        fs::write(&original, b"kernel").unwrap();
        let offer = offer(&original).unwrap();
        let store = Store::at(folder.path().join("received")).unwrap();
        for bytes in [&b"kerne"[..], b"kernal"] {
            let mut arrival = store.receive(&offer).unwrap();
            arrival.take(bytes).unwrap();
            let error = arrival.finish().unwrap_err();
            assert!(matches!(error, StoreError::Damaged(_)), "{error}");
        }
        let mut arrival = store.receive(&offer).unwrap();
        assert!(arrival.take(b"kernels").is_err());
        assert_eq!(fs::read_dir(&store.folder).unwrap().count(), 1);
    }
}
