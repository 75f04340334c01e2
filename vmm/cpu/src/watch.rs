//! Watching guest pages that hold translated code.
//!
//! Every write to guest memory through vm-memory (devices, loaders) marks its range here. Only
//! watched pages are recorded, and for a debugger's watchpoints the ranges of all writes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vm_memory::bitmap::{Bitmap, BitmapSlice, NewBitmap, WithBitmapSlice};

use crate::beside::BesidePages;

const PAGE_SHIFT: usize = 12;

#[derive(Debug, Default)]
struct WatchedPages {
    watched: Vec<AtomicU64>,
    written: Vec<AtomicU64>,
    any_written: AtomicBool,
    /// True if ranges of writes are recorded.
    records: AtomicBool,
    /// Offsets and lengths of writes since the last query.
    recorded: Mutex<Vec<(u64, u64)>>,
    beside: BesidePages,
}

/// One region's watched pages: a bit per page set by an engine, and a bit per watched page that was
/// written since the engine's last query.
#[derive(Clone, Debug, Default)]
pub struct CodeWatch {
    pages: Arc<WatchedPages>,
}

impl CodeWatch {
    /// Watches the page that contains `offset` of this region.
    pub fn watch(&self, offset: u64) {
        self.set(&self.pages.watched, offset, true);
    }

    /// Stops watching the page that contains `offset`.
    pub fn unwatch(&self, offset: u64) {
        self.set(&self.pages.watched, offset, false);
    }

    /// True if the page that contains `offset` is watched.
    pub fn is_watched(&self, offset: u64) -> bool {
        let page = (offset >> PAGE_SHIFT) as usize;
        self.pages
            .watched
            .get(page / 64)
            .is_some_and(|word| word.load(Ordering::Relaxed) >> (page % 64) & 1 == 1)
    }

    /// True if any page of the `bytes` bytes from `offset` on is watched.
    pub fn is_any_watched(&self, offset: u64, bytes: u64) -> bool {
        let first = (offset >> PAGE_SHIFT) as usize;
        let last = ((offset + bytes.max(1) - 1) >> PAGE_SHIFT) as usize;
        (first / 64..=last / 64).any(|index| {
            let low = !0u64 << if index == first / 64 { first % 64 } else { 0 };
            let high = !0u64
                >> if index == last / 64 {
                    63 - last % 64
                } else {
                    0
                };
            let word = self.pages.watched.get(index);
            word.is_some_and(|word| word.load(Ordering::Relaxed) & low & high != 0)
        })
    }

    /// Pages of the region with a second host address.
    pub fn beside(&self) -> &BesidePages {
        &self.pages.beside
    }

    /// True if a watched page was written since the last [`take_written`](Self::take_written).
    pub fn has_written(&self) -> bool {
        self.pages.any_written.load(Ordering::Relaxed)
    }

    /// Takes the offsets of watched pages written since the last call, in ascending order. Costs a
    /// single load if there are none.
    pub fn take_written(&self) -> Vec<u64> {
        if !self.pages.any_written.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let mut offsets = Vec::new();
        for (index, word) in self.pages.written.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let page = index * 64 + bits.trailing_zeros() as usize;
                offsets.push((page << PAGE_SHIFT) as u64);
                bits &= bits - 1;
            }
        }
        offsets
    }

    /// Records the ranges of all writes from now on, or no longer.
    pub fn record_writes(&self, on: bool) {
        self.pages.records.store(on, Ordering::Relaxed);
        self.take_recorded();
    }

    /// Takes the offsets and lengths of writes since the last call, in order.
    pub fn take_recorded(&self) -> Vec<(u64, u64)> {
        let recorded = self.pages.recorded.lock();
        std::mem::take(&mut *recorded.unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, words: &[AtomicU64], offset: u64, on: bool) {
        let page = (offset >> PAGE_SHIFT) as usize;
        if let Some(word) = words.get(page / 64) {
            let bit = 1u64 << (page % 64);
            if on {
                word.fetch_or(bit, Ordering::Relaxed);
            } else {
                word.fetch_and(!bit, Ordering::Relaxed);
            }
        }
    }
}

impl Bitmap for CodeWatch {
    fn mark_dirty(&self, offset: usize, len: usize) {
        if len == 0 {
            return;
        }
        if self.pages.records.load(Ordering::Relaxed) {
            let recorded = self.pages.recorded.lock();
            let mut recorded = recorded.unwrap_or_else(PoisonError::into_inner);
            recorded.push((offset as u64, len as u64));
        }
        let last = offset.saturating_add(len - 1) >> PAGE_SHIFT;
        for page in (offset >> PAGE_SHIFT)..=last {
            let start = (page << PAGE_SHIFT) as u64;
            if self.is_watched(start) {
                self.set(&self.pages.written, start, true);
                self.pages.any_written.store(true, Ordering::Release);
            }
        }
    }

    fn dirty_at(&self, offset: usize) -> bool {
        let page = offset >> PAGE_SHIFT;
        self.pages
            .written
            .get(page / 64)
            .is_some_and(|word| word.load(Ordering::Relaxed) >> (page % 64) & 1 == 1)
    }

    fn slice_at(&self, offset: usize) -> CodeWatchSlice {
        CodeWatchSlice {
            watch: self.clone(),
            base: offset,
        }
    }
}

impl NewBitmap for CodeWatch {
    fn with_len(len: usize) -> Self {
        let words = len.div_ceil(1 << PAGE_SHIFT).div_ceil(64);
        let zeroed = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Self {
            pages: Arc::new(WatchedPages {
                watched: zeroed(),
                written: zeroed(),
                any_written: AtomicBool::new(false),
                records: AtomicBool::new(false),
                recorded: Mutex::default(),
                beside: BesidePages::default(),
            }),
        }
    }
}

impl WithBitmapSlice<'_> for CodeWatch {
    type S = CodeWatchSlice;
}

/// A [`CodeWatch`] from an offset on, as vm-memory's slices require.
#[derive(Clone, Debug)]
pub struct CodeWatchSlice {
    watch: CodeWatch,
    base: usize,
}

impl CodeWatchSlice {
    /// The whole region's watch, regardless of the slice's offset.
    pub fn region(&self) -> &CodeWatch {
        &self.watch
    }
}

impl WithBitmapSlice<'_> for CodeWatchSlice {
    type S = Self;
}

impl BitmapSlice for CodeWatchSlice {}

impl Bitmap for CodeWatchSlice {
    fn mark_dirty(&self, offset: usize, len: usize) {
        self.watch.mark_dirty(self.base.saturating_add(offset), len);
    }

    fn dirty_at(&self, offset: usize) -> bool {
        self.watch.dirty_at(self.base.saturating_add(offset))
    }

    fn slice_at(&self, offset: usize) -> Self {
        Self {
            watch: self.watch.clone(),
            base: self.base.saturating_add(offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::guest_ram;
    use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};

    #[test]
    fn a_write_through_vm_memory_reports_watched_pages_only() {
        let ram = guest_ram(&[(0x10_0000, 0x10_0000)]).unwrap();
        let slice = ram.iter().next().unwrap().bitmap();
        let watch = slice.region();
        watch.watch(0x3000);
        ram.write_slice(&[1; 16], GuestAddress(0x10_1ff8)).unwrap();
        assert!(watch.take_written().is_empty());
        ram.write_slice(&[1; 16], GuestAddress(0x10_2ff8)).unwrap();
        assert_eq!(watch.take_written(), [0x3000]);
        assert!(watch.take_written().is_empty());
        watch.unwatch(0x3000);
        ram.write_slice(&[1; 16], GuestAddress(0x10_3000)).unwrap();
        assert!(watch.take_written().is_empty());
    }

    #[test]
    fn ranges_of_writes_are_recorded_on_request() {
        let ram = guest_ram(&[(0x10_0000, 0x10_0000)]).unwrap();
        let slice = ram.iter().next().unwrap().bitmap();
        let watch = slice.region();
        ram.write_slice(&[1; 4], GuestAddress(0x10_1000)).unwrap();
        assert!(watch.take_recorded().is_empty());
        watch.record_writes(true);
        ram.write_slice(&[1; 4], GuestAddress(0x10_1004)).unwrap();
        ram.write_slice(&[1; 9], GuestAddress(0x10_3ffc)).unwrap();
        assert_eq!(watch.take_recorded(), [(0x1004, 4), (0x3ffc, 9)]);
        ram.write_slice(&[1; 4], GuestAddress(0x10_1004)).unwrap();
        watch.record_writes(false);
        assert!(watch.take_recorded().is_empty());
    }
}
