//! Translated code that is kept: a node's own, and the pool's, which nodes share.
//!
//! A block is found only for the physical address of its bytes and its mode, and is forgotten when they change.
//! `find` and `run` are the callers.

/// How often conditional jumps were taken, kept for traces made anew.
pub(crate) mod branch_profile;
/// What guest code is translated as: a block, a stub, a trace.
pub(crate) mod form;
/// Blocks by physical address, RIP and mode.
pub(crate) mod index;
/// What a vCPU that did not run has to hear of shared code.
pub(crate) mod news;
/// Which pages of RAM hold code, and whose blocks stand in them.
pub(crate) mod pages;
/// Code that the nodes of a run share.
pub(crate) mod pool;
/// A node's probes, and the pages that hold some.
pub(crate) mod probed;
/// Which code is translated relative to its page.
pub(crate) mod relative;
/// The store in the hands of one of a node's vCPUs.
pub(crate) mod share;
/// A node's own translated code: blocks, exit stubs and links.
pub(crate) mod store;
