//! Storage of translated code: a node's own, and the pool's, which nodes share.
//!
//! A block is only found by the physical address of its bytes and its mode, and is dropped when they change.
//! `find` and `run` are the callers.

/// Run counts of conditional jumps' branches, kept for traces that are made again.
pub(crate) mod branch_profile;
/// The forms of translations: block, stub, trace.
pub(crate) mod form;
/// Blocks by physical address, RIP and mode.
pub(crate) mod index;
/// Changes of shared code that a paused vCPU must process.
pub(crate) mod news;
/// Pages of RAM that hold code, and the owners of their blocks.
pub(crate) mod pages;
/// Code that the nodes of a run share.
pub(crate) mod pool;
/// A node's probes, and the pages that contain some.
pub(crate) mod probed;
/// Recent results of lookups.
pub(crate) mod recent;
/// Code that is translated relative to its page.
pub(crate) mod relative;
/// A lease of the store for one of a node's vCPUs.
pub(crate) mod share;
/// A node's own translated code: blocks, exit stubs and links.
pub(crate) mod store;
