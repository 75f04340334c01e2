//! The `belljar` command.
//!
//! Standard output is results; what happens meanwhile is told on standard error.
#![allow(clippy::print_stderr)]

use std::path::PathBuf;
use std::process::ExitCode;

use belljar_cluster::scenario::engine::EngineChoice;
use belljar_cluster::scenario::quantity::{Bytes, Duration, Rate};
use belljar_cluster::scenario::{LaunchKind, TraceBy};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

/// Writes a line on standard error, unless nothing but results, warnings and errors is wanted.
macro_rules! note {
    ($($line:tt)*) => {
        if $crate::command::terminal::notes::are_wanted() {
            let line = format!($($line)*);
            $crate::command::terminal::progress::above(|| eprintln!("{line}"));
        }
    };
}

/// Writes a warning on standard error.
macro_rules! warning {
    ($($line:tt)*) => {
        $crate::command::terminal::colour::warning_line(&format!($($line)*))
    };
}

/// The subcommands: from parsed arguments to the library, and from its results to the terminal.
mod command;

#[derive(Parser)]
#[command(
    name = "belljar",
    version,
    about = "A cluster under glass: unmodified Linux nodes and MPI programs in virtual time"
)]
struct Arguments {
    /// No progress and no notes: only results, warnings and errors.
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Colour warnings, errors and what stands out in results.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    color: clap::ColorChoice,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario and fill a run directory.
    Run(RunArguments),
    /// Run a program of your own on nodes, as mpirun would, without a scenario.
    #[command(visible_alias = "mpiexec")]
    Mpirun(Box<command::mpirun::MpirunArguments>),
    /// Run a batch script with #SBATCH lines, as it is.
    SbatchScript(command::batch::BatchArguments),
    /// Write a scenario to start from.
    New(command::new::NewArguments),
    /// Run a scenario as a job of Slurm, follow it, and tell where its run directory is.
    Submit(command::submit::SubmitArguments),
    /// Run a scenario under all combinations of some settings, as an array of jobs where
    /// there is Slurm, and make one table of the results.
    Sweep(command::sweep::SweepArguments),
    /// Go on with a run that was broken off, from its last checkpoint.
    Resume(ResumeArguments),
    /// Have a run that is under way keep a checkpoint of all of it.
    Checkpoint(CheckpointArguments),
    /// Boot the node of which a scenario's nodes are clones, and keep it; prints where.
    Snapshot(SnapshotArguments),
    /// Boot any kernel on one node, its serial console on standard output.
    Boot(BootArguments),
    /// Name the first instruction at which two runs with --state-hash differ; ends with 2
    /// when they do, with 0 when they do not.
    Bisect(BisectArguments),
    /// Show a run that is under way: nodes, speed, MPI calls, links, a console; of one that ended,
    /// its figures.
    Watch(WatchArguments),
    /// Attach to the serial console of a node of a run that is under way, both ways. What is typed
    /// becomes part of the run, and is kept in its input.log.
    Console(ConsoleArguments),
    /// Do a host's part in a run of several; `belljar run` starts it.
    #[command(hide = true)]
    Agent,
    /// Print what a scenario comes to, without running it.
    Check(CheckArguments),
    /// Tell what this machine can do and what to install.
    Doctor(JsonArguments),
    /// Print a JSON Schema of scenarios or mixes, for editors.
    #[command(after_help = "Example: belljar schema > scenario.schema.json")]
    Schema(SchemaArguments),
    /// List run directories: name, age, outcome.
    Runs(command::runs::RunsArguments),
    /// Traces of MPI calls.
    #[command(subcommand)]
    Trace(command::trace::TraceCommand),
    /// Say what processors were doing, by samples: functions by their shares, folded stacks, a flame graph. The run must have
    /// taken samples: --set profile.every=100us.
    Profile(command::profile::ProfileArguments),
    /// Write what is known of a run into one HTML file, which opens in any browser without a network; of two runs, side by side.
    Report(command::report::ReportArguments),
    /// Play a traced run again on another network, another placement or other processors, without guests: how long would it
    /// take? Without options, on the network on which it was traced.
    #[command(
        after_help = "Example: belljar replay belljar-runs/hpl-4 --set network.latency='20 us' --model flow"
    )]
    Replay(command::replay::ReplayArguments),
    /// Search where a traced run's ranks are best placed on a network, and print what each placement would gain.
    #[command(
        after_help = "Example: belljar place belljar-runs/hpl-4 --topology torus --set network.dimensions=[2,2] --out best"
    )]
    Place(command::replay::place::PlaceArguments),
    /// Simulate many jobs on one interconnect: schedulers, selections of hosts, mappings and routings, and what links carry.
    #[command(after_help = "Example: belljar simulate scenarios/mix.toml --out mix")]
    Simulate(command::simulate::SimulateArguments),
    /// Make a model of a program from traced runs of several sizes, and traces of sizes that never ran.
    #[command(subcommand)]
    Model(command::model::ModelCommand),
    /// Guest images.
    #[command(subcommand)]
    Image(ImageCommand),
    /// List or remove images, snapshots and other files kept in the cache.
    #[command(subcommand)]
    Cache(command::cache::CacheCommand),
    /// Print a script that completes belljar's words in a shell.
    #[command(
        after_help = "Example: belljar completions bash > ~/.local/share/bash-completion/completions/belljar"
    )]
    Completions(command::manual::CompletionsArguments),
    /// Write manual pages.
    #[command(after_help = "Example: belljar man --out ~/.local/share/man/man1")]
    Man(command::manual::ManArguments),
}

/// Of commands whose results are a table and nothing else.
#[derive(Args)]
struct JsonArguments {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct SchemaArguments {
    /// The files that it describes.
    #[arg(value_enum, default_value_t)]
    of: SchemaOf,
}

/// Files that have a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SchemaOf {
    /// Scenarios, for `belljar run`.
    #[default]
    Scenario,
    /// Mixes, for `belljar simulate`.
    Mix,
}

#[derive(Args)]
struct ScenarioArguments {
    /// The scenario's file.
    scenario: PathBuf,
    /// Number of nodes, instead of the scenario's.
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Another value for a key of the scenario, such as `trace.enabled=false`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Args)]
struct CheckArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Write the disk that hands nodes the workload here, a tar archive.
    #[arg(long, value_name = "FILE")]
    run_disk: Option<PathBuf>,
    #[command(flatten)]
    hosts: HostsArguments,
}

#[derive(Args)]
struct RunArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Where results go; by default a new folder in `belljar-runs`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where in the network ranks are, the node of each rank a line, as `belljar place` writes it: nodes come to these places.
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// Links to record as pcapng, such as `host0-switch0`, or `all`.
    #[arg(long, value_name = "LINK")]
    pcap: Vec<String>,
    /// Files that every node hands out when the run is over, such as `*.dat` or `out/**`; instead of
    /// the scenario's workload.outputs.
    #[arg(long, value_name = "PATTERN")]
    output: Vec<String>,
    /// Means by which MPI calls are seen, instead of the scenario's.
    #[arg(long, value_enum, value_name = "MEANS")]
    trace_by: Option<TraceBy>,
    /// Boot every node by itself instead of cloning one that booted.
    #[arg(long, conflicts_with = "snapshot")]
    boot_each: bool,
    /// Clone this snapshot's node, which must be of the scenario's kind.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Write hashes of every node's state into `state/` every N instructions, for
    /// `belljar bisect`. Each takes a pass over the node's memory.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    state_hash: Option<u64>,
    /// Write report.html into the run directory, too: what `belljar report` writes.
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    hosts: HostsArguments,
    #[command(flatten)]
    host: HostArguments,
}

/// Which hosts carry out a run.
#[derive(Args)]
struct HostsArguments {
    /// Hosts that run the nodes, instead of the scenario's.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Nodes that a host is to run, such as `a=0-3,7`, more than once for several.
    #[arg(long, value_name = "HOST=NODES")]
    place: Vec<String>,
    /// How agents are started on them, instead of the scenario's `hosts.launch`.
    #[arg(long, value_enum)]
    launch: Option<LaunchKind>,
}

/// How this host carries out a run.
#[derive(Args)]
struct HostArguments {
    /// Host threads, on each host; results do not depend on it.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// No progress and no notes: only results, warnings and errors.
    #[arg(long, short)]
    quiet: bool,
    /// Progress as a line each second, where standard error is no terminal, too.
    #[arg(long, conflicts_with = "quiet")]
    progress: bool,
    /// No seccomp filter around threads that run guests: only for guests you trust.
    #[arg(long)]
    no_sandbox: bool,
}

#[derive(Args)]
struct ResumeArguments {
    /// The run's directory, with or without `.incomplete`.
    directory: PathBuf,
    /// Bring out the files of workload.outputs as they were at the newest checkpoint, and run no
    /// further.
    #[arg(long)]
    collect: bool,
    /// Where this host has the recipe of the run's image, if elsewhere.
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
    #[command(flatten)]
    hosts: HostsArguments,
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Args)]
struct CheckpointArguments {
    /// The run's directory, with or without `.incomplete`.
    directory: PathBuf,
}

#[derive(Args)]
struct WatchArguments {
    /// The run's directory, with or without `.incomplete`.
    directory: PathBuf,
    /// Print one screen as text and leave.
    #[arg(long)]
    once: bool,
}

#[derive(Args)]
struct ConsoleArguments {
    /// The run's directory, with or without `.incomplete`.
    directory: PathBuf,
    /// The node.
    node: u32,
    /// Let virtual time go as fast as it can; otherwise it is no faster than real time while
    /// somebody is attached.
    #[arg(long)]
    fast: bool,
    /// Have virtual time wait at first; Ctrl-A p lets it continue.
    #[arg(long)]
    pause: bool,
}

#[derive(Args)]
struct SnapshotArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// The file to write; by default the one that runs of such nodes look for.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// No seccomp filter around the thread that runs the guest: only for guests you trust.
    #[arg(long)]
    no_sandbox: bool,
}

#[derive(Args)]
struct BisectArguments {
    /// The directory of a run with --state-hash.
    run_a: PathBuf,
    /// The directory of another, with the same number of nodes and the same N.
    run_b: PathBuf,
    /// No progress and no notes: only results, warnings and errors.
    #[arg(long, short)]
    quiet: bool,
    /// No seccomp filter around threads that run guests: only for guests you trust.
    #[arg(long)]
    no_sandbox: bool,
}

#[derive(Args)]
struct BootArguments {
    /// What carries the node: the translator, the host's virtualisation, or that where it
    /// works.
    #[arg(long, value_enum, default_value_t)]
    engine: EngineChoice,
    /// A bzImage, an ELF file (Linux, or by its PVH note), or a multiboot file.
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// The initial RAM disk, or multiboot's module.
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// Words for the kernel's command line, after the console's; may be repeated.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// The node's memory.
    #[arg(long, value_name = "SIZE", default_value = "512 MiB")]
    memory: Bytes,
    /// Processors, at most 64.
    #[arg(long, value_name = "N", default_value_t = 1)]
    vcpus: u32,
    /// How long each of several processors runs before it is the next one's turn; 5 us when
    /// absent, and 1 ms under engine kvm.
    #[arg(long, value_name = "TIME")]
    slice: Option<Duration>,
    /// The processors' clock.
    #[arg(long, value_name = "RATE", default_value = "2.6 GHz")]
    clock: Rate,
    /// The processor's level, x86-64-v1 to x86-64-v4.
    #[arg(long, value_name = "LEVEL", default_value = "x86-64-v2")]
    level: String,
    /// An extension besides the level, such as `aes`; may be repeated.
    #[arg(long, value_name = "NAME")]
    extension: Vec<String>,
    /// Give up after this virtual time, such as `30 s`.
    #[arg(long, value_name = "TIME")]
    limit: Option<Duration>,
    /// Add a test device: writing VALUE to port 0xf4 ends with status (VALUE << 1) | 1.
    #[arg(long)]
    exit_device: bool,
    /// A disk image, /dev/vda and on; what the guest writes to it is not kept.
    #[arg(long, value_name = "FILE")]
    disk: Vec<PathBuf>,
    /// Type nothing into the guest: such a run repeats to the cycle.
    #[arg(long)]
    no_input: bool,
    /// No seccomp filter around the thread that runs the guest: only for guests you trust.
    #[arg(long)]
    no_sandbox: bool,
}

#[derive(Subcommand)]
enum ImageCommand {
    /// Build the image of a recipe into the cache.
    Build(BuildArguments),
    /// List the built-in recipes, and whether their images are built.
    List(JsonArguments),
    /// Read all of a built image from the disk and compare it with its digests, which runs do only for
    /// files that were written to since.
    Verify {
        /// The recipe's file, or the name of a built-in one.
        #[arg(default_value = "bookworm-mpich")]
        recipe: PathBuf,
    },
}

#[derive(Args)]
struct BuildArguments {
    /// The recipe's file, or the name of a built-in one.
    #[arg(default_value = "bookworm-mpich")]
    recipe: PathBuf,
    /// Refuse packages that are not those of the recipe's lock.
    #[arg(long, conflicts_with = "keep_lock")]
    locked: bool,
    /// Leave the recipe's lock as it is; the image's folder has its own.
    #[arg(long)]
    keep_lock: bool,
    /// Show what the tools print.
    #[arg(long, short)]
    verbose: bool,
}

fn main() -> ExitCode {
    command::manual::complete::answer(|| command::manual::grouped(Arguments::command()));
    let words = command::mpirun::plain(std::env::args_os());
    let matches = command::manual::grouped(Arguments::command()).get_matches_from(words);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    command::terminal::colour::choose(arguments.color);
    command::terminal::notes::tell(arguments.quiet);
    if let Err(error) = command::terminal::interrupt::listen() {
        warning!("Ctrl-C leaves unfinished files: {error}");
    }
    let result = match arguments.command {
        Command::Run(arguments) => command::run::run(&arguments),
        Command::Mpirun(arguments) => command::mpirun::mpirun(&arguments),
        Command::SbatchScript(arguments) => command::batch::sbatch_script(&arguments),
        Command::New(arguments) => command::new::new(&arguments),
        Command::Submit(arguments) => command::submit::submit(&arguments),
        Command::Sweep(arguments) => command::sweep::sweep(&arguments),
        Command::Resume(arguments) => command::run::resume(&arguments),
        Command::Checkpoint(arguments) => command::run::checkpoint(&arguments),
        Command::Watch(arguments) => command::look::watch(&arguments),
        Command::Console(arguments) => command::look::console(&arguments),
        Command::Bisect(arguments) => command::bisect::bisect(&arguments),
        Command::Boot(arguments) => command::boot::boot(&arguments),
        Command::Snapshot(arguments) => command::snapshot(&arguments),
        Command::Check(arguments) => command::check(&arguments),
        Command::Agent => command::agent::agent(),
        Command::Doctor(arguments) => command::doctor(arguments.json),
        Command::Schema(arguments) => command::schema(arguments.of),
        Command::Runs(arguments) => command::runs::runs(&arguments),
        Command::Trace(command) => command::trace::run(&command),
        Command::Profile(arguments) => command::profile::profile(&arguments),
        Command::Report(arguments) => command::report::report(&arguments),
        Command::Replay(arguments) => command::replay::replay(&arguments),
        Command::Model(command) => command::model::model(&command),
        Command::Simulate(arguments) => command::simulate::simulate(&arguments),
        Command::Place(arguments) => command::replay::place::place(&arguments),
        Command::Cache(command) => command::cache::cache(&command),
        Command::Completions(arguments) => command::manual::completions(&arguments),
        Command::Man(arguments) => command::manual::man(&arguments, Arguments::command()),
        Command::Image(ImageCommand::Build(arguments)) => command::build_image(&arguments),
        Command::Image(ImageCommand::List(arguments)) => command::list_images(arguments.json),
        Command::Image(ImageCommand::Verify { recipe }) => command::verify_image(&recipe),
    };
    command::terminal::interrupt::give_way();
    match command::terminal::notes::left_out() {
        0 => {}
        more => note!("note: {more} more lines about guests' virtio queues are left out"),
    }
    result.unwrap_or_else(|error| {
        use command::terminal::interrupt::{Interrupted, report};
        if let Some(Interrupted(kept)) = error.downcast_ref() {
            return report(&command::fit_for_terminal(kept));
        }
        let reason = command::fit_for_terminal(&with_causes(&error));
        command::terminal::colour::error_line("error", Some(&reason));
        ExitCode::FAILURE
    })
}

/// An error and its causes; what its words include already is not said again.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use clap::{CommandFactory as _, Parser as _};

    use super::{Arguments, Command, with_causes};

    #[test]
    fn every_command_can_be_quiet() {
        let parsed = |line: &str| Arguments::try_parse_from(line.split(' ')).unwrap();
        for line in [
            "belljar -q trace stat run",
            "belljar trace stat run --quiet",
            "belljar doctor -q",
            "belljar bisect a b -q",
        ] {
            assert!(parsed(line).quiet, "{line}");
        }
        assert!(!parsed("belljar trace stat run").quiet);
        // One that had an option of its own has the same.
        for line in ["belljar --quiet run a.toml", "belljar run a.toml -q"] {
            let arguments = parsed(line);
            let Command::Run(run) = &arguments.command else {
                panic!("{line} is no run");
            };
            assert!(arguments.quiet && run.host.quiet, "{line}");
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = super::command::manual::grouped(Arguments::command());
        let help = command.clone().render_help().to_string();
        for own in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            let start = format!("  {} ", own.get_name());
            let lines = help.lines().filter(|line| line.starts_with(&start));
            assert_eq!(lines.count(), 1, "{start}: {help}");
        }
        assert!(help.contains("Options:"), "{help}");
    }

    #[test]
    fn causes_are_said_once() {
        let error = anyhow!("no such file").context("cannot read x: no such file");
        let error = error.context("the run is kept");
        let words = "the run is kept: cannot read x: no such file";
        assert_eq!(with_causes(&error), words);
    }
}
