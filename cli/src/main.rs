//! The `belljar` command.
//!
//! Standard output is results; what happens meanwhile is told on standard error.
#![allow(clippy::print_stderr)]

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

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
    Run(command::run::RunArguments),
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
    Resume(command::run::ResumeArguments),
    /// Have a run that is under way keep a checkpoint of all of it.
    Checkpoint(command::run::CheckpointArguments),
    /// Boot the node of which a scenario's nodes are clones, and keep it; prints where.
    Snapshot(command::check::SnapshotArguments),
    /// Boot any kernel on one node, its serial console on standard output.
    Boot(command::boot::BootArguments),
    /// Name the first instruction at which two runs with --state-hash differ; ends with 2
    /// when they do, with 0 when they do not.
    Bisect(command::bisect::BisectArguments),
    /// Show a run that is under way: nodes, speed, MPI calls, links, a console; of one that ended,
    /// its figures.
    Watch(command::look::WatchArguments),
    /// Attach to the serial console of a node of a run that is under way, both ways. What is typed
    /// becomes part of the run, and is kept in its input.log.
    Console(command::look::ConsoleArguments),
    /// Do a host's part in a run of several; `belljar run` starts it.
    #[command(hide = true)]
    Agent,
    /// Print what a scenario comes to, without running it.
    Check(command::check::CheckArguments),
    /// Tell what this machine can do and what to install.
    Doctor(command::arguments::JsonArguments),
    /// Print a JSON Schema of scenarios or mixes, for editors.
    #[command(after_help = "Example: belljar schema > scenario.schema.json")]
    Schema(command::doctor::SchemaArguments),
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
    Image(command::image::ImageCommand),
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
