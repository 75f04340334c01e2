//! `belljar new`: a scenario to start from.
//!
//! The new scenario runs unchanged. Existing files are never overwritten. Called by `main`
//! alone.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_cli::mpirun::choose;
use belljar_cli::mpirun::compose::quoted;
use belljar_cluster::scenario::Scenario;
use clap::Args;

use crate::command::output::say;

/// Arguments of `belljar new`.
#[derive(Args)]
pub(crate) struct NewArguments {
    /// Name of the scenario; the file is NAME.toml.
    #[arg(default_value = "scenario")]
    name: String,
}

/// The image of a new scenario, if there is a recipe of that name.
const RECIPE: &str = "bookworm-mpich";

/// `belljar new`.
pub(crate) fn new(arguments: &NewArguments) -> Result<ExitCode> {
    let name = arguments.name.trim_end_matches(".toml");
    let path = PathBuf::from(format!("{name}.toml"));
    let short = path.file_stem().and_then(|stem| stem.to_str());
    let Some(short) = short.filter(|short| !short.starts_with('.')) else {
        bail!("{name:?} is not a valid name of a scenario; write for example: belljar new ring");
    };
    let recipes = choose::recipes();
    let preferred = |recipe: &&PathBuf| recipe.file_stem() == Some(RECIPE.as_ref());
    let recipe = recipes.iter().find(preferred).or(recipes.first());
    let recipe = recipe.cloned().unwrap_or_else(|| RECIPE.into());
    let text = text(short, &recipe);
    Scenario::parse(&path, &text, &[])?;
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} exists already; choose another name, or remove it",
            path.display()
        ),
        file => file.with_context(|| format!("cannot write {}", path.display()))?,
    };
    if let Err(error) = file.write_all(text.as_bytes()) {
        // Half a scenario would only be in the way of the next try.
        let _ = fs::remove_file(&path);
        return Err(error).with_context(|| format!("cannot write {}", path.display()));
    }
    let path = path.display();
    say(format_args!(
        "{path}: look at it with belljar check {path}, run it with belljar run {path}"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The text of a scenario with the most common keys, each with a comment.
fn text(name: &str, recipe: &Path) -> String {
    let (name, recipe) = (quoted(name), quoted(&recipe.to_string_lossy()));
    format!(
        r#"# All keys: docs/scenario.md. Lines that begin with # are examples.
name = {name}
description = ""               # printed by belljar check
seed = 1                       # all randomness comes from it
# engine = "kvm"               # the host's virtualisation, instead of exact time

[image]
recipe = {recipe}

[nodes]
count = 2
memory = "512 MiB"             # of each
vcpus = 1                      # processors of each
clock = "2.6 GHz"
# level = "x86-64-v3"          # processors with AVX2; x86-64-v2 when absent

[network]
topology = "star"              # tree, fat-tree, torus, dragonfly, or {{ graphml = "FILE" }}
bandwidth = "10 Gb/s"          # of each node's link
latency = "1 us"
switch-latency = "300 ns"
# pcap = ["host0-switch0"]     # links to record

[workload]
# A shell script, run on node 0 in /root.
command = "mpiexec.hydra -n 2 hostname"
ranks-per-node = 1             # slots in the launcher's host file
limit = "60 s"                 # of virtual time, after which the run is given up

# [workload.environment]
# WORD = "yes"

# [workload.files]             # in /root of every node: the name there, and the file here
# "a.out" = "a.out"

[trace]
enabled = true                 # MPI calls are recorded: belljar trace stat DIR
# sample = {{ MPI_Iprobe = 1000 }}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_scenario_is_one_with_and_without_its_examples() {
        let text = text("my \"ring\"", Path::new("images/x.toml"));
        let path = Path::new("x.toml");
        let scenario = Scenario::parse(path, &text, &[]).unwrap();
        assert_eq!(scenario.name, "my \"ring\"");
        let example = |line: &str| match line.strip_prefix("# ") {
            Some(line) if line.contains(" = ") || line.starts_with('[') => line.to_owned(),
            _ => line.to_owned(),
        };
        let all: Vec<String> = text.lines().map(example).collect();
        let scenario = Scenario::parse(path, &all.join("\n"), &[]).unwrap();
        assert_eq!(scenario.workload.files.len(), 1);
    }
}
