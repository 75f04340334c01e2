//! `belljar check-mpi`: runs a program or a scenario, and checks its use of MPI.
//!
//! The run is a process of its own, because a finished run can no longer open the files of images that name call sites. Its
//! output goes to standard error, so that standard output has the findings alone. Called by `main`.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command::results::trace::check::check_run;

/// Frames of a call site that the run records.
const FRAMES: &str = "trace.frames=4";
/// Recording of the program's accesses to buffers of operations.
const BUFFERS: &str = "trace.buffers=true";
/// Recording of the contents of datatypes.
const DATATYPES: &str = "trace.datatypes=true";
/// Recording of all calls, also if the scenario samples some.
const ALL_CALLS: &str = "trace.sample={}";
/// The end of a run directory's name before the run is complete.
const INCOMPLETE: &str = "incomplete";

/// Arguments of `belljar check-mpi`.
#[derive(Args)]
pub(crate) struct CheckMpiArguments {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    /// Do not watch buffers of operations in progress.
    ///
    /// The run is faster, and accesses of the program to such buffers are not found.
    #[arg(long)]
    no_buffers: bool,
    /// Results folder.
    ///
    /// The default is a new folder in `belljar-runs`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Scenario with options of run, or program with options of mpirun.
    ///
    /// A first word that ends in .toml is a scenario.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "PROGRAM|SCENARIO"
    )]
    program: Vec<String>,
}

/// `belljar check-mpi`.
pub(crate) fn check_mpi(arguments: &CheckMpiArguments) -> Result<ExitCode> {
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => unused_name()?,
    };
    let is_scenario = arguments
        .program
        .first()
        .is_some_and(|word| word.ends_with(".toml"));
    let mut command = Command::new(std::env::current_exe().context("cannot find belljar itself")?);
    match is_scenario {
        true => command.arg("run").args(&arguments.program),
        false => command.arg("mpirun"),
    };
    command.args(["--set", FRAMES, "--set", DATATYPES]);
    if is_scenario {
        command.args(["--set", ALL_CALLS]);
    }
    if !arguments.no_buffers {
        command.args(["--set", BUFFERS]);
    }
    command.arg("--out").arg(&out);
    if !is_scenario {
        command.args(&arguments.program);
    }
    // The run's tables are no findings.
    let errors = io::stderr().as_fd().try_clone_to_owned()?;
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::from(errors))
        .status()
        .context("cannot start the run")?;
    let incomplete = out.with_added_extension(INCOMPLETE);
    let directory = [out, incomplete].into_iter().find(|path| path.is_dir());
    match directory {
        Some(directory) => {
            let checked = check_run(&directory, arguments.json)?;
            Ok(match status.success() {
                true => checked,
                false => ExitCode::FAILURE,
            })
        }
        None => bail!("there is no run to check: it ended with {status}"),
    }
}

/// The first name of a run directory that is free.
fn unused_name() -> Result<PathBuf> {
    let runs = Path::new("belljar-runs");
    let is_free = |path: &Path| !path.exists() && !path.with_added_extension(INCOMPLETE).exists();
    let names = (1_u32..).map(|number| match number {
        1 => runs.join("check-mpi"),
        _ => runs.join(format!("check-mpi-{number}")),
    });
    let mut free = names.filter(|path| is_free(path));
    free.next().with_context(|| {
        format!(
            "no unused run name in {}; give one with --out",
            runs.display()
        )
    })
}
