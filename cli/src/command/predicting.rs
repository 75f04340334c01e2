//! Commands that predict: replays, models, and job mixes.
//!
//! They read traces or models and start no nodes. Called by `main`.

/// `belljar model`: models of programs, and runs that never were.
pub(crate) mod model;
/// `belljar replay`: a traced job on another network.
pub(crate) mod replay;
/// `belljar simulate`: many jobs on one interconnect.
pub(crate) mod simulate;
