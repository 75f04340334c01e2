//! Sums over calls: statistics, traffic, call sites, cycles per instruction.
//!
//! Each is computed in one pass over the events. Used by `together`, and by the crate's users.

/// Cycles per instruction, and their parts.
pub(crate) mod cpi;
/// Traffic between ranks.
pub(crate) mod matrix;
/// Statistics by call site.
pub(crate) mod sites;
/// Sums over calls, ranks, sizes and intervals.
pub(crate) mod stat;
