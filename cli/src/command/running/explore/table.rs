//! Results of an exploration: a table that grows with each run, and a summary.
//!
//! The summary says whether all orders were run, and which ones were not. Called by `explore`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use belljar_orders::{DelayPlace, ForcedDelay, Search, Target};
use belljar_sim::figures::decimal;
use serde::Serialize;

use super::detours::DetourOutcome;
use super::explain::Failure;
use super::injection::FaultOutcome;
use super::session::OrderRun;

/// The heads of the table's columns.
const HEADS: &str =
    "run,verdict,detail,new_order,order,delays,processor_seconds,virtual_seconds,from_seconds";
/// Missed targets and unknown choices that are printed.
const LISTED: usize = 8;

/// The share of orders that were run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "extent")]
pub(super) enum Extent {
    /// No target is left.
    Exhausted,
    /// The budget ended before.
    Cut {
        /// Targets that are left.
        left: usize,
    },
}

/// A target that could not be forced.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Missed {
    choice: String,
    message: String,
    reason: String,
    #[serde(skip)]
    target: Target,
}

/// The table of runs.
pub(super) struct ResultTable {
    file: File,
    missed: Vec<Missed>,
}

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) runs: usize,
    pub(super) orders: usize,
    pub(super) failed: usize,
    pub(super) undecided: usize,
    #[serde(flatten)]
    extent: Extent,
    /// True if each order of the choices was run.
    pub(super) all_orders: bool,
    pub(super) verdicts: BTreeMap<&'static str, usize>,
    pub(super) missed: Vec<Missed>,
    /// Choices whose alternatives are unknown.
    pub(super) unknown: Vec<String>,
    pub(super) failures: Vec<Failure>,
    /// Processor seconds of the base run, and the median and the maximum of all others.
    pub(super) base_seconds: f64,
    pub(super) median_seconds: f64,
    pub(super) most_seconds: f64,
    /// True if a signal ended the exploration.
    pub(super) interrupted: bool,
    /// Runs with failures, if any were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) injected: Option<FaultOutcome>,
    /// Runs with random detours, if any were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detours: Option<DetourOutcome>,
    /// Orders that the search does not change.
    pub(super) not_explored: [&'static str; 3],
}

/// Orders that the search does not change.
const NOT_EXPLORED: [&str; 3] = [
    "the number of polls (MPI_Test, MPI_Iprobe) that find nothing",
    "the number of requests that one MPI_Waitsome or MPI_Testsome completes, and completions of sends",
    "the order of processors and threads within a node",
];

/// The last of them after runs with random detours.
const NOT_DRAWN: &str =
    "orders of processors and threads within a node that no random detour caused";

impl ResultTable {
    /// Begins the table in this folder.
    pub(super) fn begin(folder: &Path) -> Result<Self> {
        let path = folder.join("orders.csv");
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut table = Self {
            file,
            missed: Vec::new(),
        };
        writeln!(table.file, "{HEADS}")?;
        Ok(table)
    }

    /// Adds a run.
    pub(super) fn add(&mut self, number: usize, run: &OrderRun, is_new: bool) -> Result<()> {
        let order = run.observed.choices.iter().map(|choice| {
            let (of, from) = (choice.id.rank.rank, choice.matched.from.rank);
            format!("{of}<{from}.{}", choice.matched.number + 1)
        });
        let delays = run.delays.iter().map(words);
        let seconds = |ps: u64| decimal(ps as f64 / 1e12, 6);
        let cells = [
            number.to_string(),
            run.verdict.word().to_owned(),
            run.verdict.detail(),
            is_new.to_string(),
            order.collect::<Vec<_>>().join(" "),
            delays.collect::<Vec<_>>().join("; "),
            decimal(run.cpu, 3),
            seconds(run.virtual_ps),
            run.from_ps.map_or_else(String::new, seconds),
        ];
        let cells = cells
            .iter()
            .map(|cell| format!("\"{}\"", cell.replace('"', "\"\"")));
        writeln!(self.file, "{}", cells.collect::<Vec<_>>().join(","))?;
        Ok(())
    }

    /// Adds a target that could not be forced.
    pub(super) fn missed(&mut self, target: &Target, reason: String) {
        self.missed.push(Missed {
            choice: target.choice.to_string(),
            message: target.message.to_string(),
            reason,
            target: target.clone(),
        });
    }

    /// Sums up.
    pub(super) fn finish(
        self,
        search: &Search,
        runs: &BTreeMap<usize, OrderRun>,
        extent: Extent,
        failures: Vec<Failure>,
        mut unknown: Vec<String>,
    ) -> Outcome {
        unknown.sort();
        unknown.dedup();
        let mut verdicts = BTreeMap::new();
        for run in runs.values() {
            *verdicts.entry(run.verdict.word()).or_default() += 1;
        }
        let missed = self.missed.into_iter();
        let missed: Vec<Missed> = missed
            .filter(|missed| !search.is_observed(&missed.target.wanted))
            .collect();
        let mut seconds: Vec<f64> = runs
            .iter()
            .filter(|(at, _)| **at > 0)
            .map(|(_, run)| run.cpu)
            .collect();
        seconds.sort_by(f64::total_cmp);
        let undecided = verdicts.get("undecided").copied().unwrap_or(0);
        Outcome {
            runs: runs.len(),
            orders: search.orders(),
            failed: runs.values().filter(|run| run.verdict.fails()).count(),
            all_orders: extent == Extent::Exhausted
                && missed.is_empty()
                && unknown.is_empty()
                && undecided == 0,
            undecided,
            extent,
            verdicts,
            missed,
            unknown,
            failures,
            base_seconds: runs.get(&0).map_or(0.0, |run| run.cpu),
            median_seconds: seconds.get(seconds.len() / 2).copied().unwrap_or(0.0),
            most_seconds: seconds.last().copied().unwrap_or(0.0),
            interrupted: false,
            injected: None,
            detours: None,
            not_explored: NOT_EXPLORED,
        }
    }
}

/// A delay in words.
pub(super) fn words(delay: &ForcedDelay) -> String {
    let span = decimal((delay.until_ps - delay.at_ps) as f64 / 1e9, 3);
    let at = decimal(delay.at_ps as f64 / 1e12, 9);
    match delay.place {
        DelayPlace::Hold { from, to } => {
            format!("frames {from}>{to} wait {span} ms from {at} s")
        }
        DelayPlace::Detour { node, processor } => {
            format!("processor {processor} of node {node} is away {span} ms from {at} s")
        }
    }
}

impl Outcome {
    /// True if a run failed.
    pub(super) fn has_failures(&self) -> bool {
        let injected = self.injected.as_ref().map_or(0, |injected| injected.failed);
        self.failed + injected > 0
    }

    /// Takes the runs with random detours.
    pub(super) fn take_detours(&mut self, detours: Option<DetourOutcome>) {
        if detours.as_ref().is_some_and(|detours| detours.runs > 0)
            && let Some(last) = self.not_explored.last_mut()
        {
            *last = NOT_DRAWN;
        }
        self.detours = detours;
    }

    /// As text, for the results in `folder`.
    pub(super) fn text(&self, folder: &Path) -> String {
        let mut out = String::new();
        let end = match self.interrupted {
            true => "a signal ended the exploration",
            false => "the budget ended",
        };
        for failure in &self.failures {
            failure.write(&mut out);
            out.push('\n');
        }
        if let Some(injected) = &self.injected {
            injected.write_failures(&mut out);
        }
        let verdicts: Vec<String> = self
            .verdicts
            .iter()
            .map(|(word, count)| format!("{count} {word}"))
            .collect();
        let _ = writeln!(
            out,
            "{} orders in {} runs: {}",
            self.orders,
            self.runs,
            verdicts.join(", ")
        );
        let others = match self.runs {
            0 | 1 => String::new(),
            _ => format!(
                ", {} (median) to {} for each other run",
                decimal(self.median_seconds, 2),
                decimal(self.most_seconds, 2)
            ),
        };
        let base = decimal(self.base_seconds, 2);
        let _ = writeln!(out, "processor seconds: {base} for the base run{others}");
        if let Some(injected) = &self.injected {
            injected.write(&mut out, end);
        }
        if let Some(detours) = &self.detours {
            detours.write(&mut out, end);
        }
        if self.all_orders {
            let _ = writeln!(out, "all orders of the choices were run");
        }
        if let Extent::Cut { left } = self.extent {
            let _ = writeln!(out, "warning: {end}; {left} or more orders were not run");
        }
        if self.undecided > 0 {
            let _ = writeln!(
                out,
                "warning: {} runs reached their limit of virtual time; raise --patience",
                self.undecided
            );
        }
        for missed in self.missed.iter().take(LISTED) {
            let Missed {
                choice,
                message,
                reason,
                ..
            } = missed;
            let _ = writeln!(
                out,
                "warning: could not force {message} for the {choice}: {reason}"
            );
        }
        if self.missed.len() > LISTED {
            let _ = writeln!(
                out,
                "warning: {} more could not be forced; see summary.json",
                self.missed.len() - LISTED
            );
        }
        for unknown in self.unknown.iter().take(LISTED) {
            let _ = writeln!(out, "warning: {unknown}");
        }
        let _ = writeln!(out, "not explored: {}", self.not_explored.join("; "));
        let _ = write!(out, "results: {}", folder.display());
        out
    }
}
