//! Runs with failures, and their results.
//!
//! Each run has one failure and no other change of the base run. The first failing run of each kind of failure and verdict gets a scenario of its
//! own. Called by `explore`, after the orders.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use belljar_replay::{map_in_parallel, processors};
use belljar_sim::figures::decimal;
use serde::Serialize;

use super::arguments::Budget;
use super::faults::{Fault, FaultChoice, FaultKind, faults};
use super::session::OrderRun;
use super::verdict::Verdict;
use super::{Exploration, MOST_AT_ONCE};
use crate::command::terminal::interrupt::Deferral;
use crate::command::terminal::progress::TerminalTask;

/// The heads of the columns of the table of failures.
const HEADS: &str =
    "run,kind,rank,node,at_seconds,place,verdict,detail,processor_seconds,virtual_seconds";

/// The results of injected failures.
#[derive(Debug, Default, Serialize)]
pub(super) struct FaultOutcome {
    runs: usize,
    /// Processor seconds of a run, as the median.
    median_seconds: f64,
    #[serde(skip)]
    seconds: Vec<f64>,
    /// Failures without a run, because the budget ended.
    left: usize,
    verdicts: BTreeMap<&'static str, usize>,
    pub(super) failed: usize,
    pub(super) failures: Vec<FaultFailure>,
    /// The reason, if no failure was injected.
    skipped: Option<String>,
}

/// The first failing run of a kind of failure and a verdict.
#[derive(Debug, Serialize)]
pub(super) struct FaultFailure {
    fault: Fault,
    verdict: &'static str,
    detail: String,
    /// Number of runs with this kind of failure and this verdict.
    number: usize,
    /// Scenario that repeats it.
    scenario: PathBuf,
    directory: PathBuf,
}

impl Exploration {
    /// Injects the failures of `wanted`, until the budget or the user ends it.
    pub(super) fn inject(
        &mut self,
        wanted: &FaultChoice,
        budget: Budget,
        deferral: &Deferral,
    ) -> Result<Option<FaultOutcome>> {
        if wanted.kinds.is_empty() {
            return Ok(None);
        }
        if wanted.kinds.contains(&FaultKind::Loss) && self.session.has_infiniband() {
            bail!(
                "--faults loss: networks of InfiniBand cards lose no packets; leave loss out, or the table infiniband"
            );
        }
        let mut outcome = FaultOutcome::default();
        let Some(base) = self.runs.get(&0).filter(|run| !run.verdict.fails()) else {
            outcome.skipped = Some("the base run fails without a failure".to_owned());
            return Ok(Some(outcome));
        };
        let all = faults(&base.directory, wanted)?;
        let mut table = self.session.table_file("faults.csv")?;
        writeln!(table, "{HEADS}")?;
        let task = TerminalTask::of_steps("failures", Some(all.len() as u64));
        let mut waiting = &all[..];
        while !waiting.is_empty() && !deferral.is_wanted() {
            let room = self.room(budget).min(MOST_AT_ONCE).min(waiting.len());
            if room == 0 {
                break;
            }
            let (now, later) = waiting.split_at(room);
            let begun = outcome.runs;
            let session = &self.session;
            let runs = map_in_parallel(processors(), now.len(), |at| {
                let name = format!("fault-{}", begun + at + 1);
                session.carry_out(&name, &[], Some(&now[at]))
            });
            let mut ended = 0;
            for (fault, run) in now.iter().zip(runs) {
                if run.is_err() && deferral.is_wanted() {
                    // The signal ended the run, too.
                    ended += 1;
                    continue;
                }
                self.take_fault(fault, run?, &mut outcome, &mut table)?;
                task.step();
            }
            waiting = later;
            outcome.left += ended;
        }
        outcome.left += waiting.len();
        outcome.seconds.sort_by(f64::total_cmp);
        let middle = outcome.seconds.get(outcome.seconds.len() / 2);
        outcome.median_seconds = middle.copied().unwrap_or(0.0);
        Ok(Some(outcome))
    }

    fn take_fault(
        &mut self,
        fault: &Fault,
        mut run: OrderRun,
        outcome: &mut FaultOutcome,
        table: &mut File,
    ) -> Result<()> {
        self.done += 1;
        outcome.runs += 1;
        outcome.seconds.push(run.cpu);
        self.session.compare(&mut run)?;
        write_row(table, outcome.runs, fault, &run)?;
        *outcome.verdicts.entry(run.verdict.word()).or_default() += 1;
        if !run.verdict.fails() {
            if !self.keeps_all {
                run.remove()?;
            }
            return Ok(());
        }
        outcome.failed += 1;
        let known = outcome.failures.iter_mut();
        let mut same = known
            .filter(|known| known.fault.kind == fault.kind && known.verdict == run.verdict.word());
        if let Some(known) = same.next() {
            known.number += 1;
            return match self.keeps_all {
                true => Ok(()),
                false => run.remove(),
            };
        }
        let name = format!("fault-failure-{}", outcome.runs);
        let scenario = self.session.write_scenario(&name, &[], Some(fault))?;
        if let Some(folder) = scenario.parent() {
            super::write_decision(folder, fault.at_ps)?;
        }
        outcome.failures.push(FaultFailure {
            verdict: run.verdict.word(),
            detail: run.verdict.detail(),
            number: 1,
            scenario,
            directory: run.directory,
            fault: fault.clone(),
        });
        Ok(())
    }

    /// Runs that the budget permits.
    pub(super) fn room(&self, budget: Budget) -> usize {
        match budget {
            Budget::Runs(most) => most.saturating_sub(self.done),
            Budget::Time(most) if self.session.clock().elapsed() >= most => 0,
            Budget::Time(_) => MOST_AT_ONCE,
        }
    }
}

fn write_row(table: &mut File, number: usize, fault: &Fault, run: &OrderRun) -> Result<()> {
    let seconds = |ps: u64| decimal(ps as f64 / 1e12, 9);
    let cells = [
        number.to_string(),
        fault.kind.name().to_owned(),
        fault.rank.to_string(),
        fault.node.to_string(),
        seconds(fault.at_ps),
        fault.place.clone(),
        run.verdict.word().to_owned(),
        run.verdict.detail(),
        decimal(run.cpu, 3),
        seconds(run.virtual_ps),
    ];
    let cells = cells
        .iter()
        .map(|cell| format!("\"{}\"", cell.replace('"', "\"\"")));
    let row = cells.collect::<Vec<_>>().join(",");
    writeln!(table, "{row}").context("cannot write faults.csv")
}

impl FaultOutcome {
    /// The failing runs, as text.
    pub(super) fn write_failures(&self, out: &mut String) {
        for failure in &self.failures {
            let words = failure.fault.words();
            let (verdict, detail) = (failure.verdict, &failure.detail);
            let _ = writeln!(out, "Failure: {words}: {verdict}: {detail}");
            if failure.number > 1 {
                let more = failure.number - 1;
                let _ = writeln!(
                    out,
                    "  {more} more runs with this kind of failure: {verdict}"
                );
            }
            let _ = writeln!(
                out,
                "  repeat it with: belljar run {}",
                failure.scenario.display()
            );
            if let Some(folder) = failure.scenario.parent() {
                let folder = folder.display();
                let _ = writeln!(out, "  see it with: belljar debug {folder}\n");
            }
        }
    }

    /// The figures, as text.
    pub(super) fn write(&self, out: &mut String, end: &str) {
        if let Some(reason) = &self.skipped {
            let _ = writeln!(out, "warning: no failures were injected: {reason}");
            return;
        }
        let verdicts = self.verdicts.iter();
        let verdicts: Vec<String> = verdicts
            .map(|(word, count)| format!("{count} {word}"))
            .collect();
        if self.runs > 0 {
            let _ = writeln!(
                out,
                "{} runs with a failure: {}; {} processor seconds (median)",
                self.runs,
                verdicts.join(", "),
                decimal(self.median_seconds, 2)
            );
        }
        if self.left > 0 {
            let _ = writeln!(
                out,
                "warning: {end}; {} failures were not injected",
                self.left
            );
        }
        let missed = Verdict::NotInjected(String::new());
        if let Some(missed) = self.verdicts.get(missed.word()) {
            let _ = writeln!(
                out,
                "warning: {missed} failures met no frame or no process, and changed nothing; see faults.csv"
            );
        }
        let undecided = self
            .verdicts
            .get(Verdict::Undecided(String::new()).word())
            .copied()
            .unwrap_or(0);
        if undecided > 0 {
            let _ = writeln!(
                out,
                "warning: {undecided} runs with a failure reached their limit of virtual time; raise --patience"
            );
        }
    }
}
