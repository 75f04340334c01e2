//! Models of traced MPI jobs, and traces of sizes that never ran.
//!
//! A [`Model`] is learned from runs of several sizes: the loops of each class of ranks, whom calls reach as functions of the rank, how much they move and what the processor works as functions of
//! ranks and size. [`generate()`] makes the calls of any size of it. It knows nothing of networks: how long calls wait is for a replay to say. Called by `belljar model`.
//!
//! From top to bottom: `own_runs` learns a model and compares it with its runs; `generate` makes calls of a `model`; `learn`, below that, makes it of `run`s, by their `structure`s, `relation`s of ranks, and `values`, which are functions that `fit` finds.

/// Measurements of a model for Extra-P.
mod extra_p;
/// Functions of ranks and size, fitted to measured values.
pub mod fit;
/// Calls of a size that never ran.
mod generate;
/// What a traced program does, as a function of ranks and size.
mod model;
/// A model held against its own runs.
mod own_runs;
/// Numbers as functions of a rank.
mod relation;
/// A traced run as sequences of calls.
mod run;
/// The loops of sequences of calls.
mod structure;
/// Values of a call's instances as functions of ranks and size.
mod values;

pub use extra_p::{EXTRA_P_POINTS, Measurements, extra_p};
pub use generate::{GenerateError, Generated, MOST_CALLS, generate};
pub use model::{
    CallModel, Class, CollectiveModel, Completes, Counter, Function, LearnError, Model, ModelError,
    Role, Roles, Shape, Tags, Times, TransferModel, rounded,
};
pub use own_runs::learn;
pub use relation::{Grid, Place, Preference, Relation};
pub use run::{RunError, Traced};
pub use structure::{Node, Structure};
pub use values::{Division, Factor, PartOf, Rounding, Spread, Values};
