//! Time-independent traces of SimGrid, with a platform for their replay.
//!
//! The traces have amounts of work and no times: a reader needs rates. Used by `import` and by `belljar trace export`.

/// Reading of traces.
pub(crate) mod reader;
/// Writing of traces.
mod writer;

/// Begins the comment before a barrier that stands for a function's own synchronisation, and not for a call of `MPI_Barrier`.
/// SimGrid ignores comments.
const OWN_BARRIER: &str = "# The barrier of ";

pub use writer::{Amounts, Layout, write_hosts, write_platform, write_rank};
