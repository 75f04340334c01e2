//! The page of predictions and real results.
//!
//! Called by `validate`.

use std::fmt::Write as _;

use super::compare::Errors;
use super::networks::{BASE, LOSSY};

/// The head of a table of predictions.
const TABLE: &str = "\n| program | nodes | traced on | replayed on | run | total | main part | rank | functions | calls |\n|---|---|---|---|---|---|---|---|---|---|\n";

/// A prediction and the real result.
pub(super) struct ValidationRow {
    pub(super) program: String,
    pub(super) nodes: u32,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    /// True if the topologies differ, and SimGrid does not play them.
    pub(super) of_shapes: bool,
    pub(super) errors: Errors,
    /// Errors of SimGrid's totals: with its defaults, and with the hosts' costs of replay; `None` if it fails.
    pub(super) simgrid: [Option<f64>; 2],
}

/// The page: an introduction, the table, and a summary.
pub(super) fn page(rows: &[ValidationRow]) -> String {
    let (shapes, kernels): (Vec<&ValidationRow>, Vec<&ValidationRow>) =
        rows.iter().partition(|row| row.of_shapes);
    let mut page = introduction();
    page.push_str(
        "\n| program | nodes | traced on | replayed on | run | total | main part | rank | functions | calls | SMPI | calibrated |\n\
|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in &kernels {
        let [simgrid, calibrated] = row.simgrid.map(|error| {
            error.map_or_else(
                || "fails".to_owned(),
                |error| format!("{:+.1} %", error * 100.0),
            )
        });
        // Writing to a String cannot fail.
        let _ = writeln!(page, "{} {simgrid} | {calibrated} |", cells(row));
    }
    summarize(&mut page, &kernels, true);
    if !shapes.is_empty() {
        add_patterns(&mut page, shapes);
    }
    page
}

/// The page's text before the first table.
fn introduction() -> String {
    format!(
        "# How far replays are off\n\n\
`belljar replay` predicts the time of a run on another network from a trace. This page compares predictions with real runs, and with SimGrid's replays of the same traces. \
`cargo xtask validate` writes it: each program runs as a whole system on each network, and is replayed in the model `packet` from a trace of another network. Means and maxima \
of the errors are below each table. The kernels are those of [scenarios/validate/kernels.c](../scenarios/validate/kernels.c).\n\n\
The network *base* is {BASE}. Each other network differs in the named value; *tree* has two nodes or switches below each switch, and 10 us and 5 Gb/s between switches.\n\n\
| column | meaning |\n|---|---|\n\
| run | time of the run on the second network, from the first call's entry to the last return, including some 30 ms of `MPI_Init` and `MPI_Finalize` |\n\
| total | error of the prediction of this time |\n\
| main part | error of the time between `MPI_Init` and `MPI_Finalize` ([definition](analyses.md#the-main-part)) |\n\
| rank | error of the time of the rank with the largest error |\n\
| functions | sum of the errors of each function's time, relative to the run's time in calls, without `MPI_Init` and `MPI_Finalize` |\n\
| calls | the same for single calls; *other calls* if the program makes other calls on the second network |\n\
| SMPI | error of the total of SimGrid's `smpirun -replay` with its own settings: of the export by `belljar trace export --format ti`, on the second network as platform, with the trace's time in `MPI_Init` and `MPI_Finalize` |\n\
| calibrated | the same with the replay's costs of hosts (`smpi/os`, `smpi/or`), the library's rendezvous threshold, collective operations as messages of the library (`--messages`), and factors of bandwidth only for the frames' headers |\n"
    )
}

/// The text before the table of patterns.
fn introduction_to_patterns() -> String {
    format!(
        "\n## Patterns on other shapes\n\n\
These are programs of [scenarios/validate/patterns.c](../scenarios/validate/patterns.c) on eight nodes, or with two ranks on each of four nodes (*x 2*). `MPI_Init` is less than a tenth of \
their time. `xtask/src/validate/networks.rs` describes the networks:\n\n\
| network | shape |\n|---|---|\n\
| far | a star of 1 Gb/s and 10 us |\n\
| torus | 2 x 2 x 2 switches with one node each |\n\
| fat tree | two leaves of four nodes below two switches |\n\
| oversubscribed | two switches of four nodes, with one link of 5 Gb/s between them |\n\
| dragonfly | two groups of two switches |\n\
| {LOSSY} | *far* with queues of 32 KiB at each port, which lose frames |\n"
    )
}

/// The page's text before the table of runs with InfiniBand cards.
fn introduction_with_cards() -> &'static str {
    "# How far replays of InfiniBand are off\n\n\
`cargo xtask validate --infiniband` writes this page as it writes [accuracy.md](accuracy.md), whose columns it has: programs run as whole systems on nodes with \
[InfiniBand cards](infiniband.md), and each trace is replayed on the other networks. The library is MPICH 4.0.2 over UCX 1.13. `MPI_Init` and `MPI_Finalize` take most of the total, so the main part is what counts.\n\n\
| network | shape |\n|---|---|\n\
| base | EDR, one switch |\n\
| FDR, HDR | links, switches and cards of these generations |\n\
| far | cables of 1 us |\n\
| thin | a tree with two nodes or switches below each switch, and 25 Gb/s between switches |\n"
}

/// The page of runs with InfiniBand cards.
pub(super) fn page_with_cards(rows: &[ValidationRow]) -> String {
    let mut page = introduction_with_cards().to_owned();
    page.push_str(TABLE);
    for row in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "{}", cells(row));
    }
    summarize(&mut page, &rows.iter().collect::<Vec<_>>(), false);
    page
}

/// Adds the tables of patterns on other shapes.
fn add_patterns(page: &mut String, shapes: Vec<&ValidationRow>) {
    page.push_str(&introduction_to_patterns());
    page.push_str(TABLE);
    for row in &shapes {
        let _ = writeln!(page, "{}", cells(row));
    }
    let (lossy, whole): (Vec<&ValidationRow>, Vec<&ValidationRow>) = shapes
        .into_iter()
        .partition(|row| [row.from, row.to].contains(&LOSSY));
    summarize(page, &whole, false);
    let _ = writeln!(page, "\nFrom and to *{LOSSY}*, with lost frames:");
    summarize(page, &lossy, false);
}

/// The cells of a row in all tables.
fn cells(row: &ValidationRow) -> String {
    let Errors {
        real_ps,
        total,
        real_main_ps,
        main,
        rank,
        functions,
        calls,
    } = row.errors;
    let calls = calls.map_or_else(
        || "other calls".to_owned(),
        |calls| format!("{:.1} %", calls * 100.0),
    );
    format!(
        "| {} | {} | {} | {} | {:.1} ms | {:+.1} % | {:+.1} % of {:.1} ms | {:.1} % | {:.1} % | {calls} |",
        row.program,
        row.nodes,
        row.from,
        row.to,
        real_ps / 1e9,
        total * 100.0,
        main * 100.0,
        real_main_ps / 1e9,
        rank * 100.0,
        functions * 100.0
    )
}

/// Means and maxima of the errors of these rows.
fn summarize(page: &mut String, rows: &[&ValidationRow], simgrid: bool) {
    let _ = writeln!(page, "\nErrors of {} predictions:\n", rows.len());
    let _ = writeln!(page, "| | mean | worst |\n|---|---|---|");
    let of = |of: fn(&ValidationRow) -> Option<f64>| -> Vec<f64> {
        rows.iter()
            .filter_map(|row| of(row))
            .map(f64::abs)
            .collect()
    };
    let mut kinds = vec![
        ("replay, main part", of(|row| Some(row.errors.main))),
        ("replay, total", of(|row| Some(row.errors.total))),
        ("replay, by function", of(|row| Some(row.errors.functions))),
        ("replay, by call", of(|row| row.errors.calls)),
    ];
    if simgrid {
        kinds.push(("SMPI, total", of(|row| row.simgrid[0])));
        kinds.push(("SMPI, calibrated, total", of(|row| row.simgrid[1])));
    }
    for (whose, errors) in kinds {
        let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        let worst = errors.into_iter().fold(0.0, f64::max);
        let _ = writeln!(
            page,
            "| {whose} | {:.1} % | {:.1} % |",
            mean * 100.0,
            worst * 100.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_the_book_has_the_same_text() {
        let page = std::fs::read_to_string(crate::root().join("docs/accuracy.md"));
        let page = page.expect("the page is there");
        assert!(page.starts_with(&introduction()), "another introduction");
        assert!(page.contains(&introduction_to_patterns()), "other patterns");
        let page = std::fs::read_to_string(crate::root().join("docs/accuracy-infiniband.md"));
        let page = page.expect("the page is there");
        assert!(
            page.starts_with(introduction_with_cards()),
            "another introduction"
        );
    }
}
