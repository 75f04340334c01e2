//! Runs of an exploration, each with a run directory.
//!
//! The base run keeps checkpoints. Other runs continue the newest one before their first delay, or begin at the boot if there is
//! none. A run is observed and judged when it has ended. Called by `explore`.
#![allow(clippy::disallowed_methods)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use belljar_analysis::{HangVerdict, hang, observed_run};
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::run::checkpoint::BranchPoints;
use belljar_files::{read_input_text, write_file};
use belljar_orders::{ForcedDelay, ObservedRun};
use belljar_sim::Time;
use belljar_trace::TRACE_FILE;
use serde_json::Value;
use toml::Table;

use super::delayed::scenario;
use super::faults::Fault;
use super::processes::Processes;
use super::verdict::{Judge, Verdict};
use crate::command::results::trace::hang::{lost, unrecorded};
use crate::command::running::run::branches::INTERRUPTED;

/// Time before the first delay at which a checkpoint must have been made, in picoseconds: nodes may be ahead of it.
const MARGIN_PS: u64 = 100_000_000;
/// Checkpoints that are tried for a run.
const MOST_POINTS: usize = 3;
/// Checkpoints of the base run that stay.
const MOST_KEPT: u32 = 64;
/// The end of a run directory's name before the run is complete.
const INCOMPLETE: &str = "incomplete";
/// The folder of a run directory with its scenario's files.
const INPUTS: &str = "inputs";

/// The delays and the failure of a run.
type Changes<'a> = (&'a [ForcedDelay], Option<&'a Fault>);

/// A run that has ended.
#[derive(Clone, Debug)]
pub(super) struct OrderRun {
    pub(super) delays: Vec<ForcedDelay>,
    pub(super) directory: PathBuf,
    pub(super) observed: ObservedRun,
    pub(super) verdict: Verdict,
    /// Processor seconds of the process.
    pub(super) cpu: f64,
    pub(super) virtual_ps: u64,
    /// Time of the checkpoint that it continued, in picoseconds; `None` if it began at the boot.
    pub(super) from_ps: Option<u64>,
}

impl OrderRun {
    /// Removes the run's directory.
    pub(super) fn remove(&mut self) -> Result<()> {
        let path = &self.directory;
        fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// The base run, and the settings of all others.
pub(super) struct Session {
    out: PathBuf,
    base: PathBuf,
    /// The base run's scenario.
    table: Table,
    points: BranchPoints,
    /// End of the base run, in picoseconds, and the time that others may last longer.
    end_ps: u64,
    patience_ps: u64,
    judge: Judge,
    processes: Processes,
    start: Instant,
    /// Directory of the first run that passed, with which results are compared.
    reference: Option<PathBuf>,
}

impl Session {
    /// Carries out the base run: `words` are its command, with an empty word before the program.
    pub(super) fn begin(
        out: &Path,
        words: &[String],
        every: &str,
        patience_ps: u64,
        judge: Judge,
        is_confined: bool,
    ) -> Result<(Self, OrderRun)> {
        let start = Instant::now();
        let whole = out.join("base");
        let mut own = vec!["--out".to_owned(), path_text(&whole)?, "--quiet".to_owned()];
        for setting in [
            format!("checkpoint.every={every}"),
            format!("checkpoint.keep={MOST_KEPT}"),
            "checkpoint.after-init=true".to_owned(),
            "trace.enabled=true".to_owned(),
        ] {
            own.extend(["--set".to_owned(), setting]);
        }
        let place = words.iter().position(String::is_empty);
        let (before, program) = words.split_at(place.unwrap_or(words.len()));
        let program = program.get(1..).unwrap_or_default();
        let log = out.join("base.log");
        if !is_confined {
            own.push("--no-sandbox".to_owned());
        }
        let all: Vec<&String> = before.iter().chain(&own).chain(program).collect();
        belljar(&all, &log)?;
        let Some(base) = ended(&whole) else {
            bail!("the base run did not start: {}", last_lines(&log));
        };
        let path = base.join(SCENARIO_FILE);
        let text =
            read_input_text(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let table: Table = text
            .parse()
            .with_context(|| format!("{} is damaged", path.display()))?;
        if let Some(missing) = unrecorded(&base.join(TRACE_FILE)) {
            bail!("{missing}, and explore needs all of them; leave the key out");
        }
        if table.get("engine").and_then(toml::Value::as_str) == Some("kvm") {
            bail!("engine = \"kvm\" does not repeat runs; use engine = \"exact\"");
        }
        let summary = figures(&base, "summary.json")?;
        let session = Self {
            out: out.to_owned(),
            points: BranchPoints::of(&base),
            end_ps: end(&base, &summary)?,
            base: base.clone(),
            table,
            patience_ps,
            judge,
            processes: Processes::new(out, is_confined),
            start,
            reference: None,
        };
        let run = session.observe(base, (&[], None), None)?;
        Ok((session, run))
    }

    /// True if nodes have InfiniBand cards.
    pub(super) fn has_infiniband(&self) -> bool {
        self.table.contains_key("infiniband")
    }

    /// The begin of the exploration.
    pub(super) fn clock(&self) -> Instant {
        self.start
    }

    /// Carries out a run with these delays and this failure, in a directory of this name.
    pub(super) fn carry_out(
        &self,
        name: &str,
        delays: &[ForcedDelay],
        fault: Option<&Fault>,
    ) -> Result<OrderRun> {
        let whole = self.out.join(name);
        let begun = delays.iter().map(|delay| delay.at_ps);
        let begun = begun.chain(fault.map(|fault| fault.at_ps)).min();
        let text = self.scenario(delays, fault)?;
        let Some(first) = begun else {
            return self.boot(&whole, &text, (delays, fault));
        };
        let latest = Time::from_ps(first.saturating_sub(MARGIN_PS));
        for (number, at) in self.points.before(latest).take(MOST_POINTS) {
            let incomplete = whole.with_added_extension(INCOMPLETE);
            self.points.branch(number, &incomplete, &text)?;
            let failure = self.processes.carry_out(&incomplete)?;
            let Some(directory) = ended(&whole) else {
                let why = failure.unwrap_or_default();
                bail!("the run {name} left no directory: {why}");
            };
            match failure {
                None => return self.observe(directory, (delays, fault), Some(at.as_ps())),
                // A node had run beyond the first delay.
                Some(why) if why.contains("does not fit") => fs::remove_dir_all(&directory)?,
                Some(why) if why == INTERRUPTED => {
                    fs::remove_dir_all(&directory)?;
                    bail!("the run {name} was interrupted");
                }
                Some(why) => bail!("the run {name} failed: {why}"),
            }
        }
        self.boot(&whole, &text, (delays, fault))
    }

    fn boot(&self, whole: &Path, text: &str, changes: Changes<'_>) -> Result<OrderRun> {
        let name = whole.file_name().unwrap_or_default().to_string_lossy();
        let path = self.base.join(format!("{name}.toml"));
        write_file(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        let log = whole.with_added_extension("log");
        let words = ["run", "--quiet", "--threads", "1", "--out"].map(str::to_owned);
        let (whole_text, scenario) = (path_text(whole)?, path_text(&path)?);
        belljar(
            &words
                .iter()
                .chain([&whole_text, &scenario])
                .collect::<Vec<_>>(),
            &log,
        )?;
        fs::remove_file(&path).context("cannot remove a scenario")?;
        let directory = ended(whole).filter(|directory| directory.join("summary.json").exists());
        let Some(directory) = directory else {
            bail!("the run {name} failed: {}", last_lines(&log));
        };
        fs::remove_file(&log).context("cannot remove a log")?;
        self.observe(directory, changes, None)
    }

    /// The scenario of a run with these delays and this failure. Its limit of virtual time permits the delays.
    fn scenario(&self, delays: &[ForcedDelay], fault: Option<&Fault>) -> Result<String> {
        let spans = delays.iter().map(|delay| delay.until_ps - delay.at_ps);
        let failure = fault.map_or(0, |fault| {
            fault.for_ps.unwrap_or_default() + fault.kind.recovery_ps()
        });
        let limit = self.end_ps + spans.sum::<u64>() + failure + self.patience_ps;
        scenario(&self.table, delays, fault, Some(limit))
    }

    fn observe(
        &self,
        directory: PathBuf,
        (delays, fault): Changes<'_>,
        from_ps: Option<u64>,
    ) -> Result<OrderRun> {
        let trace = directory.join(TRACE_FILE);
        let observed = observed_run(&trace)
            .with_context(|| format!("cannot read the trace of {}", directory.display()))?;
        let summary = figures(&directory, "summary.json")?;
        let host = figures(&directory, "host.json")?;
        Ok(OrderRun {
            verdict: self.judge.judge(&directory, &summary, fault)?,
            virtual_ps: summary["virtual_time_ps"].as_u64().unwrap_or_default(),
            cpu: host["processor_seconds"].as_f64().unwrap_or_default(),
            directory,
            observed,
            delays: delays.to_vec(),
            from_ps,
        })
    }

    /// Compares the results of a run that passed with those of the first one; the first one is kept.
    pub(super) fn compare(&mut self, run: &mut OrderRun) -> Result<()> {
        if run.verdict != Verdict::Passed {
            return Ok(());
        }
        let Some(reference) = &self.reference else {
            self.reference = Some(run.directory.clone());
            return Ok(());
        };
        if let Some(difference) = self.judge.difference(&run.directory, reference)? {
            run.verdict = Verdict::Differs(difference);
        }
        Ok(())
    }

    /// True if the results of other runs are compared with this one's.
    pub(super) fn is_reference(&self, run: &OrderRun) -> bool {
        self.reference.as_deref() == Some(&*run.directory)
    }

    /// Gives a run's directory this name.
    pub(super) fn settle(&self, run: &mut OrderRun, name: &str) -> Result<()> {
        let is_whole = run.directory.extension() != Some(INCOMPLETE.as_ref());
        let name = self.out.join(name);
        let to = if is_whole {
            name
        } else {
            name.with_added_extension(INCOMPLETE)
        };
        fs::rename(&run.directory, &to)
            .with_context(|| format!("cannot rename {}", run.directory.display()))?;
        run.directory = to;
        Ok(())
    }

    /// A new table among the results.
    pub(super) fn table_file(&self, name: &str) -> Result<File> {
        let path = self.out.join(name);
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Writes a folder with a scenario with these delays, this failure and its inputs, which any user can run; returns the scenario's path.
    pub(super) fn write_scenario(
        &self,
        name: &str,
        delays: &[ForcedDelay],
        fault: Option<&Fault>,
    ) -> Result<PathBuf> {
        let text = self.scenario(delays, fault)?;
        let (folder, inputs) = (self.out.join(name), self.base.join(INPUTS));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        if inputs.is_dir() {
            copy_folder(&inputs, &folder.join(INPUTS))?;
        }
        let path = folder.join(SCENARIO_FILE);
        write_file(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

/// The virtual time at which a run ended, in picoseconds. A run that hangs ended with the last call of a rank.
fn end(directory: &Path, summary: &Value) -> Result<u64> {
    let end = summary["virtual_time_ps"].as_u64().unwrap_or_default();
    if summary["exit_code"].is_i64() {
        return Ok(end);
    }
    let trace = directory.join(TRACE_FILE);
    let (hang, _) = hang(&trace, Some(end), &lost(&trace)?, None)?;
    let is_stuck = hang.verdict != HangVerdict::NotStuck;
    let last = hang.ranks.iter().map(|rank| rank.since_ps).max();
    Ok(last.filter(|_| is_stuck).unwrap_or(end))
}

/// Copies the files of a folder.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let (path, target) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        match path.is_dir() {
            true => copy_folder(&path, &target)?,
            false => {
                fs::copy(&path, &target)
                    .with_context(|| format!("cannot copy {}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// Runs this program with these words, and its output in a log.
fn belljar(words: &[&String], log: &Path) -> Result<()> {
    let program = std::env::current_exe().context("cannot find belljar itself")?;
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let status = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status();
    status.context("cannot start a run")?;
    Ok(())
}

/// The directory of a run, complete or not.
fn ended(whole: &Path) -> Option<PathBuf> {
    let incomplete = whole.with_added_extension(INCOMPLETE);
    [whole.to_owned(), incomplete]
        .into_iter()
        .find(|path| path.is_dir())
}

fn figures(directory: &Path, name: &str) -> Result<Value> {
    let path = directory.join(name);
    let text = read_input_text(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
}

fn path_text(path: &Path) -> Result<String> {
    let text = path.to_str();
    Ok(text
        .with_context(|| format!("the path {} is not text", path.display()))?
        .to_owned())
}

/// The last lines of a log.
pub(super) fn last_lines(log: &Path) -> String {
    let text = read_input_text(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}
