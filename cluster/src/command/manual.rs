//! `belljar completions` and `belljar man`: what shells and `man` know of the command line.
//!
//! Both are made of the arguments' own description, so that they say what `--help` says. Called by `main`; packages have what they write.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use clap_complete::Shell;

use super::output::show;

#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManArguments {
    /// Where pages go, one for each command: `belljar.1`, `belljar-run.1` and so on.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

/// `belljar completions`: a script for a shell, on standard output.
pub(crate) fn completions(
    arguments: &CompletionsArguments,
    mut belljar: clap::Command,
) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut belljar, "belljar", &mut script);
    show(|out| out.write_all(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// `belljar man`: a page for each command.
pub(crate) fn man(arguments: &ManArguments, belljar: clap::Command) -> Result<ExitCode> {
    let out = &arguments.out;
    fs::create_dir_all(out)
        .and_then(|()| clap_mangen::generate_to(belljar, out))
        .with_context(|| format!("cannot write pages into {}", out.display()))?;
    Ok(ExitCode::SUCCESS)
}
