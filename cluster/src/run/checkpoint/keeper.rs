//! The thread that stores checkpoints while the run continues.
//!
//! Threads that run guests may not open files. This thread may, and runs none: it makes the
//! file for the next pack of pages. After the run has filled that, the thread syncs
//! everything to the disk and verifies the record before its renaming. Then it removes all
//! records but the newest, two unless a scenario keeps more, and unreferenced packs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use belljar_sim::Time;
use belljar_sim::figures::decimal;
use belljar_vmm::Snapshot;
use serde::{Deserialize, Serialize};

use super::{CheckpointError, CheckpointRecord, FOLDER, PACK, RECORD, base_name};
use crate::run::stopwatch::Stopwatch;
use belljar_files::Folder;

/// Bytes of disk space reserved for the run's own files.
const ROOM: u64 = 64 << 20;

/// Bits of a pack's number for the number of its checkpoint.
const CHECKPOINT_BITS: u32 = 24;

/// Maximum number of other hosts, from the remaining bits.
pub(crate) const MOST_HOSTS: u32 = (1 << (u32::BITS - CHECKPOINT_BITS)) - 1;

/// Checkpoints that stay at least: if the last one is damaged, the one before it serves.
pub(crate) const LEAST_KEPT: usize = 2;

/// The number of the pack that `host` writes for a checkpoint.
pub(crate) fn pack_of(checkpoint: u32, host: u32) -> u32 {
    (host << CHECKPOINT_BITS) | (checkpoint & ((1 << CHECKPOINT_BITS) - 1))
}

/// The checkpoint that a pack was made for.
fn made_for(pack: u32) -> u32 {
    pack & ((1 << CHECKPOINT_BITS) - 1)
}

/// A finished checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Its number.
    pub number: u32,
    /// Virtual time, in picoseconds.
    pub at_ps: u64,
    /// Pages of nodes' RAM that were written.
    pub pages: u64,
    /// Written bytes, of pages and other data.
    pub bytes: u64,
    /// Host seconds of the run's pause.
    pub pause: f64,
    /// Host seconds after that until it was on the disk.
    pub settling: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "checkpoint {} at {} s of virtual time: {} pages, {} MiB; the run stood still for {} ms",
            self.number,
            decimal(self.at_ps as f64 / 1e12, 6),
            self.pages,
            decimal(self.bytes as f64 / f64::from(1 << 20), 1),
            decimal(self.pause * 1e3, 0)
        )
    }
}

/// Receives the result of each checkpoint, with its number.
pub type Tell = Arc<dyn Fn(u32, Result<&Report, &str>) + Send + Sync>;

/// A checkpoint to store.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) number: u32,
    pub(crate) now: Time,
    pub(crate) record: CheckpointRecord,
    /// The new pack, and its number of pages.
    pub(crate) pack: File,
    pub(crate) pages: u64,
    /// The highest number of another host that has a part in it.
    pub(crate) hosts: u32,
    /// All packs that the record refers to.
    pub(crate) needed: BTreeSet<u32>,
    pub(crate) pause: Duration,
}

#[derive(Debug)]
enum Order {
    /// Requests a file for this pack.
    Begin(u32),
    /// The next bytes of another host's pack.
    Pages(u32, Vec<u8>),
    Keep(Box<Work>),
}

/// A file for a pack; `false` if the previous checkpoint is lost.
type Begun = Result<(File, bool), CheckpointError>;

/// The handle of the keeper's thread.
#[derive(Debug)]
pub(crate) struct Keeper {
    orders: Sender<Order>,
    begun: Receiver<Begun>,
    thread: JoinHandle<Vec<Report>>,
}

impl Keeper {
    /// Keeps checkpoints in the run directory `directory`, for clones of `bases`, and reports
    /// each. The newest `keep` records stay. `last` is the number of the last existing one, with the packs that it refers to.
    pub(crate) fn start(
        directory: PathBuf,
        bases: Vec<Snapshot>,
        last: (u32, BTreeSet<u32>),
        keep: usize,
        tell: Tell,
    ) -> Self {
        let (orders, taken) = channel();
        let (begin, begun) = channel();
        let mut archive = CheckpointArchive {
            folder: directory.join(FOLDER),
            directory,
            open: None,
            bases,
            kept: Vec::new(),
            records: Some(last)
                .filter(|(number, _)| *number > 0)
                .into_iter()
                .collect(),
            keep,
            others: BTreeMap::new(),
        };
        let thread = thread::spawn(move || {
            let mut whole = true;
            for order in taken {
                match order {
                    Order::Begin(number) => {
                        let file = archive.begin(number);
                        // The requester has ended, and so will this thread.
                        let _ = begin.send(file.map(|file| (file, whole)));
                        whole = true;
                    }
                    Order::Pages(pack, bytes) => archive.append(pack, &bytes),
                    Order::Keep(work) => whole = archive.keep(&work, &tell),
                }
            }
            archive.kept
        });
        Self {
            orders,
            begun,
            thread,
        }
    }

    /// A new file for pack `number`, after the previous checkpoint was stored; returns
    /// whether that succeeded.
    pub(crate) fn begin(&self, number: u32) -> Begun {
        let gone = || CheckpointError::Failed("the thread that keeps checkpoints is gone".into());
        self.orders.send(Order::Begin(number)).map_err(|_| gone())?;
        self.begun.recv().map_err(|_| gone())?
    }

    /// Adds the next bytes of a pack of another host, for the next checkpoint.
    pub(crate) fn append(&self, pack: u32, bytes: Vec<u8>) {
        // If the thread has ended, the next `begin` reports it.
        let _ = self.orders.send(Order::Pages(pack, bytes));
    }

    /// Stores a checkpoint.
    pub(crate) fn keep(&self, work: Work) {
        // If the thread has ended, the next `begin` reports it.
        let _ = self.orders.send(Order::Keep(Box::new(work)));
    }

    /// Waits until everything is on the disk. Returns the finished checkpoints.
    pub(crate) fn finish(self) -> Vec<Report> {
        drop(self.orders);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

struct CheckpointArchive {
    /// The run directory, and its folder of checkpoints.
    directory: PathBuf,
    folder: PathBuf,
    /// That folder, once it is needed.
    open: Option<Folder>,
    bases: Vec<Snapshot>,
    kept: Vec<Report>,
    /// The last records with the packs that they refer to, the newest last.
    records: Vec<(u32, BTreeSet<u32>)>,
    /// Number of records that stay.
    keep: usize,
    /// Packs of other hosts for the next checkpoint, or their errors.
    others: BTreeMap<u32, Result<File, CheckpointError>>,
}

impl CheckpointArchive {
    fn path(&self, number: u32, ending: &str) -> PathBuf {
        self.folder.join(name(number, ending))
    }

    /// The folder, made on first use.
    fn open(&mut self) -> Result<&Folder, CheckpointError> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let made = Folder::open(&self.directory).and_then(|run| run.folder(FOLDER));
                made.map_err(failed("make the folder", &self.folder))?
            }
        };
        Ok(self.open.insert(open))
    }

    fn begin(&mut self, number: u32) -> Result<File, CheckpointError> {
        if number > made_for(u32::MAX) {
            let why = format!("checkpoint {number} exceeds the limit of a run");
            return Err(CheckpointError::Failed(why));
        }
        self.open()?;
        self.leave_room()?;
        self.create_pack(number)
    }

    fn create_pack(&mut self, number: u32) -> Result<File, CheckpointError> {
        let path = self.path(number, PACK);
        let created = self.open()?.create(&name(number, PACK));
        created.map_err(failed("create", &path))
    }

    /// Checks that a checkpoint leaves enough disk space for the run's own files.
    fn leave_room(&self) -> Result<(), CheckpointError> {
        let folder = &self.folder;
        let host = nix::sys::statvfs::statvfs(folder);
        let host = host.map_err(|errno| failed("ask for the room in", folder)(errno.into()))?;
        let free = host.blocks_available().saturating_mul(host.fragment_size());
        let bases = self.bases.iter().enumerate();
        let missing = bases.filter(|(kind, _)| !folder.join(base_name(*kind)).exists());
        let bytes = missing.map(|(_, base)| base.stored_bytes());
        let wanted = bytes.fold(ROOM, u64::saturating_add);
        if free >= wanted {
            return Ok(());
        }
        Err(CheckpointError::Room {
            folder: folder.clone(),
            free: free >> 20,
            wanted: wanted >> 20,
        })
    }

    fn append(&mut self, pack: u32, bytes: &[u8]) {
        let path = self.path(pack, PACK);
        if !self.others.contains_key(&pack) {
            let created = self.create_pack(pack);
            self.others.insert(pack, created);
        }
        if let Some(file) = self.others.get_mut(&pack)
            && let Ok(open) = file
            && let Err(error) = open.write_all(bytes)
        {
            *file = Err(failed("write", &path)(error));
        }
    }

    /// Stores `work` and reports it; returns true on success.
    fn keep(&mut self, work: &Work, tell: &Tell) -> bool {
        let mut watch = Stopwatch::default();
        let since = watch.lap();
        if let Err(error) = self.settle(work) {
            // Incomplete files only take space.
            self.remove(work.number, PACK);
            for host in 1..=work.hosts {
                self.remove(pack_of(work.number, host), PACK);
            }
            tell(work.number, Err(&error.to_string()));
            return false;
        }
        self.prune(work);
        watch.add(since);
        let report = Report {
            number: work.number,
            at_ps: work.now.as_ps(),
            pages: work.pages,
            bytes: work.pages * belljar_cpu::PAGE_SIZE + work.record.bytes(),
            pause: work.pause.as_secs_f64(),
            settling: watch.total().as_secs_f64(),
        };
        tell(work.number, Ok(&report));
        self.kept.push(report);
        true
    }

    fn settle(&mut self, work: &Work) -> Result<(), CheckpointError> {
        for (pack, file) in std::mem::take(&mut self.others) {
            let path = self.path(pack, PACK);
            file?.sync_all().map_err(failed("write", &path))?;
        }
        work.record.check()?;
        self.keep_bases()?;
        let pack = self.path(work.number, PACK);
        work.pack.sync_all().map_err(failed("write", &pack))?;
        let (path, named) = (self.path(work.number, RECORD), self.folder.clone());
        let folder = self.open()?;
        // Syncs the run's own files, which contain the data that the record refers to,
        // perhaps only in the page cache.
        let synced = nix::unistd::syncfs(folder.file());
        synced.map_err(|errno| failed("sync", &named)(errno.into()))?;
        let written = folder.write_whole(&name(work.number, RECORD), |file| {
            work.record.write(file)?;
            // An unreadable record must not replace a readable one.
            Ok::<_, Unwritten>(CheckpointRecord::verify(file)?)
        });
        written.map_err(|why| why.of("write", &path))?;
        folder.sync().map_err(failed("sync", &named))
    }

    fn keep_bases(&mut self) -> Result<(), CheckpointError> {
        for (kind, base) in self.bases.clone().into_iter().enumerate() {
            let name = base_name(kind);
            let path = self.folder.join(&name);
            if path.exists() {
                continue;
            }
            let folder = self.open()?;
            let kept = folder.write_whole(&name, |file| {
                let copied = base.copy(file).map_err(CheckpointError::from);
                Ok::<_, Unwritten>(copied?)
            });
            kept.map_err(|why| why.of("write", &path))?;
        }
        Ok(())
    }

    /// Removes files that only take space.
    fn remove(&mut self, number: u32, ending: &str) {
        if let Ok(folder) = self.open() {
            let _ = folder.remove(&name(number, ending));
        }
    }

    /// Removes records beyond the number that stays, and packs that none of the others needs. If a scenario keeps more than two,
    /// every other record goes, so that the others cover the whole run.
    fn prune(&mut self, work: &Work) {
        self.records.push((work.number, work.needed.clone()));
        if self.records.len() > self.keep {
            match self.keep {
                LEAST_KEPT => drop(self.records.remove(0)),
                _ => thin_out(&mut self.records),
            }
        }
        for (number, ending, _) in numbered(&self.folder) {
            let of_use = self
                .records
                .iter()
                .any(|(_, needed)| needed.contains(&number));
            let old = match ending.as_str() {
                RECORD => {
                    number < work.number && self.records.iter().all(|(own, _)| *own != number)
                }
                PACK => made_for(number) < work.number && !of_use,
                _ => false,
            };
            if old {
                self.remove(number, &ending);
            }
        }
    }
}

/// Removes every other record; the newest stays.
fn thin_out<T>(records: &mut Vec<T>) {
    let count = records.len();
    let mut at = 0;
    records.retain(|_| {
        at += 1;
        (count - at).is_multiple_of(2)
    });
}

/// Errors of making a file.
enum Unwritten {
    Io(std::io::Error),
    Other(CheckpointError),
}

impl Unwritten {
    /// The error of making the file at `path`.
    fn of(self, action: &'static str, path: &Path) -> CheckpointError {
        match self {
            Self::Io(error) => failed(action, path)(error),
            Self::Other(error) => error,
        }
    }
}

impl From<std::io::Error> for Unwritten {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<CheckpointError> for Unwritten {
    fn from(error: CheckpointError) -> Self {
        Self::Other(error)
    }
}

fn name(number: u32, ending: &str) -> String {
    format!("{number}.{ending}")
}

/// The files in `folder` with numbers as names, and their extensions.
pub(super) fn numbered(folder: &Path) -> Vec<(u32, String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name();
        let (number, ending) = name.to_str()?.split_once('.')?;
        Some((number.parse().ok()?, ending.to_owned(), entry.path()))
    });
    named.collect()
}

fn failed(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> CheckpointError {
    let path = path.to_owned();
    move |source| CheckpointError::Io {
        action,
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests;
