//! Models of traced MPI jobs, and traces of sizes that never ran.
//!
//! A [`Model`] is learned from runs of several sizes. It has the loops of each class of ranks, peers as functions of the rank, and amounts and the processor's work as
//! functions of ranks and size. [`generate()`] generates the calls of any size from it. It has no network: a replay determines the waiting of calls. Used by `belljar
//! model`.
//!
//! From top to bottom: `own_runs` learns a model and compares it with its runs. `generate` generates calls from a `model`. `learn`, below that, creates it from `run`s,
//! by their `structure`s, `relation`s of ranks, and `values`, which are functions found by `fit`.

/// Measurements of a model for Extra-P.
mod extra_p;
/// Functions of ranks and size, fitted to measured values.
pub mod fit;
/// Generation of calls for a size that never ran.
mod generate;
/// A traced program as a function of ranks and size.
mod model;
/// Comparison of a model with its own runs.
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
    CallModel, CallTimeModel, Class, CollectiveModel, Completes, Counter, LearnError, Model,
    ModelError, ModelFunction, Role, Roles, Shape, Tags, TransferModel, rounded,
};
pub use own_runs::learn;
pub use relation::{Grid, Preference, Relation, RelationArguments};
pub use run::{RunError, Traced};
pub use structure::{Structure, StructureNode};
pub use values::{Division, Factor, PartOf, Rounding, Spread, Values};
