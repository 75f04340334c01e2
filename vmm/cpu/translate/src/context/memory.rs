//! Where a context stands in the host's memory.
//!
//! A context begins at a line of the host's caches and is zero when made. Only `Context::mapped`
//! makes one; the mapping lives as long as the vCPU, so that the address in GS stays good.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use belljar_cpu::{CpuError, PAGE_SIZE};
use vm_memory::MmapRegion;

use super::Context;

/// Bytes of a line of the host's caches.
const LINE: usize = 64;
/// Lines of a page, which is what the first-level caches of x86-64 processors tell apart by.
const LINES: usize = PAGE_SIZE as usize / LINE;
/// Lines between the beginnings of one context and the next made; odd, so that all are used.
const STRIDE: usize = 13;

/// A context in a mapping of its own, which takes memory only as it is written: a vCPU uses but
/// a part of it, and an aligned box of zeros is written whole.
///
/// It begins somewhere in its first page, another one elsewhere: at the same place of a page,
/// the registers of nine nodes that take turns would be more than a cache has ways.
pub struct ContextMemory {
    region: MmapRegion,
    /// Where the context begins in it: a multiple of [`LINE`] below [`PAGE_SIZE`].
    start: usize,
}

impl ContextMemory {
    /// All zeros.
    ///
    /// # Errors
    /// When the host has no address space left.
    #[allow(unsafe_code)]
    pub(super) fn zeroed() -> Result<Self, CpuError> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let region = MmapRegion::new(size_of::<Context>() + PAGE_SIZE as usize);
        Ok(Self {
            region: region.map_err(|source| CpuError::Host {
                action: "map memory for what translated code needs",
                source: std::io::Error::other(source),
            })?,
            start: number % LINES * STRIDE % LINES * LINE,
        })
    }

    #[allow(unsafe_code)]
    fn pointer(&self) -> *mut Context {
        // SAFETY: the mapping is longer than a context by a page, and `start` is within a page.
        unsafe { self.region.as_ptr().add(self.start).cast() }
    }
}

const _: () = assert!(align_of::<Context>() <= LINE);

#[allow(unsafe_code)]
impl Deref for ContextMemory {
    type Target = Context;

    #[inline]
    fn deref(&self) -> &Context {
        // SAFETY: the mapping is readable, long enough, and the pointer a multiple of a line,
        // which is what a context is aligned to. It begins as zeros, and every field is an integer or
        // an array of integers, for which all bytes are a value. Nobody else knows it but
        // translated code, which runs only while its owner is borrowed mutably.
        unsafe { &*self.pointer() }
    }
}

#[allow(unsafe_code)]
impl DerefMut for ContextMemory {
    #[inline]
    fn deref_mut(&mut self) -> &mut Context {
        // SAFETY: as above; the mapping can be written, and is borrowed mutably.
        unsafe { &mut *self.pointer() }
    }
}
