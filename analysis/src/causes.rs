//! Causes of a program's time: waiting, the critical path, efficiencies.
//!
//! They follow from matched operations and their times. Used by `together` and by `comparison`.

/// Efficiencies of parallel programs.
pub(crate) mod efficiency;
/// Ranks that cannot go on.
pub(crate) mod hang;
/// The chain of calls that determines how long a program took.
pub(crate) mod path;
/// Waiting of ranks for each other.
pub(crate) mod waiting;
