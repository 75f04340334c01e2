//! Available memory of this host: the kernel's figure, or less if a control group of this process has a limit, as
//! under Slurm, in containers and in services.
//!
//! All files stay open from the start, as a confined run can open none later.

/// Limits of memory of the control groups that this process is in.
mod cgroup;
/// Ends a run in order before the host's memory is exhausted.
mod guard;

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use procfs::{FromBufRead, Meminfo};

use crate::scenario::quantity::Bytes;
use cgroup::ControlGroup;
pub(crate) use guard::MemoryGuard;
pub use guard::Shortage;

/// Longest content of the files that are read here.
const LONGEST: usize = 64 << 10;

/// Available memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes that are free or reclaimable.
    pub bytes: u64,
    /// Bytes of free swap.
    pub swap: u64,
    /// Bytes in total.
    pub total: u64,
    /// The control group with the limit; `None` for the host itself.
    pub group: Option<PathBuf>,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Bytes(self.bytes >> 20 << 20))?;
        match &self.group {
            Some(group) => {
                let (limit, group) = (Bytes(self.total >> 20 << 20), group.display());
                write!(
                    f,
                    " within the limit of {limit} of the control group {group}"
                )
            }
            None => Ok(()),
        }
    }
}

/// The host's files about memory.
#[derive(Debug)]
pub(crate) struct HostMemory {
    meminfo: File,
    groups: Vec<ControlGroup>,
}

impl HostMemory {
    /// Opens them; `None` if the host has none.
    pub(crate) fn open() -> Option<Self> {
        Some(Self {
            meminfo: File::open("/proc/meminfo").ok()?,
            groups: cgroup::own_groups().unwrap_or_default(),
        })
    }

    /// The available memory, by the tightest limit.
    pub(crate) fn room(&self) -> Option<Room> {
        let host = host_room(&read(&self.meminfo).ok()?)?;
        let swap = host.swap;
        let groups = self.groups.iter().filter_map(|group| group.room(swap));
        groups
            .chain([host])
            .min_by_key(|room| room.bytes.saturating_add(room.swap))
    }
}

/// The available memory of this host; `None` if it is unknown.
pub(crate) fn room() -> Option<Room> {
    HostMemory::open()?.room()
}

/// The available memory in words, and whether it probably suffices for `nodes` nodes of up to `most` bytes in total
/// that probably take `likely` bytes.
pub fn preview(nodes: u32, most: u64, likely: u64) -> String {
    let Some(room) = room() else {
        return "this host does not report its memory".to_owned();
    };
    let guard = MemoryGuard::new(nodes as usize, most);
    let doubts = guard.doubts(likely);
    doubts.unwrap_or_else(|| format!("this host can give {room}"))
}

/// Bytes of available memory of the host; `None` if unknown.
pub(crate) fn available() -> Option<u64> {
    Some(room()?.bytes)
}

/// True if nodes of `bytes` bytes in total may use huge pages. A page with one touched byte then costs 2 MiB, so in
/// the end all of a guest's memory is used.
pub(crate) fn is_plenty_for(bytes: u64) -> bool {
    available().is_some_and(|available| suffices(available, bytes))
}

fn suffices(available: u64, bytes: u64) -> bool {
    bytes <= available / 2
}

fn host_room(meminfo: &[u8]) -> Option<Room> {
    let meminfo = Meminfo::from_buf_read(BufReader::new(meminfo)).ok()?;
    Some(Room {
        bytes: meminfo.mem_available?,
        swap: meminfo.swap_free,
        total: meminfo.mem_total,
        group: None,
    })
}

/// Reads a file of the kernel from its beginning.
fn read(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; LONGEST];
    let mut length = 0;
    loop {
        match file.read_at(&mut bytes[length..], length as u64)? {
            0 => break,
            more => length += more,
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_says_what_it_has() {
        let room = room().unwrap();
        assert!(room.bytes > 0 && room.bytes <= room.total, "{room:?}");
    }

    #[test]
    fn memory_is_what_the_kernel_says_is_available() {
        let told = std::fs::read("/proc/meminfo").unwrap();
        let room = host_room(&told).unwrap();
        let text = String::from_utf8(told).unwrap();
        let line = format!("{} kB", room.bytes >> 10);
        assert!(
            text.lines()
                .any(|one| one.starts_with("MemAvailable:") && one.ends_with(&line))
        );
        assert_eq!(host_room(b"MemFree: 1 kB\n"), None);
        assert_eq!(host_room(b"MemAvailable: much\n"), None);
    }

    #[test]
    fn half_of_it_may_be_taken_in_huge_pages() {
        assert!(suffices(64, 32));
        assert!(!suffices(63, 32));
    }
}
