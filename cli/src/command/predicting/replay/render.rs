//! Results of a replay, as text and as JSON.
//!
//! Called by `replay`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use belljar_analysis::{Table, time_words};
use belljar_mpi::FUNCTIONS;
use belljar_replay::{Costs, Fit, Outcome, Tolerance, Without};
use belljar_sim::Frequency;
use belljar_sim::figures::{self, counted_as};
use serde_json::json;

use super::by_loop::{self, LoopOutcome};
use super::tolerance;

/// Number of links in the list.
const LINKS: usize = 8;
/// Number of functions in the list.
const FUNCTIONS_LISTED: usize = 16;

/// All results of a replay.
pub(super) struct Said<'a> {
    /// Warnings about the trace and the network, already printed.
    pub(super) lacks: &'a [String],
    /// Warnings about the replay's own figures.
    pub(super) doubts: &'a [String],
    /// Outcome of the replay.
    pub(super) outcome: &'a Outcome,
    /// Model fit to the traced times.
    pub(super) fit: Fit,
    /// Outcomes without some costs, with `--bounds`.
    pub(super) bounds: &'a [Without],
    /// Tolerance of latency and bandwidth, with `--tolerance`.
    pub(super) tolerance: Option<&'a Tolerance>,
    /// Times by loop, with `--loops`.
    pub(super) loops: &'a [LoopOutcome],
    /// Hosts' costs for messages.
    pub(super) costs: Costs,
    /// The clock of each process's processor.
    pub(super) clocks: &'a [Frequency],
    /// Options that are no scenario keys, by name, without defaults.
    pub(super) options: &'a BTreeMap<&'static str, String>,
}

pub(super) fn name(function: u16) -> &'static str {
    let function = FUNCTIONS.get(usize::from(function));
    function.map_or("MPI_?", |function| function.name)
}

/// Relative change, in percent.
pub(super) fn change(was: u64, is: u64) -> String {
    figures::change(was, is)
}

/// Text for a terminal. `stuck` has the lines about calls that never return.
pub(super) fn text(said: &Said<'_>, stuck: &[String], out: &mut dyn Write) -> io::Result<()> {
    let outcome = said.outcome;
    let change_of_all = match outcome.stuck.is_empty() {
        true => change(outcome.traced_ps, outcome.total_ps),
        false => "and some calls never return".to_owned(),
    };
    writeln!(
        out,
        "Predicted: {} from the first call to the last return; traced {}, {change_of_all}",
        time_words(outcome.total_ps),
        time_words(outcome.traced_ps),
    )?;
    writeln!(
        out,
        "Main part: {} from the first return of a call that starts MPI to the last entry of one that ends it; traced {}{}",
        time_words(outcome.main_ps),
        time_words(outcome.traced_main_ps),
        match change(outcome.traced_main_ps, outcome.main_ps) {
            change if change.is_empty() => change,
            change => format!(", {change}"),
        }
    )?;
    for doubt in said.doubts {
        writeln!(out, "Warning: {doubt}")?;
    }
    if outcome.broken_off {
        writeln!(
            out,
            "Broken off: all figures are of the {} returned by then.",
            counted_as(
                outcome.times.iter().map(Vec::len).sum::<usize>() as u64,
                "call that had",
                "calls that had"
            )
        )?;
    }
    stuck.iter().try_for_each(|call| write!(out, "{call}"))?;
    writeln!(out, "\nRanks")?;
    let heads = [
        "rank", "total", "traced", "change", "in MPI", "traced", "waiting",
    ];
    let mut table = Table::new(heads);
    for rank in &outcome.ranks {
        table.row(vec![
            rank.rank.to_string(),
            time_words(rank.total_ps),
            time_words(rank.traced_ps),
            change(rank.traced_ps, rank.total_ps),
            time_words(rank.mpi_ps),
            time_words(rank.traced_mpi_ps),
            time_words(rank.waited_ps),
        ]);
    }
    table.write(out)?;
    writeln!(out, "\nFunctions")?;
    let mut table = Table::new(["function", "calls", "total", "traced", "change", "waiting"]);
    for function in outcome.functions.iter().take(FUNCTIONS_LISTED) {
        table.row(vec![
            name(function.function).to_owned(),
            function.calls.to_string(),
            time_words(function.total_ps),
            time_words(function.traced_ps),
            change(function.traced_ps, function.total_ps),
            time_words(function.waited_ps),
        ]);
    }
    table.write(out)?;
    by_loop::text(said.loops, out)?;
    links(outcome, out)?;
    depends(outcome, said.bounds, out)?;
    tolerance::text(said.tolerance, out)?;
    explained(said.fit, out)
}

fn links(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    if outcome.links.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nLinks, busiest first")?;
    let mut table = Table::new(["link", "bytes", "busy", "share", "dropped"]);
    for load in outcome.links.iter().take(LINKS) {
        table.row(vec![
            load.name.clone(),
            load.bytes.to_string(),
            time_words(load.busy.as_ps()),
            figures::percent(load.busy.as_ps(), outcome.total_ps.max(1)),
            load.dropped.to_string(),
        ]);
    }
    table.write(out)
}

/// The result's dependence on network and processors.
fn depends(outcome: &Outcome, bounds: &[Without], out: &mut dyn Write) -> io::Result<()> {
    if bounds.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWhat it depends on")?;
    let mut table = Table::new(["it would take", "total", "change", "main part", "change"]);
    for without in bounds {
        table.row(vec![
            without.cost.words().to_owned(),
            time_words(without.total_ps),
            change(outcome.total_ps, without.total_ps),
            time_words(without.main_ps),
            change(outcome.main_ps, without.main_ps),
        ]);
    }
    table.write(out)
}

/// The model fit to the traced times.
fn explained(fit: Fit, out: &mut dyn Write) -> io::Result<()> {
    let share = |part: u64| figures::percent(part, fit.inside_ps.max(1));
    writeln!(
        out,
        "\nOf {} in calls that move data, MPI_Init and MPI_Finalize left out, {} are hosts' work that no cost explains, and {} were explained too long.",
        time_words(fit.inside_ps),
        share(fit.more_ps),
        share(fit.less_ps)
    )
}

/// The change in percent, to a thousandth; `None` if the first value is 0.
fn percent(was: u64, is: u64) -> Option<f64> {
    let change = (is as f64 - was as f64) / was as f64 * 100.0;
    change
        .is_finite()
        .then(|| (change * 1000.0).round() / 1000.0)
}

/// JSON for programs.
pub(super) fn json(said: &Said<'_>, out: &mut dyn Write) -> io::Result<()> {
    let outcome = said.outcome;
    let functions = outcome.functions.iter().map(|of| {
        json!({
            "function": name(of.function), "calls": of.calls, "total_ps": of.total_ps,
            "traced_ps": of.traced_ps, "waited_ps": of.waited_ps, "moved_ps": of.moved_ps,
        })
    });
    let links = outcome.links.iter().map(|load| {
        json!({
            "link": load.name, "bytes": load.bytes, "busy_ps": load.busy.as_ps(), "dropped": load.dropped,
        })
    });
    let stuck = outcome.stuck.iter().map(|of| {
        json!({
            "job": of.job, "rank": of.rank, "call": of.call, "function": name(of.function),
            "traced_ps": of.traced_ps,
        })
    });
    let whole = json!({
        "total_ps": outcome.total_ps,
        "traced_ps": outcome.traced_ps,
        "main_ps": outcome.main_ps,
        "traced_main_ps": outcome.traced_main_ps,
        "main_change_percent": percent(outcome.traced_main_ps, outcome.main_ps),
        "messages": outcome.messages,
        "broken_off": outcome.broken_off,
        "ranks": outcome.ranks,
        "functions": functions.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "stuck": stuck.collect::<Vec<_>>(),
        "fit": said.fit,
        "lost_frames": outcome.links.iter().map(|load| load.dropped).sum::<u64>(),
        "as_traced": outcome.as_traced,
        "warnings": said.lacks.iter().chain(said.doubts).collect::<Vec<_>>(),
        "bounds": said.bounds,
        "tolerance": said.tolerance,
        "loops": said.loops,
        "costs": said.costs,
        "options": said.options,
        "clocks_hz": said.clocks.iter().map(|clock| clock.as_hz()).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    writeln!(out)
}
