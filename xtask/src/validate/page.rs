//! The page of predictions and real results.
//!
//! Called by `validate`.

use std::fmt::Write as _;

use super::compare::Errors;
use super::networks::{BASE, LOSSY};

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
    let mut page = String::from(
        "# How far replays are off\n\nMade by `cargo xtask validate`. Each program ran as a whole system on each network, and was replayed (model packet) from a \
trace taken on another one.\n",
    );
    let (shapes, kernels): (Vec<&ValidationRow>, Vec<&ValidationRow>) =
        rows.iter().partition(|row| row.of_shapes);
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "*base* is {BASE}; the others change what their names say, and *tree* has two nodes or switches below each switch, with 10 us and 5 Gb/s between switches.\n\n\
*run* is the time of the run on the second network, from the first call's entry to the last's return, some 30 ms of `MPI_Init` and `MPI_Finalize` included, and *total* the error of its prediction; \
*rank* is the error of the worst rank's time. *main part* is the error over the time between `MPI_Init` and `MPI_Finalize` ([definition](replay.md)). \
*functions* and *calls* leave out `MPI_Init` and `MPI_Finalize`: sums over functions, and over calls, of the errors of each, over the time in calls of the run. The \
kernels are those of [scenarios/validate/kernels.c](../scenarios/validate/kernels.c).\n\n\
*SMPI* is the error of the total of SimGrid's `smpirun -replay`, of the same trace as `belljar trace export --format ti` writes it, on the other network as its platform, \
with what `MPI_Init` and `MPI_Finalize` took in the trace: with SimGrid's own settings, and *calibrated* with the hosts' costs that replay has (`smpi/os`, `smpi/or`), \
the library's rendezvous threshold, collective operations as the messages of the library that ran (`--messages`), and no factors on bandwidth and latency but the frames' headers.\n\n\
| program | nodes | traced on | replayed on | run | total | main part | rank | functions | calls | SMPI | calibrated |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for row in &kernels {
        let [simgrid, calibrated] = row.simgrid.map(|error| {
            error.map_or_else(
                || "fails".to_owned(),
                |error| format!("{:+.1} %", error * 100.0),
            )
        });
        let _ = writeln!(page, "{} {simgrid} | {calibrated} |", cells(row));
    }
    summarize(&mut page, &kernels, true);
    if shapes.is_empty() {
        return page;
    }
    let _ = writeln!(
        page,
        "\n## Patterns on other shapes\n\nPrograms of [scenarios/validate/patterns.c](../scenarios/validate/patterns.c) on eight nodes, or with two ranks on each of four nodes (*x 2*), of which `MPI_Init` is \
below a tenth. The networks are whole descriptions in `xtask/src/validate/networks.rs`: *far* has 1 Gb/s and 10 us, *fat tree* two leaves of four nodes below two switches, *oversubscribed* two \
switches of four nodes with one link of 5 Gb/s between them, *dragonfly* two groups of two switches, and *{LOSSY}* is *far* with 32 KiB at each port.\n\n\
| program | nodes | traced on | replayed on | run | total | main part | rank | functions | calls |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for row in &shapes {
        let _ = writeln!(page, "{}", cells(row));
    }
    let (lossy, whole): (Vec<&ValidationRow>, Vec<&ValidationRow>) = shapes
        .into_iter()
        .partition(|row| [row.from, row.to].contains(&LOSSY));
    summarize(&mut page, &whole, false);
    let _ = writeln!(page, "\nFrom and to *{LOSSY}*, where frames are lost:");
    summarize(&mut page, &lossy, false);
    page
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
