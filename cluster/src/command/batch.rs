//! `belljar sbatch-script`: a batch script of Slurm's on nodes, as it is.
//!
//! Its `#SBATCH` lines become nodes and slots, files that it names come along, and all else is as with
//! `belljar mpirun`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_cluster::batch::{Job, Room};
use belljar_cluster::mpirun::choose::{Asked, name_in_guest};
use belljar_cluster::mpirun::compose::shell_word;
use belljar_cluster::mpirun::request::{Layout, Part};
use belljar_cluster::mpirun::{Binary, Mpi};
use belljar_cluster::scenario::quantity::Bytes;
use clap::Args;

use super::mpirun::{MachineArguments, Request, add, image, perform, take_in};

const MIB: u64 = 1 << 20;

/// Arguments of `belljar sbatch-script`.
#[derive(Args)]
pub(crate) struct BatchArguments {
    /// An option of sbatch's, instead of the script's own, such as `--sbatch=--nodes=4`; may be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    #[command(flatten)]
    machine: MachineArguments,
    /// The script.
    #[arg(value_name = "SCRIPT")]
    script: PathBuf,
    /// Its arguments.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    arguments: Vec<String>,
}

/// `belljar sbatch-script`.
pub(crate) fn sbatch_script(arguments: &BatchArguments) -> Result<ExitCode> {
    perform(&arguments.machine, &find(arguments)?)
}

/// Finds out all that the script takes.
fn find(arguments: &BatchArguments) -> Result<Request> {
    let script = &arguments.script;
    let text = fs::read(script).with_context(|| format!("cannot read {}", script.display()))?;
    let Ok(text) = String::from_utf8(text) else {
        bail!("{} is no script: it is not text", script.display());
    };
    let of_script = || format!("the batch script {}", script.display());
    let mut job = Job::parse(&script.display().to_string(), &text).with_context(of_script)?;
    for option in &arguments.sbatch {
        job.take_line(0, option)?;
    }
    let room = job.room().with_context(of_script)?;
    let mut files = BTreeMap::new();
    for wish in &arguments.machine.file {
        take_in(wish, &mut files)?;
    }
    let called = name_in_guest(script);
    add(&mut files, &called, script)?;
    for path in named_files(&text, &arguments.arguments) {
        add(&mut files, &name_in_guest(&path), &path)?;
    }
    let parts = programs(&files);
    let asked = Asked {
        parts: &parts,
        files: &files,
        folders: &[],
    };
    let choice = image(&arguments.machine, asked)?;
    for (name, path) in &choice.libraries {
        let name = format!("{}/{name}", belljar_cluster::mpirun::compose::LIBRARIES);
        add(&mut files, &name, path)?;
    }
    let name = job.name.clone().unwrap_or_else(|| called.clone());
    let words = arguments.arguments.iter().map(|word| shell_word(word));
    let command = std::iter::once(shell_word(&format!("./{called}"))).chain(words);
    Ok(Request {
        made_by: "belljar sbatch-script",
        command: command.collect::<Vec<_>>().join(" "),
        layout: Layout::alike(room.nodes, room.tasks_per_node),
        vcpus: vcpus(room),
        memory: job.memory.map(|mib| Bytes(mib.saturating_mul(MIB))),
        environment: room.variables(&name),
        name: plain(&name),
        cpus_per_rank: 1,
        notes: notes(&job),
        warnings: choice.warnings.clone(),
        files,
        choice,
    })
}

/// Processors of a node: those of its ranks.
fn vcpus(room: Room) -> u32 {
    room.tasks_per_node
        .saturating_mul(room.cpus_per_task)
        .clamp(1, 64)
}

/// Files here that words of a script or of its command line name, by paths below this folder.
fn named_files(text: &str, arguments: &[String]) -> Vec<PathBuf> {
    let ends = |c: char| c.is_whitespace() || "\"'`;|&()<>=$".contains(c);
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let words = lines.flat_map(|line| line.split(ends));
    let words = words.chain(arguments.iter().map(String::as_str));
    let paths = words.filter(|word| !word.is_empty()).map(Path::new);
    let below = |path: &&Path| path.is_relative() && !path.starts_with("..") && path.is_file();
    let mut found: Vec<PathBuf> = paths.filter(below).map(Path::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

/// Those of the files that are linked to MPI, as programs to choose an image for; a shell where there
/// are none.
fn programs(files: &BTreeMap<String, PathBuf>) -> Vec<Part> {
    let is_mpi = |path: &Path| {
        let binary = fs::read(path)
            .ok()
            .and_then(|bytes| Binary::read(&bytes[..]));
        binary.is_some_and(|binary| {
            let mut needed = binary.needed.iter();
            needed.any(|library| Mpi::of_library(library).is_some())
        })
    };
    let paths = files.values().filter(|path| is_mpi(path));
    let mut parts: Vec<Part> = paths
        .map(|path| Part::of(path.display().to_string()))
        .collect();
    if parts.is_empty() {
        parts.push(Part::of("sh".to_owned()));
    }
    parts
}

/// A name for a run directory.
fn plain(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.trim_start_matches('.') {
        "" => "batch".to_owned(),
        name => name.to_owned(),
    }
}

fn notes(job: &Job) -> Vec<String> {
    match job.passed_over.is_empty() {
        true => Vec::new(),
        false => vec![format!(
            "of the script's options these mean nothing here: {}",
            job.passed_over.join(" ")
        )],
    }
}
