//! The memory that holds a context.
//!
//! A context begins at a cache line of the host, and initially all bytes are zero. Only
//! `Context::mapped` makes one; the mapping lives as long as the vCPU, so the address in GS stays
//! valid.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use belljar_cpu::{CpuError, PAGE_SIZE};
use vm_memory::MmapRegion;

use super::Context;

/// Bytes of a cache line of the host.
const LINE: usize = 64;
/// Lines of a page, the number of sets in the first-level caches of x86-64 processors.
const LINES: usize = PAGE_SIZE as usize / LINE;
/// Lines between the starts of consecutive contexts; odd, so that all lines are used.
const STRIDE: usize = 13;

/// A context in a mapping of its own, which takes memory only for written pages: a vCPU uses just a
/// part of it, while an aligned box of zeros would be written entirely.
///
/// Contexts begin at different offsets in their first pages: at equal offsets, the registers of nine
/// nodes that take turns would exceed the ways of a cache.
pub struct ContextMemory {
    region: MmapRegion,
    /// Offset of the context in it: a multiple of [`LINE`] below [`PAGE_SIZE`].
    start: usize,
}

impl ContextMemory {
    /// A context of zeros.
    ///
    /// # Errors
    /// If the host has no address space left.
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

    #[inline]
    #[allow(unsafe_code)]
    fn pointer(&self) -> *mut Context {
        // SAFETY: the mapping is a page longer than a context, and `start` is within a page.
        unsafe { self.region.as_ptr().add(self.start).cast() }
    }
}

const _: () = assert!(align_of::<Context>() <= LINE);

#[allow(unsafe_code)]
impl Deref for ContextMemory {
    type Target = Context;

    #[inline]
    fn deref(&self) -> &Context {
        // SAFETY: the mapping is readable and long enough, and the pointer is a multiple of a line,
        // the context's alignment. It is initially zero, and every field is an integer or an array of
        // integers, for which all bytes are valid. Only translated code accesses it besides, which
        // runs only while its owner is borrowed mutably.
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
