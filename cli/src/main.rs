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
            $crate::command::terminal::colour::plain_line(&line);
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
    Run(command::running::run::RunArguments),
    /// Run an MPI program as mpirun would, without a scenario.
    #[command(visible_alias = "mpiexec")]
    Mpirun(Box<command::running::mpirun::MpirunArguments>),
    /// Run a program or a scenario and print errors of MPI use.
    ///
    /// The exit code is 1 if there are errors, and 0 if there are warnings and notes alone.
    #[command(after_help = "Example: belljar check-mpi -np 4 --limit 10s ./solver")]
    CheckMpi(command::running::check_mpi::CheckMpiArguments),
    /// Run the orders of messages that matter, and judge each.
    ///
    /// The exit code is 1 if a run failed.
    #[command(after_help = "Example: belljar explore --compare stdout -np 4 ./solver")]
    Explore(command::running::explore::ExploreArguments),
    /// Repeat a run under gdb, with its ranks as processes, forwards and backwards.
    ///
    /// Nothing in the run changes; memory and registers are read only.
    #[command(
        after_help = "Example: belljar debug belljar-runs/solver --at 'rank 3, MPI_Recv #17'"
    )]
    Debug(command::running::debug::DebugArguments),
    /// Run an unmodified batch script with #SBATCH lines.
    SbatchScript(command::running::batch::BatchArguments),
    /// Write a scenario to start from.
    New(command::running::new::NewArguments),
    /// Run a scenario as a Slurm job and follow it.
    ///
    /// Prints the path of its run directory.
    Submit(command::running::submit::SubmitArguments),
    /// Run a scenario under all combinations of some settings.
    ///
    /// Under Slurm the runs are an array of jobs. The results become one table.
    Sweep(command::running::sweep::SweepArguments),
    /// Resume an interrupted run from its last checkpoint.
    Resume(command::running::run::ResumeArguments),
    /// Checkpoint a running cluster.
    Checkpoint(command::running::run::CheckpointArguments),
    /// Boot a scenario's node and save it for cloning.
    ///
    /// Prints the path of the snapshot.
    Snapshot(command::running::check::SnapshotArguments),
    /// Boot any kernel on one node.
    ///
    /// Its serial console is on standard output.
    Boot(command::running::boot::BootArguments),
    /// Find the first instruction at which two runs differ.
    ///
    /// The runs need --state-hash. The exit code is 2 for a difference, 0 for none.
    Bisect(command::running::bisect::BisectArguments),
    /// Show a run's nodes, speed, calls and links live.
    ///
    /// It also shows a console, and for an ended run its figures.
    Watch(command::running::look::WatchArguments),
    /// Attach to the serial console of a running node.
    ///
    /// Typed input becomes part of the run, and is recorded in its input.log.
    Console(command::running::look::ConsoleArguments),
    /// Run a host's part; `belljar run` starts it.
    #[command(hide = true)]
    Agent,
    /// Continue checkpoints of one run; `belljar explore` starts it.
    #[command(hide = true)]
    Branches(command::running::run::BranchesArguments),
    /// Resolve a scenario and print the plan.
    Check(command::running::check::CheckArguments),
    /// Check this machine and list missing packages.
    Doctor(command::arguments::JsonArguments),
    /// Print a JSON Schema of scenarios or mixes, for editors.
    #[command(after_help = "Example: belljar schema > scenario.schema.json")]
    Schema(command::setup::doctor::SchemaArguments),
    /// List run directories with age and outcome.
    Runs(command::results::runs::RunsArguments),
    /// Analyse, export and import traces of MPI calls.
    #[command(subcommand)]
    Trace(command::results::trace::TraceCommand),
    /// Print the functions that processors were running, by samples.
    ///
    /// Prints shares of functions, folded stacks or a flame graph. The run must have taken samples: --set profile.every=100us.
    Profile(command::results::profile::ProfileArguments),
    /// Write a run's results into one HTML file.
    ///
    /// The file opens in any browser without a network. Two runs appear side by side.
    Report(command::results::report::ReportArguments),
    /// Replay a traced run on another network, placement or processors.
    ///
    /// It predicts the time without running guests. Without options, the network is the one of the trace.
    #[command(
        after_help = "Example: belljar replay belljar-runs/hpl-4 --set network.latency='20 us' --model flow"
    )]
    Replay(command::predicting::replay::ReplayArguments),
    /// Search the best placement of a traced run's ranks.
    ///
    /// Prints the gain of each placement on a network.
    #[command(
        after_help = "Example: belljar place belljar-runs/hpl-4 --topology torus --set network.dimensions=[2,2] --out best"
    )]
    Place(command::predicting::replay::place::PlaceArguments),
    /// Simulate many jobs on one interconnect.
    ///
    /// A mix compares schedulers, selections of hosts, mappings and routings, and records the loads of links.
    #[command(after_help = "Example: belljar simulate scenarios/mix.toml --out mix")]
    Simulate(command::predicting::simulate::SimulateArguments),
    /// Fit models of programs and generate synthetic runs.
    ///
    /// A model is fitted to traced runs of several sizes.
    #[command(subcommand)]
    Model(command::predicting::model::ModelCommand),
    /// Measure parameters of models on this machine.
    #[command(subcommand)]
    Calibrate(command::setup::calibrate::CalibrateCommand),
    /// Build, list and verify guest images.
    #[command(subcommand)]
    Image(command::setup::image::ImageCommand),
    /// List or remove files kept in the cache.
    ///
    /// They are images, snapshots and others.
    #[command(subcommand)]
    Cache(command::setup::cache::CacheCommand),
    /// Print a completion script for a shell.
    #[command(
        after_help = "Example: belljar completions bash > ~/.local/share/bash-completion/completions/belljar"
    )]
    Completions(command::setup::manual::CompletionsArguments),
    /// Write manual pages, or a page of all commands.
    ///
    /// Give --out, --reference or both.
    #[command(after_help = "Example: belljar man --out ~/.local/share/man/man1")]
    Man(command::setup::manual::ManArguments),
}

fn main() -> ExitCode {
    command::setup::manual::complete::answer(|| {
        command::setup::manual::grouped(Arguments::command())
    });
    let all = command::setup::manual::grouped(Arguments::command());
    let words = command::running::mpirun::plain(std::env::args_os(), &all);
    let matches = all.get_matches_from(words);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    command::terminal::colour::choose(arguments.color);
    command::terminal::notes::tell(arguments.quiet);
    if let Err(error) = command::terminal::interrupt::listen() {
        warning!("Ctrl-C leaves unfinished files: {error}");
    }
    let result = match arguments.command {
        Command::Run(arguments) => command::running::run::run(&arguments),
        Command::Mpirun(arguments) => command::running::mpirun::mpirun(&arguments),
        Command::CheckMpi(arguments) => command::running::check_mpi::check_mpi(&arguments),
        Command::Branches(arguments) => command::running::run::branches(&arguments),
        Command::Explore(arguments) => command::running::explore::explore(&arguments),
        Command::Debug(arguments) => command::running::debug::debug(&arguments),
        Command::SbatchScript(arguments) => command::running::batch::sbatch_script(&arguments),
        Command::New(arguments) => command::running::new::new(&arguments),
        Command::Submit(arguments) => command::running::submit::submit(&arguments),
        Command::Sweep(arguments) => command::running::sweep::sweep(&arguments),
        Command::Resume(arguments) => command::running::run::resume(&arguments),
        Command::Checkpoint(arguments) => command::running::run::checkpoint(&arguments),
        Command::Watch(arguments) => command::running::look::watch(&arguments),
        Command::Console(arguments) => command::running::look::console(&arguments),
        Command::Bisect(arguments) => command::running::bisect::bisect(&arguments),
        Command::Boot(arguments) => command::running::boot::boot(&arguments),
        Command::Snapshot(arguments) => command::running::check::snapshot(&arguments),
        Command::Check(arguments) => command::running::check::check(&arguments),
        Command::Agent => command::running::agent::agent(),
        Command::Doctor(arguments) => command::setup::doctor::doctor(arguments.json),
        Command::Schema(arguments) => command::setup::doctor::schema(&arguments),
        Command::Runs(arguments) => command::results::runs::runs(&arguments),
        Command::Trace(command) => command::results::trace::run(&command),
        Command::Profile(arguments) => command::results::profile::profile(&arguments),
        Command::Report(arguments) => command::results::report::report(&arguments),
        Command::Replay(arguments) => command::predicting::replay::replay(&arguments),
        Command::Model(command) => command::predicting::model::model(&command),
        Command::Simulate(arguments) => command::predicting::simulate::simulate(&arguments),
        Command::Place(arguments) => command::predicting::replay::place::place(&arguments),
        Command::Cache(command) => command::setup::cache::cache(&command),
        Command::Completions(arguments) => command::setup::manual::completions(&arguments),
        Command::Man(arguments) => command::setup::manual::man(&arguments, Arguments::command()),
        Command::Calibrate(command) => command::setup::calibrate::calibrate(&command),
        Command::Image(command) => command::setup::image::image(&command),
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
        let command = super::command::setup::manual::grouped(Arguments::command());
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
