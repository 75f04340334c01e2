//! `belljar debug`: a run under gdb, forwards and backwards.
//!
//! The run is repeated from its scenario, so that a run directory needs no more than that. gdb is started beside it, or a
//! debugger connects to it. Called by `main`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use belljar_archive::TraceReader;
use belljar_cluster::host::sandbox::Reach;
use belljar_cluster::plan::Plan;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::engine::Engine;
use belljar_cluster::scenario::{Scenario, of_run_directory};
use belljar_debug::{Debugger, Listener, Place, Session, serve};
use belljar_files::{Registration, read_input_text};
use belljar_sim::Time;
use belljar_trace::TRACE_FILE;
use clap::Args;

use super::check::{read_scenario, sandbox};
use super::explore::DECISION_FILE;
use crate::command::arguments::ScenarioArguments;
use crate::command::output::say;
use crate::command::results::trace::hang::end_without_workload;
use crate::command::terminal::interrupt;

/// The commands with which gdb begins; `ADDRESS` stands for the socket, `FILES` for the folder of copies. The script attaches to each rank, because gdb
/// reads the libraries of a process when it attaches.
const COMMANDS: &str = include_str!("debug/commands.gdb");

/// The folder with copies of programs and libraries.
const COPIES: &str = "files";

/// Arguments of `belljar debug`.
#[derive(Args)]
pub(crate) struct DebugArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Position at which the debugger begins.
    ///
    /// `start`, `end`, `init` (all ranks have initialized MPI), a virtual time such as `1.5 ms`, or a call such as
    /// `rank 3, MPI_Recv #17`.
    /// The default is `init`, and for a failure of `belljar explore` the decision that made it fail.
    #[arg(long, value_name = "PLACE")]
    at: Option<String>,
    /// Wait for a debugger at this port of the loopback interface instead of starting gdb.
    ///
    /// 0 is any free port.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// File of commands for gdb, executed after it has connected; gdb then ends.
    #[arg(long, value_name = "FILE", conflicts_with = "port")]
    commands: Option<PathBuf>,
    /// Show processes that are not ranks, too.
    #[arg(long)]
    all_processes: bool,
    /// Show the kernel of each node as a process, with its processors as threads.
    #[arg(long)]
    kernels: bool,
    /// Number of host threads.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Disable the seccomp filter around threads that run guests.
    ///
    /// Use it only with trusted guests.
    #[arg(long)]
    no_sandbox: bool,
}

/// `belljar debug`.
pub(crate) fn debug(arguments: &DebugArguments) -> Result<ExitCode> {
    let place: Place = match &arguments.at {
        Some(at) => at.parse()?,
        None => decision(&arguments.scenario.scenario)?,
    };
    let plan = plan(&arguments.scenario)?;
    check_rank(&place, &arguments.scenario.scenario)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let _registration = Registration::of_folder(folder.path());
    let listener = match arguments.port {
        Some(port) => Listener::port(port)?,
        None => Listener::at(&folder.path().join("gdb"))?,
    };
    let address = listener.address()?;
    // A process in the sandbox starts no programs: gdb waits for the session at the socket.
    let gdb = match arguments.port {
        Some(_) => None,
        None => Some(start_gdb(
            folder.path(),
            &address,
            arguments.commands.as_deref(),
        )?),
    };
    if gdb.is_none() {
        say(format!(
            "connect a debugger with: target extended-remote {address}"
        ))?;
    }
    let debugger = listener.accept().context("no debugger has connected")?;
    let served = attend(arguments, &place, plan, folder.path(), debugger);
    let ended = gdb.map(end_gdb).transpose()?;
    served?;
    Ok(ended.unwrap_or(ExitCode::SUCCESS))
}

/// The position of the decision of a failure of `belljar explore`; that of initialized ranks for another run or scenario.
fn decision(path: &Path) -> Result<Place> {
    let path = path.join(DECISION_FILE);
    if !path.is_file() {
        return Ok(Place::Initialized);
    }
    let text = read_input_text(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let place = text.trim().parse();
    place.with_context(|| format!("{} has no virtual time", path.display()))
}

/// Refuses a position at a rank that the run in a directory does not have, before the run is repeated.
fn check_rank(place: &Place, path: &Path) -> Result<()> {
    let (Place::Call { rank, .. }, trace) = (place, path.join(TRACE_FILE)) else {
        return Ok(());
    };
    if !trace.is_file() {
        return Ok(());
    }
    let mut reader = TraceReader::open(&trace)?;
    let mut last = None;
    for event in reader.by_ref() {
        if event.rank == *rank {
            return Ok(());
        }
        last = last.max(Some(event.rank));
    }
    match last {
        Some(last) => bail!("--at: the run has no rank {rank}; its last rank is {last}"),
        None => Ok(()),
    }
}

/// The plan of a scenario, or of the run in a directory.
fn plan(arguments: &ScenarioArguments) -> Result<Plan> {
    let path = &arguments.scenario;
    if !path.is_dir() {
        let (scenario, _) = read_scenario(arguments, &[])?;
        return Ok(Plan::resolve(&scenario, path)?);
    }
    let path = path.join(SCENARIO_FILE);
    let text = read_input_text(&path).with_context(|| {
        format!(
            "cannot read {}; give a scenario, or the directory of a run",
            path.display()
        )
    })?;
    let scenario = Scenario::parse(&path, &of_run_directory(text), &arguments.set)?;
    let mut plan = Plan::resolve(&scenario, &path)?;
    // A run without its workload's end ended at its limit, by a user, or because no rank could proceed.
    if let Some(end) = end_without_workload(&path) {
        plan.limit = plan.limit.min(Time::from_ps(end));
    }
    Ok(plan)
}

fn attend(
    arguments: &DebugArguments,
    place: &Place,
    plan: Plan,
    folder: &Path,
    debugger: Debugger,
) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments
        .threads
        .unwrap_or(threads)
        .clamp(1, plan.nodes as usize);
    let reach = Reach::nothing()
        .reading(Path::new("/"))
        .writing(&std::env::temp_dir());
    let sandbox = sandbox(arguments.no_sandbox, Engine::Exact)?;
    let sandbox = sandbox.map(|sandbox| sandbox.reaching(reach).repeating());
    let mut session = Session::begin(plan, threads, sandbox.transpose()?, arguments.all_processes)?;
    if arguments.kernels {
        session.show_kernels();
    }
    let stop = Arc::new(AtomicBool::new(false));
    session.goto(place, &stop)?;
    if arguments.port.is_none() {
        session.copy_files_to(&folder.join(COPIES))?;
    }
    serve(debugger, &mut session).context("the connection with the debugger failed")
}

/// Starts gdb, which connects to `address`.
fn start_gdb(folder: &Path, address: &str, commands: Option<&Path>) -> Result<Child> {
    let file = folder.join("commands");
    let mut text = std::fs::File::create(&file)?;
    let copies = folder.join(COPIES);
    let commands_text = COMMANDS.replace("ADDRESS", address);
    let commands_text = commands_text.replace("FILES", &copies.display().to_string());
    text.write_all(commands_text.as_bytes())?;
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-nx", "-x"]).arg(&file);
    if let Some(commands) = commands {
        if !commands.is_file() {
            bail!("cannot read {}: there is no such file", commands.display());
        }
        gdb.args(["-batch", "-x"]).arg(commands);
    }
    interrupt::leave_to_child();
    gdb.spawn().context(
        "cannot start gdb; install Debian's package gdb, or connect another debugger with --port",
    )
}

/// Waits for the end of gdb; its exit code.
fn end_gdb(mut gdb: Child) -> Result<ExitCode> {
    let status = gdb.wait().context("cannot wait for gdb")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
