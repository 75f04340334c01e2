//! The structure of a program: event flow graphs, loops, phases.
//!
//! It follows from the order of calls, not from their times. Used by `causes` and `comparison`.

/// Event flow graphs.
pub(crate) mod flow;
/// Loops, their iterations and their times.
pub(crate) mod loops;
/// Phases: before, in and after a program's main loop.
pub(crate) mod phases;
