//! Scenario to run directory: plans, rounds, and what the `belljar` command does.
//!
//! A [`Scenario`](scenario::Scenario) is what a file says; a [`Plan`](plan::Plan) is
//! that resolved; a [`Run`](run::coordinator::Run) carries it out and fills a
//! [`RunDirectory`](results::run_directory::RunDirectory).
//!
//! The rooms, from top to bottom, and which others each imports:
//!
//! | room | what is in it | imports |
//! |---|---|---|
//! | [`sweep`], [`boot`], [`doctor`], [`mix`] | what commands do besides runs | those below |
//! | [`observe`] | runs looked at; a run's state hashes | `run`, `plan`, `results`, `scenario` |
//! | [`hosts`] | one run on several hosts | `run`, `plan`, `results`, `scenario`, `observe` |
//! | [`run`] | rounds, host threads, checkpoints, the summary | `plan`, `host`, `results`, `scenario`, `hosts`, `observe` |
//! | [`plan`] | a scenario resolved | `mpirun`, `batch`, `host`, `results`, `scenario` |
//! | [`mpirun`] | programs without a scenario; what is in a guest's root | `scenario` |
//! | [`host`] | this host's memory, and threads that are confined | `results`, `scenario` |
//! | [`results`] | what a run leaves | `scenario` |
//! | [`batch`], [`scenario`] | what files say | none |
//!
//! So `scenario` and `results` know nobody above them. `run`, `hosts` and `observe` know one another: a run tells other
//! hosts, and those who look, how far it is; an agent and `bisect` make runs of their own.

/// Batch scripts as Slurm's users have them.
pub mod batch;
/// One node with any kernel.
pub mod boot;
/// What this machine can do.
pub mod doctor;
/// This host: memory, and confined threads.
pub mod host;
/// A run on several hosts.
pub mod hosts;
/// Many jobs on one machine, as a file says them.
pub mod mix;
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
/// Slurm on the nodes of a run.
pub mod slurm;
/// One scenario under all combinations of some settings.
pub mod sweep;
