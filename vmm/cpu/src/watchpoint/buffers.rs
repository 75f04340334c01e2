//! Watched buffers: ranges of processes' memory whose accesses by the processes themselves end runs, for a tracer.
//!
//! Unlike a watchpoint, a watched buffer counts only for instructions in user mode of its own address space: not for the kernel,
//! for devices, or for other mappings of its pages. Threads can be exempt, such as those inside of a library. The guest's
//! behaviour and time are the same with and without watched buffers. Set by nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::WatchKind;

/// A watched buffer of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchedBuffer {
    /// Linear address of the first byte.
    pub start: u64,
    /// Linear address after the last byte.
    pub end: u64,
    /// The accesses that count.
    pub kind: WatchKind,
}

/// The watched buffers of an address space, for lookups by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferRanges {
    /// In the order of their starts.
    buffers: Vec<WatchedBuffer>,
    /// For each buffer, the latest end of it and of those before it.
    reach: Vec<u64>,
}

impl BufferRanges {
    /// Creates the table of these buffers; empty ones are left out.
    pub fn new(mut buffers: Vec<WatchedBuffer>) -> Self {
        buffers.retain(|buffer| buffer.start < buffer.end);
        buffers.sort_unstable();
        buffers.dedup();
        let mut latest = 0;
        let reach = buffers.iter().map(|buffer| {
            latest = buffer.end.max(latest);
            latest
        });
        Self {
            reach: reach.collect(),
            buffers,
        }
    }

    /// Returns the buffers, in the order of their starts.
    pub fn buffers(&self) -> &[WatchedBuffer] {
        &self.buffers
    }

    /// True if this table has the buffer.
    pub fn contains(&self, buffer: &WatchedBuffer) -> bool {
        self.buffers.binary_search(buffer).is_ok()
    }

    /// Returns the buffers that have a byte from `start` to before `end`.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &WatchedBuffer> {
        let after = self.buffers.partition_point(|buffer| buffer.start < end);
        let near = self.reach[..after].iter().zip(&self.buffers[..after]).rev();
        near.take_while(move |(reach, _)| **reach > start)
            .map(|(_, buffer)| buffer)
            .filter(move |buffer| buffer.end > start)
    }
}

/// The watched buffers of a node.
#[derive(Clone, Debug, Default)]
pub struct WatchedBuffers {
    /// The buffers, by the guest-physical address of their address space's page tables.
    pub spaces: Arc<BTreeMap<u64, BufferRanges>>,
    /// Threads whose accesses do not count: their address space, and the base of segment FS.
    pub exempt: BTreeSet<(u64, u64)>,
}

/// An access to a watched buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferAccess {
    /// Address of the instruction.
    pub instruction: u64,
    /// Linear address of the first byte.
    pub linear: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// True for a store; an instruction that loads and stores counts as a store.
    pub write: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_found_behind_long_and_short_buffers() {
        let buffer = |start, end| WatchedBuffer {
            start,
            end,
            kind: WatchKind::Access,
        };
        let all = [
            buffer(0x100, 0x110),
            buffer(0x80, 0x400),
            buffer(0x200, 0x200),
            buffer(0x300, 0x308),
        ];
        let ranges = BufferRanges::new(all.to_vec());
        assert_eq!(ranges.buffers().len(), 3);
        let found = |start, end| {
            let starts = ranges.overlapping(start, end).map(|buffer| buffer.start);
            starts.collect::<Vec<u64>>()
        };
        assert_eq!(found(0, 0x80), Vec::<u64>::new());
        assert_eq!(found(0, 0x81), vec![0x80]);
        assert_eq!(found(0x10f, 0x110), vec![0x100, 0x80]);
        assert_eq!(found(0x110, 0x300), vec![0x80]);
        assert_eq!(found(0x307, 0x500), vec![0x300, 0x80]);
        assert_eq!(found(0x400, u64::MAX), Vec::<u64>::new());
        assert!(ranges.contains(&all[1]) && !ranges.contains(&all[2]));
    }
}
