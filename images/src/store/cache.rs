//! Built images, each in a folder named by its recipe's key.
//!
//! A damaged image is an error or is rebuilt, never used. Publishing renames a whole folder, and runs that
//! have a damaged image open keep their files. Called by `build` and by the commands that list images.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use belljar_files::Registration;

use crate::store::manifest::{Image, MANIFEST, ManifestError};
use crate::store::verified::{self, Trust};

/// An error of the cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The environment names no folder for images.
    #[error("neither XDG_CACHE_HOME nor HOME names a folder for built images; set one of them")]
    Home,
    /// The environment names no folder for state.
    #[error("neither XDG_STATE_HOME nor HOME names a folder for state; set one of them")]
    State,
    /// A file or folder of the cache can't be read or written.
    #[error(
        "cannot use {path} for built images: {source}; check its rights or set XDG_CACHE_HOME to another folder"
    )]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// System error.
        source: std::io::Error,
    },
    /// An image in the cache is damaged.
    #[error(transparent)]
    Image(#[from] ManifestError),
}

/// The user's cache folder for `name`: `$XDG_CACHE_HOME/belljar/name`, or `~/.cache/belljar/name`.
///
/// # Errors
/// When the environment names neither folder.
pub fn user_folder(name: &str) -> Result<PathBuf, CacheError> {
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("belljar").join(name))
        .ok_or(CacheError::Home)
}

/// The user's folder for what is no cache and no setting: `$XDG_STATE_HOME/belljar`, or `~/.local/state/belljar`.
///
/// # Errors
/// When the environment names neither folder.
pub fn user_state_folder() -> Result<PathBuf, CacheError> {
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("belljar"))
        .ok_or(CacheError::State)
}

/// The absolute path in an environment variable.
fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

/// Prefix of a work folder's name.
const BUILDING: &str = "building-";
/// The lock on making and removing work folders.
const BUILDING_LOCK: &str = "building.lock";

/// A folder to build in, locked, and removed when dropped.
#[derive(Debug)]
pub(crate) struct WorkFolder {
    folder: tempfile::TempDir,
    /// Has the folder removed after an interrupted build.
    _registration: Registration,
    _lock: File,
}

impl WorkFolder {
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A folder of built images.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    /// Downloads for images, which are kept.
    packages: PathBuf,
}

impl Cache {
    /// The user's cache: `$XDG_CACHE_HOME/belljar/images`, or `~/.cache/belljar/images`.
    ///
    /// # Errors
    /// When the environment names neither folder.
    pub fn of_user() -> Result<Self, CacheError> {
        Ok(Self {
            folder: user_folder("images")?,
            packages: user_folder("packages")?,
        })
    }

    /// A cache in a folder of its own.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            packages: folder.join("packages"),
        }
    }

    /// The folder of downloads.
    pub(crate) fn packages(&self) -> &Path {
        &self.packages
    }

    /// The image with this key, if there is one, with every file checked.
    ///
    /// # Errors
    /// [`CacheError::Image`] when it is damaged.
    pub(crate) fn find(&self, key: &str) -> Result<Option<Image>, CacheError> {
        self.find_as(key, Trust::Stamps)
    }

    /// Like [`find`](Self::find), but treats a damaged image as absent and passes the error to `damaged`.
    pub(crate) fn find_whole(
        &self,
        key: &str,
        damaged: &mut dyn FnMut(ManifestError),
    ) -> Result<Option<Image>, CacheError> {
        match self.find(key) {
            Err(CacheError::Image(why)) => {
                damaged(why);
                Ok(None)
            }
            found => found,
        }
    }

    /// Like [`find`](Self::find), trusting earlier checks as far as `trust` allows.
    pub(crate) fn find_as(&self, key: &str, trust: Trust) -> Result<Option<Image>, CacheError> {
        let dir = self.folder.join(key);
        match dir.try_exists() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(source) => return Err(CacheError::Folder { path: dir, source }),
        }
        let image = Image::open(&dir)?;
        if image.manifest.key != key {
            return Err(CacheError::Image(ManifestError::Key {
                path: dir.join(MANIFEST),
                expected: key.to_owned(),
                found: image.manifest.key,
            }));
        }
        verified::check(&image, trust)?;
        Ok(Some(image))
    }

    /// Takes the lock on building the image with this key; `waiting` is called once if another process
    /// holds it. The lock ends with the value, also when the process is killed.
    pub(crate) fn lock(&self, key: &str, waiting: &mut dyn FnMut()) -> Result<File, CacheError> {
        let path = self.folder.join(format!("{key}.lock"));
        let folder = |source| CacheError::Folder {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(&self.folder).map_err(folder)?;
        let file = File::create(&path).map_err(folder)?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => waiting(),
            Err(TryLockError::Error(source)) => return Err(folder(source)),
        }
        file.lock().map_err(folder)?;
        Ok(file)
    }

    /// A folder to build in, on the same file system as the cache, removed when dropped. Folders of
    /// interrupted builds are removed first.
    pub(crate) fn work_folder(&self) -> Result<WorkFolder, CacheError> {
        let made = || {
            // One process at a time: a new folder is not locked yet.
            let one = File::create(self.folder.join(BUILDING_LOCK))?;
            one.lock()?;
            self.remove_rests();
            let folder = tempfile::Builder::new()
                .prefix(BUILDING)
                .tempdir_in(&self.folder)?;
            let lock = File::open(folder.path())?;
            lock.lock()?;
            Ok(WorkFolder {
                _registration: Registration::of_folder(folder.path()),
                folder,
                _lock: lock,
            })
        };
        made().map_err(|source| CacheError::Folder {
            path: self.folder.clone(),
            source,
        })
    }

    /// Removes the work folders of interrupted builds, whose locks no process holds.
    fn remove_rests(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_folder || !name.to_string_lossy().starts_with(BUILDING) {
                continue;
            }
            let unused = File::open(entry.path()).is_ok_and(|rest| rest.try_lock().is_ok());
            if unused {
                // A folder that can't be removed only uses space.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Moves a finished image to its folder, atomically and after syncing it to the disk. A damaged image
    /// there is removed; runs that have it open keep their files.
    pub(crate) fn publish(&self, built: &Path, key: &str) -> Result<Image, CacheError> {
        let dir = self.folder.join(key);
        // Do not publish an image that was truncated or damaged meanwhile.
        Image::open(built)?.verify()?;
        let named = || {
            settle(built)?;
            if dir.try_exists()? {
                // Into the work folder, which is removed with its contents.
                fs::rename(&dir, built.with_extension("damaged"))?;
            }
            fs::rename(built, &dir)?;
            File::open(&self.folder)?.sync_all()
        };
        named().map_err(|source| CacheError::Folder {
            path: dir.clone(),
            source,
        })?;
        Ok(Image::open(&dir)?)
    }
}

/// Syncs the files in `folder`, then the folder itself, to the disk.
fn settle(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        File::open(entry?.path())?.sync_all()?;
    }
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_image_gets_the_name() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let cache = Cache::at(folder.path());
        let built = folder.path().join("building");
        fs::create_dir(&built).expect("writes");
        let digest = crate::debian::digest::sha256(b"123");
        let part = format!("size = 3\nsha256 = \"{digest}\"\n");
        let manifest = format!(
            "recipe = \"x\"\nkey = \"k\"\nkernel_release = \"6.1\"\nmodules = []\n\
             verified_files = 1\n[kernel]\n{part}[initrd]\n{part}[root]\n{part}"
        );
        fs::write(built.join("manifest.toml"), manifest).expect("writes");
        for (name, bytes) in [
            ("vmlinuz", "123"),
            ("initrd.cpio", "123"),
            ("root.erofs", "12"),
        ] {
            fs::write(built.join(name), bytes).expect("writes");
        }
        let error = cache.publish(&built, "k").expect_err("cut off").to_string();
        assert!(error.contains("root.erofs has 2 bytes"), "{error}");
        assert!(cache.find("k").expect("no image is no error").is_none());
        fs::write(built.join("root.erofs"), "124").expect("writes");
        let error = cache.publish(&built, "k").expect_err("another file");
        assert!(error.to_string().contains("SHA-256"), "{error}");
        fs::write(built.join("root.erofs"), "123").expect("writes");
        cache.publish(&built, "k").expect("whole");
        assert!(cache.find("k").expect("reads").is_some());
        // A new build replaces a damaged image.
        fs::write(folder.path().join("k/vmlinuz"), "321").expect("writes");
        let error = cache.find("k").expect_err("damaged").to_string();
        assert!(error.contains("vmlinuz is damaged"), "{error}");
        fs::create_dir(&built).expect("writes");
        for name in ["manifest.toml", "initrd.cpio", "root.erofs"] {
            fs::copy(folder.path().join("k").join(name), built.join(name)).expect("writes");
        }
        fs::write(built.join("vmlinuz"), "123").expect("writes");
        cache.publish(&built, "k").expect("whole");
        assert!(cache.find("k").expect("reads").is_some());
        let of_another = folder.path().join("l");
        fs::rename(folder.path().join("k"), &of_another).expect("writes");
        let error = cache.find("l").expect_err("of another recipe").to_string();
        assert!(error.contains("the key k"), "{error}");
    }

    #[test]
    fn a_second_builder_waits_for_the_first() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let cache = Cache::at(&folder.path().join("deep/images"));
        let first = cache
            .lock("key", &mut || panic!("nobody else builds"))
            .expect("locks");
        let (told, news) = std::sync::mpsc::channel();
        let second = std::thread::spawn({
            let cache = cache.clone();
            move || {
                cache
                    .lock("key", &mut || told.send(()).expect("the test listens"))
                    .map(drop)
            }
        });
        news.recv().expect("the second builder says that it waits");
        drop(first);
        second.join().expect("no panic").expect("locks in its turn");
    }

    #[test]
    fn nothing_is_found_in_an_empty_cache() {
        let folder = tempfile::tempdir().expect("temporary folder");
        assert!(
            Cache::at(folder.path())
                .find("key")
                .expect("no error")
                .is_none()
        );
        fs::create_dir(folder.path().join("key")).expect("writes");
        assert!(matches!(
            Cache::at(folder.path()).find("key"),
            Err(CacheError::Image(_))
        ));
    }

    #[test]
    fn rests_of_interrupted_builds_are_removed_and_those_under_way_stay() {
        let folder = tempfile::tempdir().expect("folder");
        let cache = Cache::at(folder.path());
        let rest = folder.path().join("building-abcdef");
        fs::create_dir_all(rest.join("image")).expect("folder");
        fs::write(rest.join("image/root.erofs"), "half").expect("writes");
        let under_way = cache.work_folder().expect("folder");
        assert!(!rest.exists());
        let second = cache.work_folder().expect("folder");
        assert!(under_way.path().exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
    }
}
