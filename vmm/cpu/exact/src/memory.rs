//! Accesses to guest memory that translated code could not do by itself.
//!
//! An access is done whole or not at all. `run` comes here from exit stubs, `instructions` for operands.

/// One access: its pages, its faults, its devices, its bounce buffer.
pub(crate) mod access;
/// Pages laid side by side where groups' checks meet a seam.
pub(crate) mod beside;
/// How far memory continues from an address, for slots.
pub(crate) mod explore;
/// What a change of address space or of a page table forgets.
pub(crate) mod flush;
/// Accesses under a cache model.
pub(crate) mod lines;
/// Which bytes a masked vector access touches.
pub(crate) mod masked;
/// Slots that are filled too often.
pub(crate) mod refill;
