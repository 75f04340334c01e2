//! Accesses to guest memory that translated code could not do by itself.
//!
//! An access is done whole or not at all. `run` comes here from exit stubs, `instructions` for operands.

/// One access: its pages, its faults, its devices, its bounce buffer.
pub(crate) mod access;
/// What a run takes off its budget, and what it gives back.
pub(crate) mod accounting;
/// Pages laid side by side where groups' checks meet a seam.
pub(crate) mod beside;
/// How far memory continues from an address, for slots.
pub(crate) mod explore;
/// What a change of address space or of a page table forgets.
pub(crate) mod flush;
/// Accesses under a cache model.
pub(crate) mod lines;
/// Which bytes the mask of a vector access lets through.
pub(crate) mod masked;
/// What of an access lies within one page.
pub(crate) mod piece;
/// Slots that are filled too often.
pub(crate) mod refill;
