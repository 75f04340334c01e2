//! `belljar submit`, and what it shares with `belljar sweep`.
//!
//! A job has copies of all that its scenario is made of in a folder of its own: changes to the originals
//! while it waits do not reach it. A job that Slurm refuses leaves no folder.

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

use super::arguments::ScenarioArguments;
use super::check::read_scenario;
use super::exit_code;
use super::terminal::colour::error_line;
use super::terminal::interrupt::Deferral;

/// How often Slurm is asked.
pub(super) const TURN: Duration = Duration::from_secs(2);
/// How many times Slurm may give no answer before that is told.
const PATIENCE: u32 = 15;

/// What a job asks Slurm for.
#[derive(Args)]
pub(crate) struct JobArguments {
    /// Physical hosts; one when absent.
    #[arg(long = "host-count", value_name = "N")]
    hosts: Option<u32>,
    /// Processors on each host; all of them, with nobody else, when absent.
    #[arg(long, value_name = "N")]
    cpus_per_host: Option<u32>,
    /// Memory on each host, such as `8 GiB`.
    #[arg(long, value_name = "SIZE")]
    mem: Option<Bytes>,
    /// The longest time, as Slurm writes it: `30` (minutes), `2:30:00`, `1-12`. A minute
    /// before its end the run ends in order and keeps what it has.
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// The partition; the cluster's own choice when absent.
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// The account that pays for it.
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
    /// Where results go, on a file system that the hosts have, too; by default a new folder
    /// in `belljar-runs`. The job's own files go to `DIR.job`.
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

/// The end of the name of a job's own folder.
const JOB_FOLDER: &str = ".job";

impl JobArguments {
    /// What is asked of Slurm.
    pub(super) fn wishes(&self) -> Wishes {
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
    pub(super) fn command(&self, out: &Path) -> Result<Vec<String>> {
        let mut words = run_command(out)?;
        if let Some(cpus) = self.cpus_per_host {
            words.extend(["--threads".to_owned(), cpus.to_string()]);
        }
        Ok(words)
    }
}

/// `belljar run` of the scenario in the working folder, into `out`.
pub(super) fn run_command(out: &Path) -> Result<Vec<String>> {
    let program = std::env::current_exe().context("cannot tell where belljar itself is")?;
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

/// What is wrong with a plan here may be right on the hosts; but waiting for them only to
/// see that it is not would be a pity.
pub(super) fn warn_of_a_bad_plan(scenario: &Scenario, path: &Path) {
    if let Err(error) = Plan::resolve(scenario, path) {
        warning!("on this host the scenario could not run: {error}");
    }
}

/// Where a run's results go: `wanted`, or the first free name; its job's folder is made.
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
    bail!("no name is free in {}", runs.display());
}

/// `path` with `end` added to its name.
pub(super) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Makes a folder that is not there yet, and those above it.
pub(super) fn make_new(folder: &Path) -> Result<()> {
    if make_if_free(folder)? {
        return Ok(());
    }
    bail!(
        "{} exists already; choose another with --out, or remove it",
        folder.display()
    );
}

/// As [`make_new`]; whether nobody else had made it.
pub(super) fn make_if_free(folder: &Path) -> Result<bool> {
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

/// Writes a scenario and what it is made of: what is changed while the job waits changes
/// nothing of it.
pub(super) fn write_scenario(own: &Standalone, folder: &Path) -> Result<()> {
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

/// Keeps the batch script in the job's folder, which was made for it, and hands it in; the
/// job's number. Of a job that is refused nothing stays.
pub(super) fn hand_in(batch: &BatchJob) -> Result<u32> {
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

/// How a job ended.
pub(super) struct End {
    /// Slurm's word.
    pub(super) how: String,
    pub(super) status: i32,
    pub(super) signal: i32,
    hosts: String,
}

/// Shows what the job writes and how far it is, to its end; `None` when told to stop.
fn follow(number: u32, log: &Path, stop: &AtomicBool) -> Result<Option<End>> {
    let mut shown = 0;
    let mut told = String::new();
    let mut unanswered = 0;
    while !stop.load(Ordering::Relaxed) {
        let records = match job::records(number) {
            Ok(records) => records,
            Err(error) => {
                // A controller may be away for a while; the job does not need it.
                unanswered += 1;
                if unanswered == PATIENCE {
                    warning!("Slurm gives no answer, asking on: {error}");
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
                return Ok(Some(End {
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

/// Shows what is new in a log that somebody writes to.
fn show(log: &Path, shown: &mut u64) {
    let new = || -> std::io::Result<Vec<u8>> {
        let mut file = open_input(log)?;
        file.seek(SeekFrom::Start(*shown))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // Until the job runs there is none.
    let Ok(bytes) = new() else { return };
    *shown += bytes.len() as u64;
    // Nobody is left to be told where standard output is closed.
    let _ = std::io::stdout().write_all(&bytes);
    let _ = std::io::stdout().flush();
}

fn conclude(end: &End, out: &Path, log: &Path) -> Result<ExitCode> {
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
