//! The `belljar` command.
//!
//! Results go to standard output, everything else to standard error.
#![allow(clippy::print_stderr)]

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Writes a line on standard error, unless only results, warnings and errors are printed.
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
    /// Print only results, warnings and errors.
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Colour warnings, errors and highlights of results.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    color: clap::ColorChoice,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario and fill a run directory.
    Run(command::run::RunArguments),
    /// Run an MPI program as mpirun would, without a scenario.
    #[command(visible_alias = "mpiexec")]
    Mpirun(Box<command::mpirun::MpirunArguments>),
    /// Run an unmodified batch script with #SBATCH lines.
    SbatchScript(command::batch::BatchArguments),
    /// Write a scenario to start from.
    New(command::new::NewArguments),
    /// Run a scenario as a Slurm job and follow it.
    ///
    /// Prints the path of its run directory.
    Submit(command::submit::SubmitArguments),
    /// Run a scenario under all combinations of some settings.
    ///
    /// Under Slurm the runs are an array of jobs. The results become one table.
    Sweep(command::sweep::SweepArguments),
    /// Resume an interrupted run from its last checkpoint.
    Resume(command::run::ResumeArguments),
    /// Checkpoint a running cluster.
    Checkpoint(command::run::CheckpointArguments),
    /// Boot a scenario's node and save it for cloning.
    ///
    /// Prints the path of the snapshot.
    Snapshot(command::check::SnapshotArguments),
    /// Boot any kernel on one node.
    ///
    /// Its serial console is on standard output.
    Boot(command::boot::BootArguments),
    /// Find the first instruction at which two runs differ.
    ///
    /// The runs need --state-hash. The exit code is 2 for a difference, 0 for none.
    Bisect(command::bisect::BisectArguments),
    /// Show a run's nodes, speed, calls and links live.
    ///
    /// It also shows a console, and for an ended run its figures.
    Watch(command::look::WatchArguments),
    /// Attach to the serial console of a running node.
    ///
    /// Typed input becomes part of the run, and is recorded in its input.log.
    Console(command::look::ConsoleArguments),
    /// Run a host's part; `belljar run` starts it.
    #[command(hide = true)]
    Agent,
    /// Resolve a scenario and print the plan.
    Check(command::check::CheckArguments),
    /// Check this machine and list missing packages.
    Doctor(command::arguments::JsonArguments),
    /// Print a JSON Schema of scenarios or mixes, for editors.
    #[command(after_help = "Example: belljar schema > scenario.schema.json")]
    Schema(command::doctor::SchemaArguments),
    /// List run directories with age and outcome.
    Runs(command::runs::RunsArguments),
    /// Analyse, export and import traces of MPI calls.
    #[command(subcommand)]
    Trace(command::trace::TraceCommand),
    /// Print the functions that processors were running, by samples.
    ///
    /// Prints shares of functions, folded stacks or a flame graph. The run must have taken samples: --set profile.every=100us.
    Profile(command::profile::ProfileArguments),
    /// Write a run's results into one HTML file.
    ///
    /// The file opens in any browser without a network. Two runs appear side by side.
    Report(command::report::ReportArguments),
    /// Replay a traced run on another network, placement or processors.
    ///
    /// It predicts the time without running guests. Without options, the network is the one of the trace.
    #[command(
        after_help = "Example: belljar replay belljar-runs/hpl-4 --set network.latency='20 us' --model flow"
    )]
    Replay(command::replay::ReplayArguments),
    /// Search the best placement of a traced run's ranks.
    ///
    /// Prints the gain of each placement on a network.
    #[command(
        after_help = "Example: belljar place belljar-runs/hpl-4 --topology torus --set network.dimensions=[2,2] --out best"
    )]
    Place(command::replay::place::PlaceArguments),
    /// Simulate many jobs on one interconnect.
    ///
    /// A mix compares schedulers, selections of hosts, mappings and routings, and records the loads of links.
    #[command(after_help = "Example: belljar simulate scenarios/mix.toml --out mix")]
    Simulate(command::simulate::SimulateArguments),
    /// Fit models of programs and generate synthetic runs.
    ///
    /// A model is fitted to traced runs of several sizes.
    #[command(subcommand)]
    Model(command::model::ModelCommand),
    /// Build, list and verify guest images.
    #[command(subcommand)]
    Image(command::image::ImageCommand),
    /// List or remove files kept in the cache.
    ///
    /// They are images, snapshots and others.
    #[command(subcommand)]
    Cache(command::cache::CacheCommand),
    /// Print a completion script for a shell.
    #[command(
        after_help = "Example: belljar completions bash > ~/.local/share/bash-completion/completions/belljar"
    )]
    Completions(command::manual::CompletionsArguments),
    /// Write manual pages, or a page of all commands.
    ///
    /// Give --out, --reference or both.
    #[command(after_help = "Example: belljar man --out ~/.local/share/man/man1")]
    Man(command::manual::ManArguments),
}

fn main() -> ExitCode {
    command::manual::complete::answer(|| command::manual::grouped(Arguments::command()));
    let all = command::manual::grouped(Arguments::command());
    let words = command::mpirun::plain(std::env::args_os(), &all);
    let matches = all.get_matches_from(words);
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
        Command::Snapshot(arguments) => command::check::snapshot(&arguments),
        Command::Check(arguments) => command::check::check(&arguments),
        Command::Agent => command::agent::agent(),
        Command::Doctor(arguments) => command::doctor::doctor(arguments.json),
        Command::Schema(arguments) => command::doctor::schema(&arguments),
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
        Command::Image(command) => command::image::image(&command),
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

/// An error and its causes; causes that the text already contains are omitted.
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
        // A subcommand's own option of the same name has this meaning, too.
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
