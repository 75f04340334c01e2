//! The subcommands.

pub(crate) mod bisect;
pub(crate) mod boot;
pub(crate) mod look;
pub(crate) mod trace;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use belljar_cluster::control::{Desk, Server};
use belljar_cluster::coordinator::{Ending, Run};
use belljar_cluster::plan::Plan;
use belljar_cluster::progress::Progress as RunProgress;
use belljar_cluster::run_directory::{RunDirectory, SCENARIO_FILE};
use belljar_cluster::run_disk;
use belljar_cluster::sandbox::Sandbox;
use belljar_cluster::scenario::Scenario;
use belljar_cluster::summary::{HostSummary, Summary, render};
use belljar_cluster::{doctor as examination, summary, template};
use belljar_images::{Progress, Recipe};

use crate::{CheckArguments, RunArguments, ScenarioArguments, SnapshotArguments};

/// A scenario, and the text with which it can be run again.
fn read_scenario(arguments: &ScenarioArguments, more: &[String]) -> Result<(Scenario, String)> {
    let path = &arguments.scenario;
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the scenario {}", path.display()))?;
    let mut overrides = arguments.set.clone();
    overrides.extend(arguments.nodes.map(|nodes| format!("nodes.count={nodes}")));
    overrides.extend_from_slice(more);
    let full = std::path::absolute(path)?;
    let folder = full.parent().unwrap_or(Path::new("/"));
    Ok((
        Scenario::parse(path, &text, &overrides)?,
        Scenario::standalone(path, &text, &overrides, folder)?,
    ))
}

/// `belljar check`.
pub(crate) fn check(arguments: &CheckArguments) -> Result<ExitCode> {
    let (scenario, _) = read_scenario(&arguments.scenario, &[])?;
    let plan = Plan::resolve(&scenario, &arguments.scenario.scenario)?;
    println!("{plan}");
    if let Some(path) = &arguments.run_disk {
        let disk = run_disk::build(&plan).context("cannot pack the workload's files")?;
        fs::write(path, disk).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `belljar doctor`.
pub(crate) fn doctor() -> Result<ExitCode> {
    let findings = examination::examine();
    print!("{}", examination::render(&findings));
    let usable = findings
        .iter()
        .any(|finding| finding.good && finding.subject.starts_with("engine"));
    Ok(if usable {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `belljar run`.
pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let pcap: Vec<String> = arguments
        .pcap
        .iter()
        .map(|link| format!("{link:?}"))
        .collect();
    let mut more = Vec::new();
    if !pcap.is_empty() {
        more.push(format!("network.pcap=[{}]", pcap.join(",")));
    }
    if arguments.boot_each {
        more.push("nodes.boot=each".to_owned());
    }
    let (scenario, text) = read_scenario(&arguments.scenario, &more)?;
    let mut plan = Plan::resolve(&scenario, &arguments.scenario.scenario)?;
    plan.snapshot.clone_from(&arguments.snapshot);
    let directory = RunDirectory::create(arguments.out.as_deref(), &plan.name)?;
    directory.write("plan.txt", &format!("{plan}\n"))?;
    directory.write(SCENARIO_FILE, &text)?;
    let threads = arguments
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
        .clamp(1, plan.nodes as usize);
    let stop = stop_on_signal()?;
    let mut sandbox = sandbox(arguments.no_sandbox)?;
    // Before the sandbox closes: no socket is made after that.
    let desk = Arc::new(Desk::default());
    let server = serve(directory.path(), &plan, &desk);
    if let Some(server) = &server {
        let listening = |sandbox: Sandbox| sandbox.listening(server.listener());
        sandbox = sandbox.map(listening).transpose()?;
    }
    let mut progress = RunProgress::start(arguments.quiet || !io::stderr().is_terminal());
    let mut run = Run::prepare(&plan, &directory, threads, sandbox.as_ref())?;
    let prepared = progress.elapsed();
    if let Some(every) = arguments.state_hash {
        run.log_states(&directory, every)?;
    }
    run.attend_to(desk);
    let ending = run.go_in(sandbox.as_ref(), &stop, &mut progress);
    drop(server);
    progress.finish();
    let ending = ending.with_context(|| {
        format!(
            "what was recorded is kept in {}",
            directory.path().display()
        )
    })?;
    let summary = Summary::of(&plan, &run, &ending);
    let host = HostSummary::of(&summary, &run, [prepared, progress.elapsed()], threads);
    conclude(directory, &summary, &host, &ending)
}

/// Lets others look at the run; without that it goes on all the same.
fn serve(directory: &Path, plan: &Plan, desk: &Arc<Desk>) -> Option<Server> {
    match Server::open(directory, &plan.name, plan.nodes, desk.clone()) {
        Ok(server) => Some(server),
        Err(error) => {
            eprintln!("warning: belljar watch and console will not find this run: {error}");
            None
        }
    }
}

/// `belljar snapshot`.
pub(crate) fn snapshot(arguments: &SnapshotArguments) -> Result<ExitCode> {
    let (scenario, _) = read_scenario(&arguments.scenario, &[])?;
    let plan = Plan::resolve(&scenario, &arguments.scenario.scenario)?;
    let path = match &arguments.out {
        Some(path) => path.clone(),
        None => template::path_of(&plan)?,
    };
    template::write(&plan, sandbox(arguments.no_sandbox)?.as_ref(), &path)?;
    println!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}

/// The sandbox for threads that run guests, unless it is not wanted.
fn sandbox(unwanted: bool) -> Result<Option<Sandbox>> {
    if unwanted {
        return Ok(None);
    }
    Ok(Some(Sandbox::new()?))
}

/// Ctrl-C and SIGTERM end a run at the next round; a second one ends the program.
fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .context("cannot watch for Ctrl-C")?;
    Ok(stop)
}

fn conclude(
    directory: RunDirectory,
    summary: &Summary,
    host: &HostSummary,
    ending: &Ending,
) -> Result<ExitCode> {
    directory.write("summary.json", &serde_json::to_string_pretty(summary)?)?;
    directory.write("host.json", &serde_json::to_string_pretty(host)?)?;
    match ending {
        Ending::Workload(code) => {
            let path = directory.complete()?;
            trace::print_statistics(&path)?;
            print!("{}", render(summary, host, &path));
            tell_failure(*code, &summary.warnings);
            Ok(exit_code(*code))
        }
        other => {
            print!("{}", summary::render(summary, host, directory.path()));
            bail!("{}", explain(other, directory.path()));
        }
    }
}

/// A workload that failed is no failure of the run, but nobody should overlook it.
fn tell_failure(code: i32, warnings: &[String]) {
    if code == 0 {
        return;
    }
    let cause = warnings
        .iter()
        .find(|warning| warning.contains("ran out of memory"));
    let cause = cause.map_or_else(String::new, |cause| format!("; {cause}"));
    eprintln!("error: the workload ended with exit code {code}, see console/node0.log{cause}");
}

fn exit_code(code: i32) -> ExitCode {
    match u8::try_from(code) {
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    }
}

fn explain(ending: &Ending, directory: &Path) -> String {
    let kept = format!("what was recorded is kept in {}", directory.display());
    match ending {
        Ending::NodeEnded { last_words, .. } => {
            format!(
                "{ending}; {kept}; the last lines of its console:\n{}",
                last_words.trim_end()
            )
        }
        Ending::Limit => {
            format!(
                "{ending} before the workload ended; raise workload.limit, or see the consoles for why it hangs; {kept}"
            )
        }
        Ending::Deadlock => format!("{ending}: the workload hangs; see the consoles; {kept}"),
        _ => format!("{ending}; {kept}"),
    }
}

/// `belljar image build`.
pub(crate) fn build_image(recipe: &Path, verbose: bool) -> Result<ExitCode> {
    let missing = belljar_images::missing_tools();
    if !missing.is_empty() {
        let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
        bail!(
            "images need tools that are not installed; apt install {}",
            packages.join(" ")
        );
    }
    let recipe = Recipe::load(recipe)?;
    let image = belljar_images::build(&recipe, &mut |news| match news {
        Progress::Step { number, of, what } => eprintln!("[{number}/{of}] {what}"),
        Progress::Detail(line) if verbose => eprintln!("    {line}"),
        Progress::Detail(_) => {}
        Progress::Waiting => eprintln!("waiting for another build of the same image"),
        Progress::Note(note) => eprintln!("note: {note}"),
    })?;
    println!("{}", image.dir.display());
    Ok(ExitCode::SUCCESS)
}
