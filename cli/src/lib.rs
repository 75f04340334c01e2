//! Requests of users as scenarios: programs, batch scripts, sweeps and job mixes; and examinations of this machine.
//!
//! The binary `belljar` parses arguments and prints results; the modules here can be embedded. All of them use [`belljar_cluster`]'s scenarios and plans.

/// Batch scripts with `#SBATCH` lines.
pub mod batch;
/// Abilities of this machine, and missing packages.
pub mod doctor;
/// Files of job mixes.
pub mod mix;
/// Programs of a user, without a scenario.
pub mod mpirun;
/// JSON Schemas of scenarios and of mixes.
pub mod schema;
/// One scenario under all combinations of some settings.
pub mod sweep;
