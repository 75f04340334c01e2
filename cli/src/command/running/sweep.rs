//! `belljar sweep`: runs of one scenario with all combinations of some values, and their table.
//!
//! All combinations are read before any of them runs. Under Slurm they are a job array, elsewhere they run
//! here one after another. The table is made from the runs' files, so it can be made again from the folder
//! alone.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use belljar_cli::sweep::{CommandOutcome, Sweep, SweepTable};
use belljar_cluster::scenario::{Scenario, Standalone};
use belljar_files::{read_input_text, write_file};
use belljar_launch::job::{self, BatchJob, JobState};
use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::check::read_scenario;
use super::submit::{
    JobArguments, TURN, hand_in, make_if_free, make_new, run_command, warn_of_a_bad_plan,
    write_scenario,
};
use crate::command::arguments::ScenarioArguments;
use crate::command::output::{print, say};
use crate::command::terminal::interrupt::{self, Deferral};
use crate::command::terminal::progress::TerminalTask;

/// Arguments of `belljar sweep`.
#[derive(Args)]
pub(crate) struct SweepArguments {
    // `--set KEY=[VALUE, ...]` varies a key; any other `--set` applies to all runs.
    #[command(flatten)]
    scenario: ScenarioArguments,
    #[command(flatten)]
    job: JobArguments,
    /// Most runs at a time under Slurm.
    ///
    /// Slurm's own limit applies by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    at_a_time: Option<u32>,
    /// Run the combinations here, even if Slurm is installed.
    #[arg(long)]
    here: bool,
    /// Results folder, on a file system of the hosts.
    ///
    /// The default is a new folder in `belljar-runs`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the table as JSON.
    #[arg(long)]
    json: bool,
}

/// The run directory in the folder of a combination.
const RUN: &str = "run";
/// Interval of checks of a run's end.
const STEP: Duration = Duration::from_millis(50);
/// The table's file.
const TABLE: &str = "sweep.csv";

/// The sweep's settings, in its folder.
const SWEEP: &str = "sweep.json";

/// `belljar sweep`; for the folder of an earlier one, gathers its results again.
pub(crate) fn sweep(arguments: &SweepArguments) -> Result<ExitCode> {
    let earlier = arguments.scenario.scenario.join(SWEEP);
    if earlier.is_file() {
        let text = read_input_text(&earlier)
            .with_context(|| format!("cannot read {}", earlier.display()))?;
        let sweep = serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged", earlier.display()))?;
        let folder = std::path::absolute(&arguments.scenario.scenario)?;
        return gather(&sweep, &folder, &BTreeMap::new(), arguments.json);
    }
    let sweep = Sweep::parse(&arguments.scenario.set)?;
    let count = sweep.combinations.len();
    let name = prepare(arguments, &sweep)?;
    let folder = place(arguments.out.as_deref(), &name)?;
    for index in 0..count {
        let (_, own) = combination(arguments, &sweep, index)?;
        let own_folder = folder.join(index.to_string());
        make_new(&own_folder)?;
        write_scenario(&own, &own_folder)?;
    }
    let path = folder.join(SWEEP);
    write_file(&path, serde_json::to_string_pretty(&sweep)?.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    let deferral = Deferral::begin();
    let stop = deferral.flag();
    let outcomes = if !arguments.here && has_slurm() {
        let array = batch(arguments, &folder, &name, count)?;
        let number = hand_in(&array)?;
        note!("job {number}, an array of {count}; cancel it with: scancel {number}");
        match follow(number, count, stop)? {
            Some(outcomes) => outcomes,
            None => {
                note!(
                    "job {number} continues; print the table of its finished runs with: belljar sweep {}; cancel it with: scancel {number}",
                    folder.display()
                );
                return Ok(ExitCode::SUCCESS);
            }
        }
    } else {
        one_after_another(&sweep, &folder, stop)?
    };
    let gathered = gather(&sweep, &folder, &outcomes, arguments.json)?;
    if !deferral.is_wanted() {
        return Ok(gathered);
    }
    let ended = outcomes.values().filter(|it| it.code == Some(0)).count();
    let again = format!(
        "{ended} of {count} runs are complete; print their table with: belljar sweep {}",
        folder.display()
    );
    Ok(interrupt::report(&again))
}

/// Makes the table of the results in `folder`.
fn gather(
    sweep: &Sweep,
    folder: &Path,
    outcomes: &BTreeMap<usize, CommandOutcome>,
    json: bool,
) -> Result<ExitCode> {
    let table = SweepTable::gather(
        sweep,
        |index| folder.join(index.to_string()).join(RUN),
        |index| outcomes.get(&index).cloned().unwrap_or_default(),
    );
    let path = folder.join(TABLE);
    write_file(&path, table.csv().as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    match json {
        true => say(serde_json::to_string_pretty(&table.json())?)?,
        false => print(&table)?,
    }
    note!("the table is {}", path.display());
    Ok(match table.failures() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Checks all combinations before any runs; returns the scenario's name.
fn prepare(arguments: &SweepArguments, sweep: &Sweep) -> Result<String> {
    let mut name = String::new();
    for index in 0..sweep.combinations.len() {
        let (scenario, _) = combination(arguments, sweep, index)
            .with_context(|| format!("with {}", sweep.describe(index)))?;
        if index == 0 {
            warn_of_a_bad_plan(&scenario, &arguments.scenario.scenario);
        }
        name = scenario.name;
    }
    Ok(name)
}

fn combination(
    arguments: &SweepArguments,
    sweep: &Sweep,
    index: usize,
) -> Result<(Scenario, Standalone)> {
    let of_all = ScenarioArguments {
        scenario: arguments.scenario.scenario.clone(),
        nodes: arguments.scenario.nodes,
        set: Vec::new(),
    };
    read_scenario(&of_all, &sweep.overrides(index))
}

/// The sweep's folder: `wanted`, or the first free name.
fn place(wanted: Option<&Path>, name: &str) -> Result<PathBuf> {
    if let Some(path) = wanted {
        let path = std::path::absolute(path)?;
        make_new(&path)?;
        return Ok(path);
    }
    let runs = std::path::absolute("belljar-runs")?;
    let names = (1_u32..).map(|number| match number {
        1 => runs.join(format!("{name}-sweep")),
        _ => runs.join(format!("{name}-sweep-{number}")),
    });
    for path in names {
        if make_if_free(&path)? {
            return Ok(path);
        }
    }
    bail!(
        "no unused run name in {}; give one with --out",
        runs.display()
    );
}

/// True if jobs can be submitted; false inside of a job.
fn has_slurm() -> bool {
    let paths = env::var_os("PATH").unwrap_or_default();
    let installed = env::split_paths(&paths).any(|folder| folder.join("sbatch").is_file());
    installed && env::var_os("SLURM_JOB_ID").is_none()
}

fn batch(arguments: &SweepArguments, folder: &Path, name: &str, count: usize) -> Result<BatchJob> {
    let count = u32::try_from(count).context("too many combinations")?;
    Ok(BatchJob {
        name: format!("{name}-sweep"),
        folder: folder.to_owned(),
        command: arguments.job.command(Path::new(RUN))?,
        wishes: arguments.job.wishes(),
        array: Some((count, arguments.at_a_time)),
    })
}

/// Waits for the end of all jobs of an array; `None` when stopped.
fn follow(
    number: u32,
    count: usize,
    stop: &AtomicBool,
) -> Result<Option<BTreeMap<usize, CommandOutcome>>> {
    let mut outcomes = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        // The jobs continue while Slurm's controller is unreachable.
        if let Ok(records) = job::records(number) {
            for record in &records {
                let (Some(task), Some(outcome)) = (record.task, outcome(&record.state)) else {
                    continue;
                };
                if outcomes.insert(task as usize, outcome).is_none() {
                    note!("{} of {count} have ended", outcomes.len());
                }
            }
            // Slurm forgets jobs some time after their end.
            if records.iter().all(job::JobRecord::has_ended) {
                return Ok(Some(outcomes));
            }
        }
        thread::sleep(TURN);
    }
    Ok(None)
}

/// The outcome of an ended job.
fn outcome(state: &JobState) -> Option<CommandOutcome> {
    /// Shells' exit codes of signals start above this number.
    const SIGNALS: i32 = 128;
    match state {
        JobState::Ended {
            how,
            status,
            signal,
        } => {
            let code = match signal {
                0 => *status,
                signal => SIGNALS + signal,
            };
            Some(CommandOutcome {
                code: Some(code),
                ending: how.clone(),
            })
        }
        _ => None,
    }
}

/// Runs all combinations here, until stopped.
fn one_after_another(
    sweep: &Sweep,
    folder: &Path,
    stop: &AtomicBool,
) -> Result<BTreeMap<usize, CommandOutcome>> {
    let count = sweep.combinations.len();
    let mut outcomes = BTreeMap::new();
    let task = TerminalTask::of_steps("runs", Some(count as u64));
    for index in 0..count {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let words = run_command(Path::new(RUN))?;
        let own_folder = folder.join(index.to_string());
        let path = own_folder.join(BatchJob::LOG);
        let log =
            fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let child = Command::new(&words[0])
            .args(&words[1..])
            .current_dir(&own_folder)
            // A separate process group, so that Ctrl-C reaches it once, from here; a second signal would
            // kill it.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start belljar itself")?;
        let status = ended(child, stop)?;
        let described = sweep.describe(index);
        note!("[{}/{count}] {described}: {status}", index + 1);
        let outcome = CommandOutcome {
            code: status.code(),
            ending: status.to_string(),
        };
        outcomes.insert(index, outcome);
        task.step();
    }
    Ok(outcomes)
}

/// Waits for a run's end; when stopped, requests its orderly end.
fn ended(mut child: Child, stop: &AtomicBool) -> Result<ExitStatus> {
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) && !told {
            let id = i32::try_from(child.id()).context("no process id")?;
            // The child is not reaped yet, so its id is valid.
            kill(Pid::from_raw(id), Signal::SIGTERM).context("cannot stop the run")?;
            told = true;
        }
        thread::sleep(STEP);
    }
}
