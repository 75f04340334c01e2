//! `belljar submit`, and functions shared with `belljar sweep`.
//!
//! A job's folder has copies of its scenario's files, so that changes to the originals do not affect a
//! waiting job. A job that Slurm refuses leaves no folder.

use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use belljar_cluster::plan::Plan;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::quantity::Bytes;
use belljar_cluster::scenario::{Scenario, Standalone};
use belljar_files::{open_input, write_file};
use belljar_launch::job::{self, BatchJob, JobState, Wishes};
use clap::Args;

use super::check::read_scenario;
use crate::command::arguments::ScenarioArguments;
use crate::command::exit_code;
use crate::command::terminal::colour::error_line;
use crate::command::terminal::interrupt::Deferral;

/// Time between queries to Slurm.
pub(in crate::command) const TURN: Duration = Duration::from_secs(2);
/// Unanswered queries before a warning.
const PATIENCE: u32 = 15;

/// Resources of a job.
#[derive(Args)]
pub(crate) struct JobArguments {
    /// Number of physical hosts (default 1).
    #[arg(long = "host-count", value_name = "N")]
    hosts: Option<u32>,
    /// Processors on each host.
    ///
    /// The default is all of them, exclusively.
    #[arg(long, value_name = "N")]
    cpus_per_host: Option<u32>,
    /// Memory on each host, such as `8 GiB`.
    #[arg(long, value_name = "SIZE")]
    mem: Option<Bytes>,
    /// Time limit in Slurm's form: `30` (minutes), `2:30:00`, `1-12`.
    ///
    /// One minute before the limit the run ends in order and keeps its state.
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Partition; the default is the cluster's.
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Account to charge.
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
}

/// Arguments of `belljar submit`.
#[derive(Args)]
pub(crate) struct SubmitArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    #[command(flatten)]
    job: JobArguments,
    /// Results folder, on a file system of the hosts.
    ///
    /// The default is a new folder in `belljar-runs`. The job's own files go to `DIR.job`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// `belljar submit`.
pub(crate) fn submit(arguments: &SubmitArguments) -> Result<ExitCode> {
    let (scenario, own) = read_scenario(&arguments.scenario, &[])?;
    warn_of_a_bad_plan(&scenario, &arguments.scenario.scenario);
    let out = place(arguments.out.as_deref(), &scenario.name)?;
    let folder = with_end(&out, JOB_FOLDER);
    write_scenario(&own, &folder)?;
    let batch = BatchJob {
        name: scenario.name.clone(),
        folder: folder.clone(),
        command: arguments.job.command(&out)?,
        wishes: arguments.job.wishes(),
        array: None,
    };
    let number = hand_in(&batch)?;
    note!("job {number}; {}", how_to_follow(number, &folder));
    let deferral = Deferral::begin();
    let log = folder.join(BatchJob::LOG);
    match follow(number, &log, deferral.flag())? {
        Some(end) => conclude(&end, &out, &log),
        None => {
            note!("job {number} continues; {}", how_to_follow(number, &folder));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Suffix of a job's own folder.
const JOB_FOLDER: &str = ".job";

impl JobArguments {
    /// The resources requested from Slurm.
    pub(in crate::command) fn wishes(&self) -> Wishes {
        const MIB: u64 = 1 << 20;
        Wishes {
            hosts: self.hosts,
            cpus_per_host: self.cpus_per_host,
            memory_mib: self.mem.map(|bytes| bytes.0.div_ceil(MIB)),
            time: self.time.clone(),
            partition: self.partition.clone(),
            account: self.account.clone(),
        }
    }

    /// The job's command: the scenario next to it, into `out`.
    pub(in crate::command) fn command(&self, out: &Path) -> Result<Vec<String>> {
        let mut words = run_command(out)?;
        if let Some(cpus) = self.cpus_per_host {
            words.extend(["--threads".to_owned(), cpus.to_string()]);
        }
        Ok(words)
    }
}

/// `belljar run` of the scenario in the working folder, into `out`.
pub(in crate::command) fn run_command(out: &Path) -> Result<Vec<String>> {
    let program =
        std::env::current_exe().context("cannot find the executable of belljar itself")?;
    let mut words = Vec::new();
    for word in [
        program.as_path(),
        Path::new("run"),
        Path::new(SCENARIO_FILE),
        Path::new("--quiet"),
        Path::new("--out"),
        out,
    ] {
        let text = word.to_str();
        words.push(
            text.with_context(|| format!("the path {} is not text", word.display()))?
                .to_owned(),
        );
    }
    Ok(words)
}

/// Warns of an invalid plan before the job waits in the queue. It is no error, as the plan may be valid
/// on the job's hosts.
pub(in crate::command) fn warn_of_a_bad_plan(scenario: &Scenario, path: &Path) {
    if let Err(error) = Plan::resolve(scenario, path) {
        warning!("on this host the scenario could not run: {error}");
    }
}

/// The folder for a run's results: `wanted`, or the first free name. Also makes the job's folder.
fn place(wanted: Option<&Path>, name: &str) -> Result<PathBuf> {
    let free = |path: &Path| !path.exists() && !with_end(path, ".incomplete").exists();
    if let Some(path) = wanted {
        let path = std::path::absolute(path)?;
        if !free(&path) {
            bail!(
                "{} exists already; choose another with --out, or remove it",
                path.display()
            );
        }
        make_new(&with_end(&path, JOB_FOLDER))?;
        return Ok(path);
    }
    let runs = std::path::absolute("belljar-runs")?;
    for number in 1.. {
        let path = match number {
            1 => runs.join(name),
            _ => runs.join(format!("{name}-{number}")),
        };
        let job = with_end(&path, JOB_FOLDER);
        if free(&path) && make_if_free(&job)? {
            return Ok(path);
        }
    }
    bail!(
        "no unused run name in {}; give one with --out",
        runs.display()
    );
}

/// `path` with `end` added to its name.
pub(in crate::command) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Makes a new folder and its parents.
pub(in crate::command) fn make_new(folder: &Path) -> Result<()> {
    if make_if_free(folder)? {
        return Ok(());
    }
    bail!(
        "{} exists already; choose another with --out, or remove it",
        folder.display()
    );
}

/// As [`make_new`]. Returns false if the folder exists already.
pub(in crate::command) fn make_if_free(folder: &Path) -> Result<bool> {
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above).with_context(|| format!("cannot make {}", above.display()))?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        made => made
            .map(|()| true)
            .with_context(|| format!("cannot make {}", folder.display())),
    }
}

/// Writes a scenario and its files, so that later changes do not affect a waiting job.
pub(in crate::command) fn write_scenario(own: &Standalone, folder: &Path) -> Result<()> {
    let path = folder.join(SCENARIO_FILE);
    write_file(&path, own.text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    for (from, name) in &own.inputs {
        let to = folder.join(name);
        if let Some(above) = to.parent() {
            fs::create_dir_all(above)
                .with_context(|| format!("cannot make {}", above.display()))?;
        }
        fs::copy(from, &to)
            .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}

/// Writes the batch script into the job's new folder and submits it. Returns the job's number. Removes
/// the folder if Slurm refuses the job.
pub(in crate::command) fn hand_in(batch: &BatchJob) -> Result<u32> {
    let keep_and_submit = || {
        let script = batch.script()?;
        let path = batch.folder.join("job.sh");
        write_file(&path, script.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(job::submit(&script)?)
    };
    keep_and_submit().inspect_err(|_| {
        if let Err(error) = fs::remove_dir_all(&batch.folder) {
            warning!("{} stays: {error}", batch.folder.display());
        }
    })
}

fn how_to_follow(number: u32, folder: &Path) -> String {
    format!(
        "follow it with: tail -F {}; cancel it with: scancel {number}",
        folder.join(BatchJob::LOG).display()
    )
}

/// The end of a job.
pub(in crate::command) struct JobEnd {
    /// Slurm's state of the job.
    pub(in crate::command) how: String,
    pub(in crate::command) status: i32,
    pub(in crate::command) signal: i32,
    hosts: String,
}

/// Shows the job's output and progress to its end; `None` when stopped.
fn follow(number: u32, log: &Path, stop: &AtomicBool) -> Result<Option<JobEnd>> {
    let mut shown = 0;
    let mut told = String::new();
    let mut unanswered = 0;
    while !stop.load(Ordering::Relaxed) {
        let records = match job::records(number) {
            Ok(records) => records,
            Err(error) => {
                // The job continues while Slurm's controller is unreachable.
                unanswered += 1;
                if unanswered == PATIENCE {
                    warning!("Slurm does not respond, retrying: {error}");
                }
                thread::sleep(TURN);
                continue;
            }
        };
        unanswered = 0;
        show(log, &mut shown);
        let Some(record) = records.first() else {
            bail!("Slurm does not know job {number} any more");
        };
        let news = match &record.state {
            JobState::Waiting(reason) => format!("waits ({reason})"),
            JobState::Running => format!("runs on {}", record.hosts),
            JobState::Ended {
                how,
                status,
                signal,
            } => {
                return Ok(Some(JobEnd {
                    how: how.clone(),
                    status: *status,
                    signal: *signal,
                    hosts: record.hosts.clone(),
                }));
            }
        };
        if news != told {
            note!("job {number} {news}");
            told = news;
        }
        thread::sleep(TURN);
    }
    Ok(None)
}

/// Shows new lines of a growing log.
fn show(log: &Path, shown: &mut u64) {
    let new = || -> std::io::Result<Vec<u8>> {
        let mut file = open_input(log)?;
        file.seek(SeekFrom::Start(*shown))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // There is no log before the job runs.
    let Ok(bytes) = new() else { return };
    *shown += bytes.len() as u64;
    // Ignores a closed standard output.
    let _ = std::io::stdout().write_all(&bytes);
    let _ = std::io::stdout().flush();
}

fn conclude(end: &JobEnd, out: &Path, log: &Path) -> Result<ExitCode> {
    let broken = with_end(out, ".incomplete");
    let found = [out, &broken].into_iter().find(|path| path.is_dir());
    let place = match found {
        Some(path) => format!("the run directory is {}", path.display()),
        None => format!(
            "there is no run directory here; if the hosts have other file systems, look for \
             {} on {}",
            out.display(),
            end.hosts
        ),
    };
    if end.how == "COMPLETED" {
        note!("the job ended well on {}; {place}", end.hosts);
        return Ok(ExitCode::SUCCESS);
    }
    let reason = format!(
        "the job ended as {} (status {}, signal {}), see {}; {place}",
        end.how,
        end.status,
        end.signal,
        log.display()
    );
    error_line("error", Some(&reason));
    Ok(match end.status {
        0 => ExitCode::FAILURE,
        status => exit_code(status),
    })
}
