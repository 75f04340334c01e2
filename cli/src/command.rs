//! The subcommands: from parsed arguments to the library, and from its results to the terminal.
//!
//! Results go to standard output, notes and progress to standard error. Errors are `anyhow` here, and typed in the libraries.
//! Called by `main` after it parsed the arguments.

/// `belljar agent`: a host's part in a run that another host started.
pub(crate) mod agent;
/// Arguments that several commands have.
pub(crate) mod arguments;
/// Runs that scenarios play in the background.
mod background;
/// `belljar sbatch-script`: an unmodified batch script of Slurm on nodes.
pub(crate) mod batch;
/// `belljar bisect`: prints the first instruction at which two runs differ.
pub(crate) mod bisect;
/// `belljar boot`: arguments to a plan of one node, its end to an exit code.
pub(crate) mod boot;
/// `belljar cache`: entries of the user's cache.
pub(crate) mod cache;
/// `belljar check` and `belljar snapshot`.
pub(crate) mod check;
/// The end of a run: its directory's final name and its exit code.
mod conclusion;
/// `belljar doctor` and `belljar schema`.
pub(crate) mod doctor;
/// `belljar image`: guest images.
pub(crate) mod image;
/// `belljar watch` and `belljar console`.
pub(crate) mod look;
/// `belljar completions` and `belljar man`.
pub(crate) mod manual;
/// `belljar model`: models of programs, and runs that never were.
pub(crate) mod model;
/// `belljar mpirun`: a program of the user's own on nodes, without a scenario.
pub(crate) mod mpirun;
/// `belljar new`: a scenario to start from.
pub(crate) mod new;
/// Results on standard output.
mod output;
/// `belljar profile`: the functions that processors were running.
pub(crate) mod profile;
/// `belljar replay`: a traced job on another network.
pub(crate) mod replay;
/// `belljar report`: a run as an HTML page.
pub(crate) mod report;
/// `belljar run`, `belljar resume` and `belljar checkpoint`.
pub(crate) mod run;
/// `belljar runs`: an index of run directories.
pub(crate) mod runs;
/// `belljar simulate`: many jobs on one interconnect.
pub(crate) mod simulate;
/// `belljar submit`, and functions shared with `belljar sweep`.
pub(crate) mod submit;
/// `belljar sweep`: runs of one scenario with all combinations of some values, and their table.
pub(crate) mod sweep;
/// The user's terminal: notes, warnings, progress, colours and Ctrl-C.
pub(crate) mod terminal;
/// `belljar trace`, and the table that ends a run.
pub(crate) mod trace;

use std::process::ExitCode;

pub(crate) use output::fit_for_terminal;

/// The exit code of a command that passes on the exit code of its child or workload.
fn exit_code(code: i32) -> ExitCode {
    match u8::try_from(code) {
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    }
}
