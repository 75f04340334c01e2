//! From a scenario to a run directory: plans, nodes, rounds and results.
//!
//! A [`Scenario`](scenario::Scenario) has the values of a file; a [`Plan`](plan::Plan) has all of them
//! resolved; a [`Run`](run::coordinator::Run) simulates the plan and fills a
//! [`RunDirectory`](results::run_directory::RunDirectory).
//!
//! Modules, from top to bottom, and the others that each imports:
//!
//! | module | contents | imports |
//! |---|---|---|
//! | [`boot`] | one node with any kernel | `plan`, `host`, `observe`, `scenario` |
//! | [`observe`] | progress, monitors and consoles of runs; state hashes | `run`, `plan`, `results`, `scenario` |
//! | [`hosts`] | one run on several hosts | `run`, `plan`, `results`, `scenario`, `observe` |
//! | [`run`] | rounds, host threads, checkpoints, the summary | `plan`, `host`, `results`, `scenario`, `hosts`, `observe` |
//! | [`plan`] | a resolved scenario | `scripts`, `slurm`, `shared_folder`, `host`, `results`, `scenario` |
//! | [`slurm`] | Slurm's settings on the nodes | `plan`, `scripts`, `scenario` |
//! | `shared_folder` | a folder that all nodes share | `plan`, `scenario` |
//! | [`host`] | memory of this host, and confined threads | `results`, `scenario` |
//! | [`results`] | the run directory | `scenario` |
//! | [`scripts`], [`scenario`] | files of users | none |
//!
//! `run`, `hosts` and `observe` import one another: a run reports its progress to other hosts and to monitors; an agent and
//! `bisect` start runs.

/// One node with any kernel.
pub mod boot;
/// This host: memory, and confined threads.
pub mod host;
/// One run on several hosts.
pub mod hosts;
/// Progress, monitors and consoles of runs.
pub mod observe;
/// A resolved scenario, and the parts of its nodes.
pub mod plan;
/// The run directory.
pub mod results;
/// The simulation of a plan.
pub mod run;
/// Scenario files.
pub mod scenario;
/// Shell scripts among a workload's files.
pub mod scripts;
/// A folder that all nodes of a run share.
pub(crate) mod shared_folder;
/// Slurm on the nodes of a run.
pub mod slurm;
