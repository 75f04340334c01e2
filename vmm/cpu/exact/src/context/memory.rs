//! Where a context stands in the host's memory.

use std::ops::{Deref, DerefMut};

use belljar_cpu::CpuError;
use vm_memory::MmapRegion;

use super::Context;

/// A context in a mapping of its own, which takes memory only as it is written: a vCPU uses but
/// a part of it, and an aligned box of zeros is written whole.
pub(crate) struct ContextMemory(MmapRegion);

impl ContextMemory {
    /// All zeros.
    ///
    /// # Errors
    /// When the host has no address space left.
    #[allow(unsafe_code)]
    pub(super) fn zeroed() -> Result<Self, CpuError> {
        let region = MmapRegion::new(size_of::<Context>());
        region.map(Self).map_err(|source| CpuError::Host {
            action: "map memory for what translated code needs",
            source: std::io::Error::other(source),
        })
    }
}

#[allow(unsafe_code)]
impl Deref for ContextMemory {
    type Target = Context;

    fn deref(&self) -> &Context {
        // SAFETY: the mapping is readable, as long as a context, and begins at a page, which is
        // more than it has to be aligned to. It begins as zeros, and every field is an integer or
        // an array of integers, for which all bytes are a value. Nobody else knows it but
        // translated code, which runs only while its owner is borrowed mutably.
        unsafe { &*self.0.as_ptr().cast() }
    }
}

#[allow(unsafe_code)]
impl DerefMut for ContextMemory {
    fn deref_mut(&mut self) -> &mut Context {
        // SAFETY: as above; the mapping can be written, and is borrowed mutably.
        unsafe { &mut *self.0.as_ptr().cast() }
    }
}
