//! The table of combinations in text.
//!
//! Columns are the keys of the combinations and the measures. Called by `simulate`.

use std::io::{self, Write};

use belljar_analysis::Table;
use belljar_sim::figures::{decimal, share};

use super::SimulationRow;

/// Text for a terminal.
pub(super) fn text(keys: &[String], rows: &[SimulationRow], out: &mut dyn Write) -> io::Result<()> {
    let heads = [
        "jobs",
        "makespan",
        "utilisation",
        "mean wait",
        "slowdown",
        "bounded",
        "stretch",
        "highest load",
        "mean load",
        "busiest link",
    ];
    let mut table = Table::new(keys.iter().map(String::as_str).chain(heads));
    for SimulationRow {
        values, measures, ..
    } in rows
    {
        let values = values.iter().map(|(_, value)| value.clone());
        let figures = [
            measures.ended.to_string(),
            format!("{} s", decimal(measures.makespan_s, 1)),
            share(measures.utilisation, 1),
            format!("{} s", decimal(measures.mean_wait_s, 1)),
            decimal(measures.mean_slowdown, 2),
            decimal(measures.mean_bounded_slowdown, 2),
            decimal(measures.mean_stretch, 3),
            rate(measures.highest_load as f64),
            rate(measures.mean_load),
            share(measures.highest_share, 0),
        ];
        table.row(values.chain(figures).collect());
    }
    table.write(out)?;
    writeln!(
        out,
        "load is of links' directions; the busiest link's is the most that any was to carry, as a share of what it can"
    )
}

/// Bits per second as text.
pub(super) fn rate(bits: f64) -> String {
    match bits {
        bits if bits >= 1e9 => format!("{} Gb/s", decimal(bits / 1e9, 2)),
        bits if bits >= 1e6 => format!("{} Mb/s", decimal(bits / 1e6, 2)),
        bits => format!("{} kb/s", decimal(bits / 1e3, 2)),
    }
}
