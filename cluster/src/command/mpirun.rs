//! `belljar mpirun`: a program of the user's own on nodes, without a scenario.
//!
//! It makes the scenario, and hands it on as `belljar run` would.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_cluster::mpirun::HostLoader;
use belljar_cluster::mpirun::choose::{self, Asked, Choice, Source, name_in_guest};
use belljar_cluster::mpirun::compose::{LIBRARIES, Naming, copied};
use belljar_cluster::mpirun::request::{self, Layout, Part, Wishes};
use belljar_cluster::plan::Plan;
use belljar_cluster::plan::error::PlanError;
use belljar_cluster::results::run_directory::{RunDirectory, SCENARIO_FILE};
use belljar_cluster::scenario::engine::EngineChoice;
use belljar_cluster::scenario::quantity::{Bytes, Duration};
use belljar_cluster::scenario::{Hosts, Scenario, Slurm, TraceBy};
use belljar_images::Recipe;
use clap::Args;

use super::output::{print, say};
use super::run;
use crate::HostArguments;

/// The scenario of a request.
mod draft;
/// What `belljar mpirun` calls a run, and the command that starts its ranks.
mod launch;
/// Options as users of MPICH's and Open MPI's `mpirun` write them.
mod words;

use launch::{command, name};

pub(crate) use words::plain;

/// Arguments of `belljar mpirun`.
#[derive(Args)]
pub(crate) struct MpirunArguments {
    /// Ranks of the (first) program; as many as there are slots when absent. Also -np.
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Ranks on each node, 1 when absent. Also -ppn and --npernode.
    #[arg(long, visible_aliases = ["ppn", "npernode"], value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks_per_node: Option<u32>,
    /// Nodes; as many as the ranks take when absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    nodes: Option<u32>,
    /// A file with a line for each node: NAME, NAME slots=K or NAME:K. Names mean nothing here:
    /// the first is node 0.
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    hostfile: Option<PathBuf>,
    /// A variable for all ranks, with this value or the one it has here. Also -genv NAME VALUE, and
    /// --mca NAME VALUE for OMPI_MCA_NAME.
    #[arg(short = 'x', value_name = "NAME[=VALUE]")]
    environment: Vec<String>,
    #[command(flatten)]
    machine: MachineArguments,
    /// Ranks always run as root on nodes; for those who are used to say so.
    #[arg(long, hide = true)]
    allow_run_as_root: bool,
    /// The program and its arguments; after a `:` another one, with its own -n, and so on.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "PROGRAM"
    )]
    program: Vec<String>,
}

/// What a run without a scenario is made of, besides what is run.
#[derive(Args)]
pub(super) struct MachineArguments {
    /// A file or folder for all nodes, in the folder where the program runs; may be repeated.
    #[arg(long, value_name = "PATH[=NAME]")]
    pub(super) file: Vec<String>,
    /// Files that every node hands out when the run is over, such as `*.dat` or `out/**`; may be
    /// repeated.
    #[arg(long, value_name = "PATTERN")]
    output: Vec<String>,
    /// Bandwidth and latency of the nodes' links, such as 100Gb/s,1us.
    #[arg(long, value_name = "BANDWIDTH,LATENCY")]
    network: Option<String>,
    /// The network's shape: star, tree, fat-tree, torus, dragonfly or a GraphML file; what it is made of
    /// by --set, such as `--set network.dimensions=[2,2]`.
    #[arg(long, value_name = "SHAPE")]
    topology: Option<String>,
    /// Memory of each node.
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Processors of each node; one for each of its ranks when absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    vcpus: Option<u32>,
    /// Virtual time after which it is given up, such as `10 s`.
    #[arg(long, value_name = "TIME")]
    limit: Option<Duration>,
    /// All randomness comes from it.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The recipe of the image to run on, instead of the one that fits best.
    #[arg(long, value_name = "RECIPE")]
    image: Option<PathBuf>,
    /// What carries the nodes.
    #[arg(long, value_enum)]
    engine: Option<EngineChoice>,
    /// Means by which MPI calls are seen.
    #[arg(long, value_enum, value_name = "MEANS")]
    trace_by: Option<TraceBy>,
    /// Another value for a key of the scenario, such as `trace.enabled=false`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Where results go; by default a new folder in `belljar-runs`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the scenario and what was found of the program, and run nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(super) host: HostArguments,
}

impl MachineArguments {
    /// Whether the scenario is to be printed alone.
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

/// What is to be run, with everything found.
pub(super) struct Request {
    /// What asks for it, in words.
    pub(super) made_by: &'static str,
    /// Of the run.
    pub(super) name: String,
    /// What node 0 runs.
    pub(super) command: String,
    pub(super) layout: Layout,
    /// Processors and memory of each node, where nothing else is said.
    pub(super) vcpus: u32,
    pub(super) memory: Option<Bytes>,
    pub(super) environment: BTreeMap<String, String>,
    /// Slurm on the nodes, where the run has it.
    pub(super) slurm: Option<Slurm>,
    pub(super) files: BTreeMap<String, PathBuf>,
    pub(super) choice: Choice,
    /// Words for the user.
    pub(super) notes: Vec<String>,
}

/// `belljar mpirun`.
pub(crate) fn mpirun(arguments: &MpirunArguments) -> Result<ExitCode> {
    perform(&arguments.machine, &find(arguments)?)
}

/// Makes the scenario of a request and runs it.
pub(super) fn perform(arguments: &MachineArguments, request: &Request) -> Result<ExitCode> {
    let mut draft = draft::draft(arguments, request)?;
    if let Some(means) = arguments.trace_by {
        draft.set(&format!("trace.by={}", means.name()))?;
    }
    for assignment in &arguments.set {
        draft.set(assignment)?;
    }
    let here = Path::new("scenario.toml");
    let text = draft.text(Naming::Original);
    let scenario = Scenario::parse(here, &text, &[])
        .context("the scenario that these words make cannot be")?;
    let plan = Plan::resolve(&scenario, here)?;
    for default in scenario.network.defaults_of_shape() {
        draft.set(&default)?;
    }
    for note in &request.notes {
        note!("note: {note}");
    }
    if arguments.dry_run {
        print(text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.host.quiet {
        for line in &request.choice.lines {
            note!("{line}");
        }
    }
    let directory = RunDirectory::create(arguments.out.as_deref(), &plan.name)?;
    let path = directory.path().with_extension("");
    directory.write("plan.txt", &format!("{plan}\n"))?;
    directory.write(SCENARIO_FILE, &draft.text(Naming::Copied))?;
    for (name, from) in &draft.files {
        directory.copy(from, &copied(name))?;
    }
    let inputs = draft.files.keys().map(|name| copied(name)).collect();
    let code = run::start(plan, directory, Hosts::default(), inputs, &arguments.host)?;
    say(format_args!(
        "its scenario: {0}/{SCENARIO_FILE}; change what you like and run it again with: belljar run {0}/{SCENARIO_FILE}",
        path.display()
    ))?;
    Ok(code)
}

/// Finds out all that a run takes.
fn find(arguments: &MpirunArguments) -> Result<Request> {
    let parts = request::parts(&arguments.program, arguments.ranks)?;
    let host_file = arguments.hostfile.as_ref().map(|path| {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the host file {}", path.display()))?;
        Ok::<_, anyhow::Error>(request::host_file(&text)?)
    });
    let wishes = Wishes {
        nodes: arguments.nodes,
        ranks_per_node: arguments.ranks_per_node,
        host_file: host_file.transpose()?,
    };
    let (layout, ranks) = request::layout(&parts, wishes)?;
    let mut files = BTreeMap::new();
    for wish in &arguments.machine.file {
        take_in(wish, &mut files)?;
    }
    let asked = Asked {
        parts: &parts,
        files: &files,
    };
    let choice = image(&arguments.machine, asked)?;
    for (program, part) in choice.programs.iter().zip(&parts) {
        match &program.source {
            Source::Host(path) => add(&mut files, &program.name, path)?,
            // An interpreter: what it runs is a file here.
            Source::Image => {
                let script = part.arguments.iter().find(|word| !word.starts_with('-'));
                if let Some(path) = script.map(Path::new).filter(|path| path.is_file())
                    && !path.is_absolute()
                {
                    add(&mut files, &name_in_guest(path), path)?;
                }
            }
        }
    }
    for (name, path) in &choice.libraries {
        add(&mut files, &format!("{LIBRARIES}/{name}"), path)?;
    }
    let mut environment = variables(&arguments.environment)?;
    for part in &parts {
        environment.extend(variables(&part.environment)?);
    }
    Ok(Request {
        made_by: "belljar mpirun",
        name: name(&choice, &parts, &files),
        command: command(&choice, &parts, &ranks),
        layout,
        vcpus: layout.ranks_per_node.min(64),
        memory: None,
        slurm: None,
        environment,
        notes: notes(&parts, &files),
        files,
        choice,
    })
}

/// The image that is named, or the one that fits best.
pub(super) fn image(arguments: &MachineArguments, asked: Asked<'_>) -> Result<Choice> {
    let host = HostLoader::of_host();
    let Some(path) = &arguments.image else {
        return Ok(choose::choose(&choose::recipes(), asked, &host)?);
    };
    let recipe = Recipe::load(path)?;
    let Some(image) = belljar_images::locate(&recipe)? else {
        let recipe = path.clone();
        return Err(PlanError::NoImage { recipe }.into());
    };
    Ok(choose::try_image(path, recipe.name(), image, asked, &host)?)
}

/// Adds a file under a name that no other file has.
pub(super) fn add(files: &mut BTreeMap<String, PathBuf>, name: &str, path: &Path) -> Result<()> {
    let full = std::path::absolute(path)?;
    let is_same = |other: &Path| match (fs::canonicalize(other), fs::canonicalize(&full)) {
        (Ok(other), Ok(this)) => other == this,
        _ => false,
    };
    match files.insert(name.to_owned(), full.clone()) {
        Some(other) if !is_same(&other) => bail!(
            "{} and {} would both be `{name}` on the nodes; give one another name with --file PATH=NAME, or start it by a path below this folder",
            other.display(),
            full.display()
        ),
        _ => Ok(()),
    }
}

/// Takes in a file, or all files of a folder.
pub(super) fn take_in(wish: &str, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let (path, name) = match wish.split_once('=') {
        Some((path, name)) if !Path::new(wish).exists() => (Path::new(path), name.to_owned()),
        _ => (Path::new(wish), name_in_guest(Path::new(wish))),
    };
    let data = fs::metadata(path).with_context(|| format!("--file {wish}: cannot read it"))?;
    if data.is_file() {
        return add(files, name.trim_matches('/'), path);
    }
    if !data.is_dir() {
        bail!("--file {wish}: it is neither a file nor a folder");
    }
    let entries = fs::read_dir(path).with_context(|| format!("--file {wish}: cannot list it"))?;
    for entry in entries {
        let entry = entry?;
        let Some(last) = entry.file_name().to_str().map(str::to_owned) else {
            bail!(
                "--file {wish}: {} has a name that is no text",
                entry.path().display()
            );
        };
        let name = match name.trim_matches('/') {
            "" => last,
            above => format!("{above}/{last}"),
        };
        let path = entry.path();
        match fs::metadata(&path) {
            Ok(data) if data.is_dir() && !entry.file_type()?.is_symlink() => {
                let inner = path.to_str().map(|path| format!("{path}={name}"));
                take_in(
                    &inner.with_context(|| format!("--file {wish}: a name that is no text"))?,
                    files,
                )?;
            }
            Ok(data) if data.is_file() => add(files, &name, &path)?,
            _ => note!("note: {} is no file and is left out", path.display()),
        }
    }
    Ok(())
}

/// Variables with values, of those that are named.
fn variables(wishes: &[String]) -> Result<BTreeMap<String, String>> {
    let pair = |wish: &String| match wish.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match env::var(wish) {
            Ok(value) => Ok((wish.clone(), value)),
            Err(_) => bail!("-x {wish}: it is not set here; write -x {wish}=VALUE"),
        },
    };
    wishes.iter().map(pair).collect()
}

/// Arguments that name files here which nodes will not have.
fn notes(parts: &[Part], files: &BTreeMap<String, PathBuf>) -> Vec<String> {
    let words = parts.iter().flat_map(|part| &part.arguments);
    let absent = words.filter(|word| {
        let path = Path::new(word);
        path.is_file() && !files.contains_key(&name_in_guest(path))
    });
    absent
        .map(|word| format!("{word} is a file here, and nodes do not have it: add --file {word}"))
        .collect()
}
