//! The subcommands: from parsed arguments to the library, and from its results to the terminal.
//!
//! Results go to standard output, notes and progress to standard error. Errors are `anyhow` here, and typed in the libraries.
//! Called by `main` after it parsed the arguments.

/// Arguments that several commands have.
pub(crate) mod arguments;
/// Results on standard output.
mod output;
/// Commands that predict: replays, models, and job mixes.
pub(crate) mod predicting;
/// Commands that read run directories.
pub(crate) mod results;
/// Commands that make and start runs.
pub(crate) mod running;
/// Commands for this machine and this user: images, caches, checks, manual pages.
pub(crate) mod setup;
/// The user's terminal: notes, warnings, progress, colours and Ctrl-C.
pub(crate) mod terminal;

use std::process::ExitCode;

pub(crate) use output::fit_for_terminal;

/// The exit code of a command that passes on the exit code of its child or workload.
fn exit_code(code: i32) -> ExitCode {
    match u8::try_from(code) {
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    }
}
