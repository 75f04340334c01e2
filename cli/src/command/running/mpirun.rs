//! `belljar mpirun`: a program of the user's own on nodes, without a scenario.
//!
//! It makes a scenario and runs it as `belljar run` would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use belljar_cli::mpirun::choose::{self, ImageChoice, RequestedPrograms};
use belljar_cli::mpirun::compose::{Naming, copied};
use belljar_cli::mpirun::request::SlotLayout;
use belljar_cluster::plan::Plan;
use belljar_cluster::plan::error::PlanError;
use belljar_cluster::results::run_directory::{RunDirectory, SCENARIO_FILE};
use belljar_cluster::scenario::engine::EngineChoice;
use belljar_cluster::scenario::quantity::{Bytes, Duration};
use belljar_cluster::scenario::{Hosts, Scenario, Slurm, TraceBy};
use belljar_images::Recipe;
use belljar_workload::HostLoader;
use clap::Args;

use super::run;
use crate::command::arguments::HostArguments;
use crate::command::output::{print, say};

/// The scenario of a request.
mod draft;
/// Files that a run brings.
mod files;
/// All that a request takes: nodes, programs, files and variables.
mod find;
/// The name of a run of `belljar mpirun`, and the command that starts its ranks.
mod launch;
/// Options as users of MPICH's and Open MPI's `mpirun` write them.
mod words;

pub(in crate::command) use files::{add, take_in};
pub(crate) use words::plain;

/// Arguments of `belljar mpirun`.
#[derive(Args)]
pub(crate) struct MpirunArguments {
    /// Number of ranks of the (first) program. Also -np.
    ///
    /// The default is the number of slots.
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Ranks on each node (default 1). Also -ppn and --npernode.
    #[arg(long, visible_aliases = ["ppn", "npernode"], value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks_per_node: Option<u32>,
    /// Number of nodes.
    ///
    /// The default is as many as the ranks need.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    nodes: Option<u32>,
    /// Host file. Also -machinefile and -f.
    ///
    /// It has a line for each node or for each slot: NAME, NAME slots=K or NAME:K. Names mean nothing here: the first is node 0.
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    hostfile: Option<PathBuf>,
    /// Hosts as a list of NAME or NAME:K; repeatable.
    ///
    /// Commas separate them. They replace a host file.
    #[arg(long, value_name = "HOST,...", conflicts_with_all = ["nodes", "hostfile"])]
    host: Vec<String>,
    /// Rankfile, with lines `rank N=HOST slot=K`.
    #[arg(long, value_name = "FILE")]
    rankfile: Option<PathBuf>,
    /// Mapping of ranks to nodes (default slot).
    ///
    /// The policies are slot, node, seq, ppr:K:node and rankfile:file=FILE. The modifier :PE=K gives each rank K processors.
    #[arg(long, value_name = "POLICY")]
    map_by: Option<String>,
    /// Order of rank numbers: slot or node.
    ///
    /// The default is the order of mapping.
    #[arg(long, value_name = "POLICY")]
    rank_by: Option<String>,
    /// Processors of a node for each rank (default 1).
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus_per_rank: Option<u32>,
    /// Allow more ranks than slots.
    #[arg(long)]
    oversubscribe: bool,
    /// Working folder of the (first) program.
    ///
    /// It is below this folder, or in the image.
    #[arg(long, value_name = "DIR")]
    wdir: Option<String>,
    /// Mark each line of output with its rank. Also -l.
    #[arg(long)]
    tag_output: bool,
    /// Set a variable for the (first) program. Also -env NAME VALUE.
    ///
    /// Without a value the variable is copied from this environment.
    #[arg(short = 'x', value_name = "NAME[=VALUE]")]
    environment: Vec<String>,
    /// Set a variable for all programs. Also -genv NAME VALUE.
    ///
    /// --mca NAME VALUE sets OMPI_MCA_NAME.
    #[arg(long, value_name = "NAME[=VALUE]")]
    genv: Vec<String>,
    /// Accept options of other launchers without effect here.
    #[arg(long, hide = true, allow_hyphen_values = true)]
    ignored: Vec<String>,
    /// Refuse an unsupported option of another launcher.
    #[arg(long, hide = true, allow_hyphen_values = true)]
    refused: Vec<String>,
    #[command(flatten)]
    machine: MachineArguments,
    /// Accepted for compatibility: ranks always run as root on nodes.
    #[arg(long, hide = true)]
    allow_run_as_root: bool,
    /// Program and arguments; `:` separates further programs.
    ///
    /// Each further program has its own options, such as -n.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "PROGRAM"
    )]
    program: Vec<String>,
}

/// Options of a run without a scenario, except its programs.
#[derive(Args)]
pub(in crate::command) struct MachineArguments {
    /// File or folder for all nodes; repeatable.
    ///
    /// It is placed in the folder where the program runs.
    #[arg(long, value_name = "PATH[=NAME]")]
    pub(in crate::command) file: Vec<String>,
    /// Files that nodes return, such as `*.dat` or `out/**`; repeatable.
    #[arg(long, value_name = "PATTERN")]
    output: Vec<String>,
    /// Bandwidth and latency of links, such as 100Gb/s,1us.
    #[arg(long, value_name = "BANDWIDTH,LATENCY")]
    network: Option<String>,
    /// Topology: star, tree, fat-tree, torus, dragonfly or a GraphML file.
    ///
    /// Set its parameters with --set, such as `--set network.dimensions=[2,2]`.
    #[arg(long, value_name = "SHAPE")]
    topology: Option<String>,
    /// Generation of InfiniBand cards for the nodes: FDR, EDR, HDR or NDR.
    ///
    /// Messages use the cards, and Ethernet starts the processes. Set further keys with --set, such as `--set
    /// 'infiniband.topology="fat-tree"'`.
    #[arg(long, value_name = "SPEED", value_parser = ["FDR", "EDR", "HDR", "NDR"], ignore_case = true)]
    infiniband: Option<String>,
    /// Memory of each node.
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Processors of each node.
    ///
    /// The default is one for each of its ranks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    vcpus: Option<u32>,
    /// Processor that the nodes' time is that of: zen5, or a file that ends in .toml.
    ///
    /// It needs engine exact. Without it each instruction takes a cycle; docs/timing.md describes it.
    #[arg(long, value_name = "NAME")]
    processor: Option<String>,
    /// Stop after this virtual time, such as `10 s`.
    #[arg(long, value_name = "TIME")]
    limit: Option<Duration>,
    /// Seed of all randomness.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Image recipe.
    ///
    /// The default is the recipe that fits best.
    #[arg(long, value_name = "RECIPE")]
    image: Option<PathBuf>,
    /// Engine that carries the nodes.
    #[arg(long, value_enum)]
    engine: Option<EngineChoice>,
    /// Method to trace MPI calls.
    #[arg(long, value_enum, value_name = "MEANS")]
    trace_by: Option<TraceBy>,
    /// Override a scenario key, such as `trace.enabled=false`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Results folder.
    ///
    /// The default is a new folder in `belljar-runs`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the scenario and the analysed programs without running.
    #[arg(long)]
    dry_run: bool,
    /// Write a report into the run directory, as `report.html`.
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    pub(in crate::command) host: HostArguments,
}

impl MachineArguments {
    /// True if the command prints the scenario and runs nothing.
    pub(in crate::command) fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

/// A resolved request: layout, programs, files and variables.
pub(in crate::command) struct ResolvedRequest {
    /// The command that made the request, in words.
    pub(in crate::command) made_by: &'static str,
    /// Of the run.
    pub(in crate::command) name: String,
    /// The command of node 0.
    pub(in crate::command) command: String,
    pub(in crate::command) layout: SlotLayout,
    /// Default processors and memory of each node.
    pub(in crate::command) vcpus: u32,
    pub(in crate::command) memory: Option<Bytes>,
    pub(in crate::command) environment: BTreeMap<String, String>,
    /// Slurm on the nodes, if the run uses it.
    pub(in crate::command) slurm: Option<Slurm>,
    pub(in crate::command) files: BTreeMap<String, PathBuf>,
    pub(in crate::command) choice: ImageChoice,
    /// Processors of each rank.
    pub(in crate::command) cpus_per_rank: u32,
    /// Remarks on choices that the user did not make.
    pub(in crate::command) notes: Vec<String>,
    /// Warnings of options that have another effect than the user expects.
    pub(in crate::command) warnings: Vec<String>,
}

/// `belljar mpirun`.
pub(crate) fn mpirun(arguments: &MpirunArguments) -> Result<ExitCode> {
    perform(&arguments.machine, &find::find(arguments)?)
}

/// Makes the scenario of a request and runs it.
pub(in crate::command) fn perform(
    arguments: &MachineArguments,
    request: &ResolvedRequest,
) -> Result<ExitCode> {
    let mut draft = draft::draft(arguments, request)?;
    if let Some(means) = arguments.trace_by {
        draft.set(&format!("trace.by={}", means.name()))?;
    }
    for assignment in &arguments.set {
        draft.set(assignment)?;
    }
    let here = Path::new("scenario.toml");
    let text = draft.text(Naming::Original);
    let scenario =
        Scenario::parse(here, &text, &[]).context("these options make no valid scenario")?;
    for note in &request.notes {
        note!("note: {note}");
    }
    for warning in &request.warnings {
        warning!("{warning}");
    }
    let plan = Plan::resolve(&scenario, here)?;
    for default in scenario.network.defaults_of_shape() {
        draft.set(&default)?;
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
    let with = (&arguments.host, arguments.report);
    let code = run::start(plan, directory, Hosts::default(), inputs, with.0, with.1)?;
    say(format_args!(
        "scenario: {0}/{SCENARIO_FILE}; edit it and run it again with: belljar run {0}/{SCENARIO_FILE}",
        path.display()
    ))?;
    Ok(code)
}

/// The recipe for nodes with InfiniBand cards: it has both MPIs, and the libraries of the cards.
const INFINIBAND_RECIPE: &str = "bookworm-infiniband";

/// The given image, or the one that fits best.
pub(in crate::command) fn image(
    arguments: &MachineArguments,
    asked: RequestedPrograms<'_>,
) -> Result<ImageChoice> {
    let host = HostLoader::of_host();
    let with_drivers = arguments.infiniband.as_ref();
    let with_drivers = with_drivers.map(|_| PathBuf::from(INFINIBAND_RECIPE));
    let Some(path) = &arguments.image.clone().or(with_drivers) else {
        return Ok(choose::choose(&choose::recipes(), asked, &host)?);
    };
    let recipe = Recipe::load(path)?;
    let Some(image) = belljar_images::locate(&recipe)? else {
        let recipe = path.clone();
        return Err(PlanError::NoImage { recipe }.into());
    };
    Ok(choose::try_image(path, recipe.name(), image, asked, &host)?)
}
