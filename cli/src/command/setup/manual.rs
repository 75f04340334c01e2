//! `belljar completions` and `belljar man`: shell completions, manual pages and the page of all commands.
//!
//! All are generated from the arguments' descriptions, so that they agree with `--help`. Called by `main`; packages contain the
//! generated files.

/// Values that shells complete.
pub(crate) mod complete;
/// One meaning for one option name.
#[cfg(test)]
mod names;
/// The page of all commands.
mod reference;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use belljar_files::{Registration, write_file};
use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::command::output::show;

#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// Shell to complete for.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManArguments {
    /// Folder for the pages, such as `belljar.1` and `belljar-run.1`.
    #[arg(long, value_name = "DIR", required_unless_present = "reference")]
    out: Option<PathBuf>,
    /// Markdown file for all commands and options.
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
}

/// The names of the command and of its program.
const NAME: &str = "belljar";

/// `belljar completions`: a script for a shell, on standard output.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<ExitCode> {
    let shells = Shells::builtins();
    let shell = shells.completer(&arguments.shell.to_string());
    let shell = shell.context("this shell has no completions")?;
    let mut script = Vec::new();
    shell.write_registration(complete::VARIABLE, NAME, NAME, NAME, &mut script)?;
    show(|out| out.write_all(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// `belljar man`: a page for each command, and one of all commands.
pub(crate) fn man(arguments: &ManArguments, belljar: clap::Command) -> Result<ExitCode> {
    if let Some(file) = &arguments.reference {
        let page = reference::page(grouped(belljar.clone()));
        write_file(file, page)?;
    }
    if let Some(folder) = &arguments.out {
        pages(folder, belljar)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a manual page for each command into a folder.
fn pages(out: &Path, belljar: clap::Command) -> Result<()> {
    let failed = || format!("cannot write pages into {}", out.display());
    fs::create_dir_all(out).with_context(failed)?;
    let made = tempfile::tempdir().context("cannot make a temporary folder")?;
    let _registration = Registration::of_folder(made.path());
    clap_mangen::generate_to(belljar, made.path()).with_context(failed)?;
    for page in fs::read_dir(made.path()).with_context(failed)? {
        let page = page.with_context(failed)?;
        write_file(&out.join(page.file_name()), fs::read(page.path())?)?;
    }
    Ok(())
}

/// Subcommands by purpose, in the order of `belljar --help`.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Run programs",
        &[
            "run",
            "mpirun",
            "check-mpi",
            "explore",
            "debug",
            "sbatch-script",
            "new",
            "check",
            "submit",
            "sweep",
            "boot",
        ],
    ),
    (
        "Follow and continue runs",
        &[
            "watch",
            "console",
            "checkpoint",
            "resume",
            "snapshot",
            "runs",
        ],
    ),
    ("Understand runs", &["report", "trace", "profile", "bisect"]),
    (
        "Predict runs",
        &["replay", "place", "simulate", "model", "calibrate"],
    ),
    ("Images and caches", &["image", "cache"]),
    (
        "About belljar",
        &["doctor", "schema", "completions", "man", "help"],
    ),
];

/// The command line with its subcommands grouped in the help.
pub(crate) fn grouped(command: clap::Command) -> clap::Command {
    const WIDTH: usize = 14;
    let mut list = String::new();
    for (title, names) in GROUPS {
        list.push_str(&format!("\n{title}:\n"));
        for name in names {
            let own = command.find_subcommand(name);
            let about = own.and_then(clap::Command::get_about);
            let about = match about {
                Some(about) => first_sentence(&about.to_string()),
                None => "Print the help of a command".to_owned(),
            };
            list.push_str(&format!("  {name:<WIDTH$} {about}\n"));
        }
    }
    let template =
        format!("{{about}}\n\n{{usage-heading}} {{usage}}\n{list}\nOptions:\n{{options}}\n");
    command.help_template(template)
}

/// A command's short purpose, for lists of commands.
fn first_sentence(about: &str) -> String {
    let end = about.find([':', ';']).unwrap_or(about.len());
    let sentence = about.get(..end).unwrap_or(about);
    let end = sentence.find(". ").unwrap_or(sentence.len());
    sentence
        .get(..end)
        .unwrap_or(sentence)
        .trim_end_matches('.')
        .to_owned()
}
