//! Accesses to guest memory beyond translated code's fast path.
//!
//! An access happens completely or not at all. `run` calls this from exit stubs, `instructions` for
//! operands.

/// One access: its pages, its faults, its devices, its bounce buffer.
pub(crate) mod access;
/// Cycle accounting: charges to a run's budget, and refunds.
pub(crate) mod accounting;
/// Second, adjacent mappings of pages at seams of group checks.
pub(crate) mod beside;
/// Watched buffers of processes.
pub(crate) mod buffers;
/// Contiguous memory around an address, for slots.
pub(crate) mod explore;
/// Invalidation after changes of the address space or of page tables.
pub(crate) mod flush;
/// Accesses under a cache model.
pub(crate) mod lines;
/// The bytes selected by the mask of a vector access.
pub(crate) mod masked;
/// Accesses under a processor model with caches.
pub(crate) mod misses;
/// The part of an access within a page.
pub(crate) mod piece;
/// Slots that are filled too often.
pub(crate) mod refill;
/// Watchpoints of a debugger.
pub(crate) mod watchpoints;
