//! Finds the code that runs next: looks it up, translates it, shares it, or makes it hot.
//!
//! These functions do not affect the guest's behaviour, only its speed. `run` is the caller.

/// Frequently run blocks become traces.
pub(crate) mod hot;
/// The block at a RIP, translated if necessary.
pub(crate) mod lookup;
/// Processing of other vCPUs' changes to shared code.
pub(crate) mod news;
/// Prediction of a trace's return address.
pub(crate) mod prediction;
/// Probes in user code, and returns of probed calls.
pub(crate) mod probed;
/// Code that is translated once for all mappings of its page.
pub(crate) mod relative;
/// Code of the pool for a page.
pub(crate) mod shared;
/// The sequence of blocks in a trace.
pub(crate) mod trace;
