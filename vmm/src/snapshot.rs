//! A node as a file, from which any number of nodes can be cloned.
//!
//! ```text
//! "BELLSNAP"  version (4)  length of the header (4)  its XXH3 (8)  header
//! padding to a page
//! RAM, range after range; pages of zeros are holes
//! ```
//!
//! Numbers are little endian. RAM has the same layout in the file as in memory, so a clone maps it and shares
//! each page with other clones until it writes to it. The file is written under another name and then renamed,
//! so it is either whole or absent. Opening verifies every byte: the header and its listed pages have
//! checksums, and all other bytes are zero.

/// The nonzero pages of RAM.
mod pages;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use belljar_cpu::{GuestRam, PAGE_SIZE, guest_ram_over, ram_ranges};
use belljar_files::open_input;
use belljar_sim::{CodecError, decode, encode};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;
use vm_memory::mmap::FromRangesError;

use pages::{PageContents, Runs};

const MAGIC: &[u8; 8] = b"BELLSNAP";
/// Incremented with every change of the format, or of the meaning of saved state.
const VERSION: u32 = 7;
/// Bytes before the header.
const PREFIX: u64 = 24;
/// Longest header: devices' state, not RAM.
const MOST_HEADER: u32 = 64 << 20;

/// The named properties for which a snapshot was made; it fits only equal ones.
pub type Identity = Vec<(String, String)>;

/// The first difference between two identities: its name, and the value in each. Names in `indifferent` may
/// differ.
pub fn first_difference(
    found: &Identity,
    wanted: &Identity,
    indifferent: &[&str],
) -> Option<[String; 3]> {
    let of = |identity: &Identity, name: &str| {
        let value = identity.iter().find(|(other, _)| other == name);
        value.map_or_else(|| "unknown".to_owned(), |(_, value)| value.clone())
    };
    let names = wanted.iter().chain(found).map(|(name, _)| name);
    let mut values = names
        .filter(|name| !indifferent.contains(&name.as_str()))
        .map(|name| [name.clone(), of(found, name), of(wanted, name)]);
    values.find(|[_, found, wanted]| found != wanted)
}

/// Errors of writing or using a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file cannot be read or written.
    #[error("cannot {action} snapshot {path}: {source}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{0} is no snapshot of a node; make one with: belljar snapshot")]
    NotASnapshot(PathBuf),
    /// The file was written by another version.
    #[error(
        "snapshot {path} has version {found} of the format, this belljar reads {VERSION}; make it again with: belljar snapshot"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file's bytes have changed.
    #[error(
        "snapshot {path} is damaged: {what}; delete it and make it again with: belljar snapshot"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// A description of the damage.
        what: String,
    },
    /// It was made for another scenario.
    #[error(
        "snapshot {path} does not fit: its {name} is {found}, the scenario's {wanted}; make another with: belljar snapshot"
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// Name of the differing property.
        name: String,
        /// The snapshot's.
        found: String,
        /// The scenario's.
        wanted: String,
    },
    /// The state exceeds the reader's limit.
    #[error(
        "snapshot {path} cannot be written: what it holds besides memory takes {bytes} bytes, and {most} is the most"
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The state's size in bytes.
        bytes: usize,
        /// The limit.
        most: u32,
    },
    /// The state is too large to be saved.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The host cannot map the file.
    #[error("cannot map snapshot {path} as memory: {source}")]
    Map {
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: FromRangesError,
    },
}

#[derive(Serialize, Deserialize)]
struct Header {
    identity: Identity,
    /// Guest-physical start and length of each range of RAM.
    ranges: Vec<(u64, u64)>,
    /// Pages that are not zero.
    runs: Runs,
    /// XXH3 (128 bits) of these pages.
    hash: u128,
    state: Vec<u8>,
    boot_log: Vec<u8>,
}

/// A verified snapshot file.
#[derive(Clone, Debug)]
pub struct Snapshot {
    path: PathBuf,
    file: Arc<File>,
    /// A copy of the file in memory, if one was made.
    copied: Arc<OnceLock<Arc<File>>>,
    identity: Identity,
    ranges: Vec<(u64, usize)>,
    ram_at: u64,
    runs: Arc<Runs>,
    state: Arc<[u8]>,
    boot_log: Arc<[u8]>,
}

impl Snapshot {
    /// Writes `state` and `ram` to `path`, replacing an existing file. `boot_log` is the node's console output
    /// so far.
    ///
    /// # Errors
    /// [`SnapshotError`] if the file cannot be written, or the state is too large.
    pub fn write(
        path: &Path,
        identity: &Identity,
        state: &[u8],
        boot_log: &[u8],
        ram: &GuestRam,
    ) -> Result<(), SnapshotError> {
        let failed = |source| SnapshotError::Io {
            action: "write",
            path: path.to_owned(),
            source,
        };
        let (runs, hash) = pages::survey(ram);
        let ranges = ram_ranges(ram);
        let header = encode(&Header {
            identity: identity.clone(),
            ranges: ranges
                .iter()
                .map(|&(at, bytes)| (at, bytes as u64))
                .collect(),
            runs,
            hash,
            state: state.to_vec(),
            boot_log: boot_log.to_vec(),
        })?;
        if header.len() > MOST_HEADER as usize {
            return Err(SnapshotError::TooLarge {
                path: path.to_owned(),
                bytes: header.len(),
                most: MOST_HEADER,
            });
        }
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let mut prefix = MAGIC.to_vec();
        prefix.extend_from_slice(&VERSION.to_le_bytes());
        prefix.extend_from_slice(&(header.len() as u32).to_le_bytes());
        prefix.extend_from_slice(&XxHash3_64::oneshot(&header).to_le_bytes());
        file.write_all(&prefix).map_err(failed)?;
        file.write_all(&header).map_err(failed)?;
        pages::write(ram, file.as_file(), ram_at(header.len())).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        // The file's name must be durable, too.
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        match synced {
            // Some file systems cannot sync folders.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced.map_err(failed),
        }
    }

    /// Reads `path` and verifies every byte.
    ///
    /// # Errors
    /// [`SnapshotError`] if it is no whole snapshot of this version.
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        let failed = |source| SnapshotError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        };
        let damaged = |what: &str| SnapshotError::Damaged {
            path: path.to_owned(),
            what: what.to_owned(),
        };
        let file = open_input(path).map_err(failed)?;
        // The lock marks it as in use while open; a file system without locks is not an error.
        let _ = file.lock_shared();
        let bytes = read_header(&file, path)?;
        let header: Header = decode(&bytes).map_err(|error| damaged(&error.to_string()))?;
        let ram_at = ram_at(bytes.len());
        let total: u64 = header.ranges.iter().map(|(_, bytes)| bytes).sum();
        let length = file.metadata().map_err(failed)?.len();
        if header.ranges.is_empty() || ram_at.checked_add(total) != Some(length) {
            return Err(damaged("it has the wrong length"));
        }
        let end = PREFIX + bytes.len() as u64;
        match pages::look(&file, end, ram_at, total, &header.runs).map_err(failed)? {
            PageContents::Hash(hash) if hash == header.hash => {}
            PageContents::Hash(_) => return Err(damaged("its memory has another checksum")),
            PageContents::Impossible => return Err(damaged("its pages are in no order")),
            PageContents::Filled => {
                return Err(damaged("something stands where nothing was written"));
            }
        }
        let usable =
            |&(at, bytes): &(u64, u64)| usize::try_from(bytes).ok().map(|bytes| (at, bytes));
        let ranges = header.ranges.iter().map(usable).collect::<Option<_>>();
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            copied: Arc::default(),
            identity: header.identity,
            ranges: ranges.ok_or_else(|| damaged("it is too large for this host"))?,
            ram_at,
            runs: header.runs.into(),
            state: header.state.into(),
            boot_log: header.boot_log.into(),
        })
    }

    /// Checks that it was made for the `wanted` identity.
    ///
    /// # Errors
    /// [`SnapshotError::Other`], naming the first difference.
    pub fn check(&self, wanted: &Identity) -> Result<(), SnapshotError> {
        self.check_but(wanted, &[])
    }

    /// As [`check`](Self::check), but names in `indifferent` may differ.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    pub fn check_but(&self, wanted: &Identity, indifferent: &[&str]) -> Result<(), SnapshotError> {
        match first_difference(&self.identity, wanted, indifferent) {
            None => Ok(()),
            Some([name, found, wanted]) => Err(SnapshotError::Other {
                path: self.path.clone(),
                name,
                found,
                wanted,
            }),
        }
    }

    /// RAM with the snapshot's contents, private to the caller.
    ///
    /// # Errors
    /// [`SnapshotError::Map`] if the host refuses the mapping.
    pub fn ram(&self) -> Result<GuestRam, SnapshotError> {
        let file = self.mappable()?;
        guest_ram_over(&self.ranges, &file, self.ram_at).map_err(|source| SnapshotError::Map {
            path: self.path.clone(),
            source,
        })
    }

    /// The file, or a copy in memory if it is on a tmpfs: there, reading a hole allocates a page, and raises
    /// SIGBUS once the file system is full.
    fn mappable(&self) -> Result<Arc<File>, SnapshotError> {
        let failed = |source| SnapshotError::Io {
            action: "copy into memory",
            path: self.path.clone(),
            source,
        };
        let kind = fstatfs(&*self.file).map_err(|errno| failed(errno.into()))?;
        if kind.filesystem_type() != TMPFS_MAGIC {
            return Ok(self.file.clone());
        }
        if let Some(copy) = self.copied.get() {
            return Ok(copy.clone());
        }
        let copy = memfd_create("snapshot", MFdFlags::MFD_CLOEXEC);
        let copy = File::from(copy.map_err(|errno| failed(errno.into()))?);
        self.copy(&copy)?;
        Ok(self.copied.get_or_init(|| Arc::new(copy)).clone())
    }

    /// Copies the file, holes included, to `to`, which must be empty.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn copy(&self, to: &File) -> Result<(), SnapshotError> {
        let ram = self.ranges.iter().map(|(_, bytes)| *bytes as u64).sum();
        let copied = pages::copy(&self.file, to, self.ram_at, ram, &self.runs);
        copied.map_err(|source| SnapshotError::Io {
            action: "copy",
            path: self.path.clone(),
            source,
        })
    }

    /// Size on disk in bytes, without holes.
    pub fn stored_bytes(&self) -> u64 {
        let pages: u64 = self.runs.iter().map(|(_, count)| *count).sum();
        self.ram_at + pages * PAGE_SIZE
    }

    /// The saved state.
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// The node's console output up to the snapshot.
    pub fn boot_log(&self) -> &[u8] {
        &self.boot_log
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The offset of RAM after a header of this length.
fn ram_at(header: usize) -> u64 {
    (PREFIX + header as u64).next_multiple_of(PAGE_SIZE)
}

fn read_header(file: &File, path: &Path) -> Result<Vec<u8>, SnapshotError> {
    let mut prefix = [0; PREFIX as usize];
    let other = || SnapshotError::NotASnapshot(path.to_owned());
    file.read_exact_at(&mut prefix, 0).map_err(|_| other())?;
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| prefix[at + i]));
    if &prefix[..8] != MAGIC {
        return Err(other());
    }
    if number(8) != VERSION {
        let path = path.to_owned();
        let found = number(8);
        return Err(SnapshotError::Version { path, found });
    }
    let damaged = |what: &str| SnapshotError::Damaged {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    if number(12) > MOST_HEADER {
        return Err(damaged("its header has no possible length"));
    }
    let mut header = vec![0; number(12) as usize];
    file.read_exact_at(&mut header, PREFIX)
        .map_err(|_| damaged("it ends within its header"))?;
    if XxHash3_64::oneshot(&header).to_le_bytes() != prefix[16..24] {
        return Err(damaged("its header has another checksum"));
    }
    Ok(header)
}

#[cfg(test)]
mod tests;
