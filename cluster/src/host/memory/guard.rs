//! Ends a run in order before the kernel kills it for lack of memory.
//!
//! Nodes take memory when their guests first write to it, so their total may exceed the host's
//! memory later. A run checks the remaining memory periodically. If it is short and guests can
//! still take more, the run ends and keeps its records.
//!
//! The host's clock decides only the times of checks.
#![allow(clippy::disallowed_methods)]

use std::fmt;
use std::fs::File;
use std::time::{Duration, Instant};

use super::{HostMemory, Room, read};
use crate::scenario::quantity::Bytes;

/// Time between checks, and the maximum number of rounds between readings of the clock.
const INTERVAL: Duration = Duration::from_millis(50);
const ROUNDS: u32 = 64;
/// The required rest: a fraction of the total, within bounds. Guests on some threads write some 100
/// MiB between two checks.
const PART: u64 = 16;
const LEAST: u64 = 128 << 20;
const MOST: u64 = 1 << 30;

/// Memory is short.
#[derive(Debug, thiserror::Error)]
pub struct Shortage {
    room: Room,
    nodes: u64,
    /// Bytes used by this process, and bytes that its nodes may use.
    held: u64,
    wanted: u64,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this host runs out of memory: {} are left, this process uses {}, and its {} nodes may use up to {}; lower nodes.memory, or run on more hosts",
            self.room,
            Bytes(self.held >> 20 << 20),
            self.nodes,
            Bytes(self.wanted),
        )
    }
}

/// Checks the host's memory between rounds.
#[derive(Debug)]
pub(crate) struct MemoryGuard {
    /// `None` if the host does not report it.
    files: Option<(HostMemory, File)>,
    /// Bytes of a page, read while files can still be opened.
    page: u64,
    nodes: u64,
    /// Bytes of memory of this host's nodes.
    wanted: u64,
    looked: Instant,
    read: Instant,
    rounds: u32,
    every: u32,
}

impl MemoryGuard {
    /// For `nodes` nodes of `bytes` bytes in total on this host.
    pub(crate) fn new(nodes: usize, bytes: u64) -> Self {
        let now = Instant::now();
        let statm = File::open("/proc/self/statm").ok();
        Self {
            files: HostMemory::open().zip(statm),
            page: procfs::page_size(),
            nodes: nodes as u64,
            wanted: bytes,
            looked: now,
            read: now,
            rounds: 0,
            every: 1,
        }
    }

    /// The warning at the start of a run whose nodes will probably take `likely` bytes in total.
    pub(crate) fn doubts(&self, likely: u64) -> Option<String> {
        let room = self.files.as_ref()?.0.room()?;
        (likely > room.bytes.saturating_add(room.swap)).then(|| {
            format!(
                "{} nodes will probably use {} of memory, and this host has {room}; the run ends if memory gets short: lower nodes.memory, or run on more hosts",
                self.nodes,
                Bytes(likely),
            )
        })
    }

    /// Checks the memory, if a check is due.
    ///
    /// # Errors
    /// If memory is short.
    pub(crate) fn look(&mut self) -> Result<(), Shortage> {
        if !self.is_due() {
            return Ok(());
        }
        let Some((host, statm)) = &self.files else {
            return Ok(());
        };
        let (Some(room), Some(held)) = (host.room(), resident(statm, self.page)) else {
            return Ok(());
        };
        if is_short(&room, self.wanted.saturating_sub(held)) {
            return Err(Shortage {
                room,
                nodes: self.nodes,
                held,
                wanted: self.wanted,
            });
        }
        Ok(())
    }

    /// Short rounds are counted and long ones timed, as reading the clock is a considerable cost
    /// for a short round.
    fn is_due(&mut self) -> bool {
        self.rounds += 1;
        if self.rounds < self.every {
            return false;
        }
        let now = Instant::now();
        let is_short = now - self.read < INTERVAL / 8;
        self.every = if is_short {
            (self.every * 2).min(ROUNDS)
        } else {
            1
        };
        (self.rounds, self.read) = (0, now);
        let due = now - self.looked >= INTERVAL;
        if due {
            self.looked = now;
        }
        due
    }
}

/// True if guests that may take `more` bytes can exhaust the host's memory.
fn is_short(room: &Room, more: u64) -> bool {
    let left = room.bytes.saturating_add(room.swap);
    left < (room.total / PART).clamp(LEAST, MOST) && more > left
}

/// Bytes of memory used by this process.
fn resident(statm: &File, page: u64) -> Option<u64> {
    let bytes = read(statm).ok()?;
    let pages = std::str::from_utf8(&bytes).ok()?.split(' ').nth(1)?;
    pages.parse::<u64>().ok()?.checked_mul(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(bytes: u64, swap: u64) -> Room {
        Room {
            bytes,
            swap,
            total: 4 << 30,
            group: None,
        }
    }

    #[test]
    fn memory_is_short_when_guests_can_take_what_is_left() {
        let reserve = (4 << 30) / PART;
        assert!(!is_short(&room(reserve, 0), u64::MAX), "enough is left");
        assert!(is_short(&room(reserve - 1, 0), u64::MAX));
        assert!(!is_short(&room(reserve - 1, 1), u64::MAX), "there is swap");
        assert!(!is_short(&room(1 << 20, 0), 1 << 20), "they take no more");
    }

    #[test]
    fn more_than_the_host_has_is_doubted_from_the_start() {
        let guard = MemoryGuard::new(1 << 20, 1 << 60);
        let doubts = guard.doubts(1 << 59).unwrap();
        assert!(doubts.contains("1048576 nodes"), "{doubts}");
        assert_eq!(MemoryGuard::new(1, 1 << 20).doubts(1 << 20), None);
    }

    #[test]
    fn what_this_process_holds_is_known() {
        let statm = File::open("/proc/self/statm").unwrap();
        assert!(resident(&statm, procfs::page_size()).unwrap() > 100 << 10);
    }
}
