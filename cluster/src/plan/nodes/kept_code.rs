//! Translated code that is kept between runs: a file for each image and guest processor.
//!
//! Files are in the user's cache and sealed with a key of the user's, which is elsewhere; both are only used
//! if nobody else can write them. All files are opened before the sandbox is active, and stay locked for the
//! duration of the run. A file is overwritten in place after a run, when its results are written: a half-written one has no valid
//! seal, and the next run translates anew; one without space on the disk is emptied. Called by [`processors`](crate::plan::nodes::processors) and at
//! the end of a run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use belljar_exact::{CodeKey, CodePool, SavedCodeError, SealedCode};
use belljar_images::{user_folder, user_state_folder};
use twox_hash::XxHash3_128;

use crate::plan::Plan;
use crate::plan::kinds::NodeKind;
use crate::plan::nodes::template::build;

/// Disables kept code with the value `off`, or names another folder for it; neither affects results.
const VARIABLE: &str = "BELLJAR_KEPT_CODE";
/// Name of the folder of such files in the cache, and their extension.
const FOLDER: &str = "code";
const EXTENSION: &str = "code";
/// Name of the file with the user's key.
const KEY: &str = "code.key";
/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// The largest file that is read.
const MOST_BYTES: u64 = 512 << 20;
/// The most bytes of all files: older ones are deleted.
const MOST_IN_ALL: u64 = 1 << 30;

/// A reason for not using a file.
#[derive(Debug, thiserror::Error)]
enum KeptCodeError {
    /// The host refuses it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The environment names no folder.
    #[error(transparent)]
    Folder(#[from] belljar_images::CacheError),
    /// Others can change it.
    #[error("it is no regular file of this user's alone with mode 0600; delete it")]
    Foreign,
    /// It is too large.
    #[error("it has more than {} MiB; delete it", MOST_BYTES >> 20)]
    Large,
    /// The key has the wrong length.
    #[error("it has not {KEY_BYTES} bytes; delete it")]
    Key,
    /// The code is not usable.
    #[error(transparent)]
    Code(#[from] SavedCodeError),
}

/// The user's folder of kept code, and the key.
pub(crate) struct CodeFolder {
    folder: PathBuf,
    key: CodeKey,
}

/// The file for one kind of nodes, locked, and its pool.
struct CodeFile {
    path: PathBuf,
    file: File,
    pool: CodePool,
}

/// The files of a run.
#[derive(Clone, Default)]
pub(crate) struct KeptCode {
    files: Arc<[CodeFile]>,
    key: Option<CodeKey>,
}

impl CodeFolder {
    /// The user's folder. `None` if kept code is disabled, or the host has no place for it.
    pub(crate) fn open() -> Option<Self> {
        let wanted = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        if wanted.as_ref().is_some_and(|value| value == "off") {
            return None;
        }
        match Self::try_open(wanted.map(PathBuf::from)) {
            Ok(open) => Some(open),
            Err(why) => {
                tracing::info!("translated code is not kept between runs: {why}");
                None
            }
        }
    }

    fn try_open(wanted: Option<PathBuf>) -> Result<Self, KeptCodeError> {
        let folder = wanted.map_or_else(|| user_folder(FOLDER), Ok)?;
        let state = user_state_folder()?;
        for folder in [&folder, &state] {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(folder)?;
        }
        Ok(Self {
            folder,
            key: key_at(&state.join(KEY))?,
        })
    }

    /// A pool of `room` bytes for nodes of `plan` of this `kind`, with the code of earlier runs, and the
    /// file for it.
    fn pool(&self, plan: &Plan, kind: &NodeKind, room: usize) -> (CodePool, Option<CodeFile>) {
        let path = self.folder.join(file_name(plan, kind));
        let pool = CodePool::with_room(room);
        let opened = open_own(&path).and_then(locked);
        let opened = opened.and_then(|file| Ok((file.try_clone()?, file)));
        let (mut read_from, file) = match opened {
            Ok(files) => files,
            Err(why @ KeptCodeError::Foreign) => {
                let path = path.display();
                tracing::warn!("the translated code in {path} is not used: {why}");
                return (pool, None);
            }
            Err(why) => {
                tracing::info!("{} is not used: {why}", path.display());
                return (pool, None);
            }
        };
        // Reading and decoding take as long as other preparations of a run, which continue meanwhile.
        let key = self.key.clone();
        let reading = thread::spawn(move || read(&mut read_from, &key));
        let name = path.display().to_string();
        let source = move || match reading.join().ok()? {
            Ok(code) => code,
            Err(why) => {
                tracing::warn!(
                    "the translated code in {name} is not used: {why}; translating anew"
                );
                None
            }
        };
        let pool = pool.beginning_with(source, &build());
        let file = CodeFile {
            path,
            file,
            pool: pool.clone(),
        };
        (pool, Some(file))
    }

    /// The pools of the kinds of nodes of `plan`, each with `room` bytes, and their files.
    pub(crate) fn pools(self, plan: &Plan, room: usize) -> (Vec<CodePool>, KeptCode) {
        let kinds = plan.kinds().iter();
        let made = kinds.map(|kind| self.pool(plan, kind, room));
        let (pools, files): (Vec<_>, Vec<_>) = made.unzip();
        let files: Arc<[CodeFile]> = files.into_iter().flatten().collect();
        prune(&self.folder, &files);
        let key = Some(self.key);
        (pools, KeptCode { files, key })
    }
}

impl KeptCode {
    /// Reports code of earlier runs that the nodes, which exist, do not use.
    pub(crate) fn report(&self) {
        for each in self.files.iter() {
            let path = each.path.display();
            match each.pool.refusal() {
                Some(why @ SavedCodeError::Table(_)) => {
                    tracing::warn!("the translated code in {path} is not used: {why}");
                }
                Some(why) => tracing::info!("the translated code in {path} is not used: {why}"),
                None => {}
            }
        }
    }

    /// Writes the code of pools that have grown. Files that other runs have open stay as they are.
    pub(crate) fn write(&self) {
        for each in self.files.iter() {
            let sealed = self.key.as_ref().and_then(|key| each.pool.sealed(key));
            let Some(sealed) = sealed else {
                continue;
            };
            if let Err(why) = each.write(&sealed) {
                tracing::info!("cannot write {}: {why}", each.path.display());
            }
        }
    }
}

impl CodeFile {
    fn write(&self, sealed: &[u8]) -> io::Result<()> {
        // Other runs have a shared lock.
        if self.file.try_lock().is_err() {
            return Ok(());
        }
        let written = self.replace(sealed);
        if written.is_err() {
            // Its space is for others.
            self.file.set_len(0)?;
        }
        written
    }

    fn replace(&self, sealed: &[u8]) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(sealed)
    }
}

/// The name of the file for nodes of `plan` of this `kind`: everything besides the guest's bytes that
/// usually determines their code.
fn file_name(plan: &Plan, kind: &NodeKind) -> String {
    let manifest = &plan.image_of_kind(kind).image.manifest;
    let parts = [
        build(),
        manifest.key.clone(),
        manifest.kernel.sha256.clone(),
        manifest.root.sha256.clone(),
        kind.instruction_set.to_string(),
        format!("{:?} {:?}", kind.timing, plan.results),
    ];
    let mut hash = XxHash3_128::new();
    for part in parts {
        hash.write(part.as_bytes());
        hash.write(&[0]);
    }
    format!("{:032x}.{EXTENSION}", hash.finish_128())
}

/// Opens the file at `path`, which is made if it is missing. Nobody else may be able to write it.
fn open_own(path: &Path) -> Result<File, KeptCodeError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    let file = options
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let data = file.metadata()?;
    let own = nix::unistd::geteuid().as_raw();
    let is_own = data.is_file() && data.uid() == own && data.mode() & 0o077 == 0;
    if !is_own || data.nlink() != 1 {
        return Err(KeptCodeError::Foreign);
    }
    Ok(file)
}

/// The file with a shared lock, for the duration of the run.
fn locked(file: File) -> Result<File, KeptCodeError> {
    match file.try_lock_shared() {
        Ok(()) => Ok(file),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// The code in `file`; `None` if it is empty.
fn read(file: &mut File, key: &CodeKey) -> Result<Option<SealedCode>, KeptCodeError> {
    let length = file.metadata()?.len();
    if length > MOST_BYTES {
        return Err(KeptCodeError::Large);
    }
    // Only this copy is verified and used: the file may change meanwhile.
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some(SealedCode::open(bytes, key)?))
}

/// The key in the file at `path`, which is made if it is missing or empty.
fn key_at(path: &Path) -> Result<CodeKey, KeptCodeError> {
    let mut file = open_own(path)?;
    file.lock()?;
    let mut bytes = Vec::new();
    (&file).take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        bytes.resize(KEY_BYTES, 0);
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        file.write_all(&bytes)?;
    }
    let key = bytes.try_into().map_err(|_| KeptCodeError::Key)?;
    Ok(CodeKey::new(key))
}

/// Deletes the files in `folder` that were written longest ago, except those of this run, while all
/// together are too large.
fn prune(folder: &Path, own: &[CodeFile]) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let data = entry.metadata().ok()?;
            let is_code = entry.path().extension().is_some_and(|it| it == EXTENSION);
            is_code.then_some((data.modified().ok()?, data.len(), entry.path()))
        })
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in files {
        if total <= MOST_IN_ALL || own.iter().any(|file| file.path == path) {
            continue;
        }
        // Another process may have deleted it.
        let _ = fs::remove_file(path);
        total -= length;
    }
}
