//! Scenario to run directory: plans, rounds, and what the `belljar` command does.
//!
//! A [`Scenario`](scenario::Scenario) is what a file says; a [`Plan`](plan::Plan) is
//! that resolved; a [`Run`](run::coordinator::Run) carries it out and fills a
//! [`RunDirectory`](results::run_directory::RunDirectory). So data flows from room to room: `scenario`, `plan`,
//! `run`, `results`; `observe` looks at runs, `hosts` spreads one over machines, and what stands next to the
//! rooms makes scenarios of something else, or does without one.

/// Batch scripts as Slurm's users have them.
pub mod batch;
/// One node with any kernel.
pub mod boot;
/// What this machine can do.
pub mod doctor;
/// A run on several hosts.
pub mod hosts;
/// Programs of the user's own, without a scenario.
pub mod mpirun;
/// Runs looked at.
pub mod observe;
/// A scenario resolved, and what nodes are made of.
pub mod plan;
/// What a run leaves.
pub mod results;
/// A run carried out.
pub mod run;
/// A scenario as its file says it.
pub mod scenario;
/// One scenario under all combinations of some settings.
pub mod sweep;
