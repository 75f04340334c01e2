//! Commands that make and start runs.
//!
//! Each turns its arguments into a scenario or a plan, starts it, and ends with the exit code of the run. Called by `main`.

/// `belljar agent`: a host's part in a run that another host started.
pub(crate) mod agent;
/// Runs that scenarios play in the background.
pub(in crate::command) mod background;
/// `belljar sbatch-script`: an unmodified batch script of Slurm on nodes.
pub(crate) mod batch;
/// `belljar bisect`: prints the first instruction at which two runs differ.
pub(crate) mod bisect;
/// `belljar boot`: arguments to a plan of one node, its end to an exit code.
pub(crate) mod boot;
/// `belljar check` and `belljar snapshot`.
pub(crate) mod check;
/// `belljar check-mpi`: a run and a check of its use of MPI.
pub(crate) mod check_mpi;
/// The end of a run: its directory's final name and its exit code.
pub(in crate::command) mod conclusion;
/// `belljar debug`: a run under gdb, forwards and backwards.
pub(crate) mod debug;
/// `belljar explore`: other orders of a job's messages.
pub(crate) mod explore;
/// `belljar watch` and `belljar console`.
pub(crate) mod look;
/// `belljar mpirun`: a program of the user's own on nodes, without a scenario.
pub(crate) mod mpirun;
/// `belljar new`: a scenario to start from.
pub(crate) mod new;
/// `belljar run`, `belljar resume` and `belljar checkpoint`.
pub(crate) mod run;
/// `belljar submit`, and functions shared with `belljar sweep`.
pub(crate) mod submit;
/// `belljar sweep`: runs of one scenario with all combinations of some values, and their table.
pub(crate) mod sweep;
