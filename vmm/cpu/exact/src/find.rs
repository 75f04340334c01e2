//! Which code runs next: found, translated, shared, or made hot.
//!
//! Nothing here changes what the guest does, only how fast. `run` is the caller.

/// Blocks that run often become traces.
pub(crate) mod hot;
/// The block at a RIP, translated if need be.
pub(crate) mod lookup;
/// Catching up with what other vCPUs did to shared code.
pub(crate) mod news;
/// Where a trace's return leads, predicted.
pub(crate) mod prediction;
/// Users' code that reaches a probe, or returns from one.
pub(crate) mod probed;
/// Code that is translated once for all places where its page is mapped.
pub(crate) mod relative;
/// A page's code, from the pool.
pub(crate) mod shared;
/// Which blocks follow one another in a trace.
pub(crate) mod trace;
