//! Models of traced MPI jobs, and traces of sizes that never ran.

/// Functions of ranks and size, fitted to measured values.
pub mod fit;
/// Numbers as functions of a rank.
pub mod relation;
/// The loops of sequences of calls.
pub mod structure;
