//! `belljar sbatch-script`: a batch script submitted to Slurm on the nodes of a run.
//!
//! The nodes have the resources of its `#SBATCH` lines, and the run brings the files that it names. Otherwise it works as
//! `belljar mpirun` does.

/// Files that a script names.
mod named;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_cli::batch::{Job, split_words};
use belljar_cli::mpirun::choose::{RequestedPrograms, name_in_guest};
use belljar_cli::mpirun::compose::{quoted, shell_word};
use belljar_cli::mpirun::request::{ProgramRequest, SlotLayout};
use belljar_cluster::scenario::Slurm;
use belljar_cluster::scenario::quantity::Bytes;
use belljar_cluster::slurm::SETTINGS;
use belljar_workload::{Binary, Mpi};
use clap::Args;

use self::named::named_files;
use super::mpirun::{MachineArguments, ResolvedRequest, add, image, perform, take_in};

const MIB: u64 = 1 << 20;
/// The most processors of a node.
const MOST_CPUS: u32 = 64;

/// Arguments of `belljar sbatch-script`.
#[derive(Args)]
pub(crate) struct BatchArguments {
    /// Override an sbatch option, such as `--sbatch=--nodes=4`; repeatable.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    #[command(flatten)]
    machine: MachineArguments,
    /// Batch script to run.
    #[arg(value_name = "SCRIPT")]
    script: PathBuf,
    /// Arguments of the script.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    arguments: Vec<String>,
}

/// `belljar sbatch-script`.
pub(crate) fn sbatch_script(arguments: &BatchArguments) -> Result<ExitCode> {
    let batch = Batch::read(arguments)?;
    let code = perform(&arguments.machine, &batch.request(arguments)?)?;
    if arguments.machine.is_dry_run() {
        note!("{}", batch.preview()?);
    }
    Ok(code)
}

/// A script with its options.
struct Batch {
    text: String,
    job: Job,
    /// Its name on the nodes.
    called: String,
    /// Options of the command line, in words.
    options: Vec<String>,
}

impl Batch {
    fn read(arguments: &BatchArguments) -> Result<Self> {
        let script = &arguments.script;
        let text = fs::read(script).with_context(|| format!("cannot read {}", script.display()))?;
        let Ok(text) = String::from_utf8(text) else {
            bail!("{} is not a script: it is not UTF-8 text", script.display());
        };
        let of_script = || format!("the batch script {}", script.display());
        let mut job = Job::parse(&script.display().to_string(), &text).with_context(of_script)?;
        let mut options = Vec::new();
        for option in &arguments.sbatch {
            job.take_line(&format!("--sbatch={option}"), option)?;
            options.extend(split_words(option));
        }
        let called = name_in_guest(script);
        Ok(Self {
            text,
            job,
            called,
            options,
        })
    }

    /// The job's name.
    fn name(&self) -> String {
        let script = Path::new(&self.called).file_name();
        let script = script.map(|name| name.to_string_lossy().into_owned());
        self.job.name.clone().or(script).unwrap_or_default()
    }

    /// The run that the script makes, with all its files and options.
    fn request(&self, arguments: &BatchArguments) -> Result<ResolvedRequest> {
        let layout = self.job.layout();
        let layout = layout.with_context(|| format!("the batch script {}", self.called))?;
        let mut files = BTreeMap::new();
        for wish in &arguments.machine.file {
            take_in(wish, &mut files)?;
        }
        add(&mut files, &self.called, &arguments.script)?;
        for path in named_files(&self.text, &arguments.arguments)? {
            add(&mut files, &name_in_guest(&path), &path)?;
        }
        let parts = programs(&files);
        let asked = RequestedPrograms {
            parts: &parts,
            files: &files,
            folders: &[],
            by_launcher: false,
        };
        let choice = image(&arguments.machine, asked)?;
        for (name, path) in &choice.libraries {
            let name = format!("{}/{name}", belljar_cli::mpirun::compose::LIBRARIES);
            add(&mut files, &name, path)?;
        }
        let submit = format!("{SETTINGS}/submit");
        let script = format!("./{}", self.called);
        let words = std::iter::once(&submit).chain(&self.options);
        let words = words.chain([&script]).chain(&arguments.arguments);
        let command: Vec<String> = words.map(|word| shell_word(word)).collect();
        let mut notes = Vec::new();
        if layout.cpus > MOST_CPUS {
            notes.push(format!(
                "the job has {} processors on each node, and nodes have at most {MOST_CPUS}: tasks share processors",
                layout.cpus
            ));
        }
        Ok(ResolvedRequest {
            made_by: "belljar sbatch-script",
            command: command.join(" "),
            layout: SlotLayout::alike(layout.nodes, layout.tasks_per_node),
            vcpus: layout.cpus.clamp(1, MOST_CPUS),
            memory: layout.memory.map(|mib| Bytes(mib.saturating_mul(MIB))),
            environment: BTreeMap::new(),
            name: plain(&self.name()),
            slurm: Some(self.slurm()),
            cpus_per_rank: 1,
            notes,
            warnings: choice.warnings.clone(),
            files,
            choice,
        })
    }

    /// Slurm with all partitions, features and licences that the script names.
    fn slurm(&self) -> Slurm {
        let mut slurm = Slurm {
            features: self.job.features.clone(),
            ..Slurm::default()
        };
        if !self.job.partitions.is_empty() {
            slurm.partitions.clone_from(&self.job.partitions);
        }
        // Provides enough licences of each name for any request.
        let licenses = self.job.licenses.iter();
        let plenty = licenses.map(|name| name.split(':').next().unwrap_or(name));
        slurm.licenses = plenty.map(|name| format!("{name}:1000000")).collect();
        slurm
    }

    /// The variables that the script finds, for previews.
    fn preview(&self) -> Result<String> {
        let variables = self.job.variables(&self.name())?;
        let mut text = "note: the script has these variables, among others:".to_owned();
        for (name, value) in variables {
            text.push_str(&format!("\n{name} = {}", quoted(&value)));
        }
        Ok(text)
    }
}

/// The files that are linked to MPI, as programs by which an image is chosen; a shell if there are none.
fn programs(files: &BTreeMap<String, PathBuf>) -> Vec<ProgramRequest> {
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
    let mut parts: Vec<ProgramRequest> = paths
        .map(|path| ProgramRequest::of(path.display().to_string()))
        .collect();
    if parts.is_empty() {
        parts.push(ProgramRequest::of("sh".to_owned()));
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
