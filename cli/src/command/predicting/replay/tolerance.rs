//! The tolerance of a replayed run to a worse network: `belljar replay --tolerance`.
//!
//! It is computed in the LogGOPS model, independent of the replay's model: a message has a single latency and bandwidth
//! there. Called by `replay`.

use std::io::{self, Write};

use anyhow::Result;
use belljar_analysis::{Table, time_words};
use belljar_replay::{LevelTolerance, Tolerance};
use belljar_sim::figures::{self, counted};

use super::infiniband;
use super::job::Job;
use super::placement::PlacementArguments;
use crate::command::terminal::watch::Watch;

/// The tolerance of a run as options change it; `None` if some of its calls never return, or the user interrupts it.
///
/// # Errors
/// If the run cannot be replayed.
pub(super) fn of(job: &Job<'_>, placement: &PlacementArguments) -> Result<Option<Tolerance>> {
    let (traced, wanted) = job.by_formulas(placement)?;
    let calibration = belljar_replay::calibrate(&job.program, &traced)?;
    let watch = Watch::of("calls played for the tolerance", None);
    let found = belljar_replay::tolerance(&job.program, &calibration, &wanted, || watch.step());
    let has_cards = job.wanted_scenario()?.0.infiniband.is_some();
    Ok(match has_cards {
        true => found?.map(infiniband::of_links),
        false => found?,
    })
}

/// Text for a terminal.
pub(super) fn text(tolerance: Option<&Tolerance>, out: &mut dyn Write) -> io::Result<()> {
    let Some(found) = tolerance else {
        return Ok(());
    };
    writeln!(
        out,
        "\nTolerance to a worse network, in the LogGOPS model with {} of latency and {}",
        time_words(found.latency_ps),
        rate(found.bandwidth)
    )?;
    let mut table = Table::new([
        "main part longer by",
        "added latency",
        "latency times",
        "bandwidth divided by",
        "bandwidth left",
    ]);
    for level in &found.levels {
        table.row(row(level));
    }
    table.write(out)?;
    writeln!(
        out,
        "  latency is {} of the main part of {}: the critical path has {} one after another",
        figures::share(found.latency_share, 2),
        time_words(found.main_ps),
        counted(found.latency_sensitivity.round() as u64, "message"),
    )
}

fn row(level: &LevelTolerance) -> Vec<String> {
    let any = || "any".to_owned();
    let thousandths = level.slowdown_thousandths;
    vec![
        format!("{} %", thousandths as f64 / 10.0),
        level.added_latency_ps.map_or_else(any, time_words),
        match (level.added_latency_ps, level.latency_factor) {
            (None, _) => any(),
            (_, None) => "-".to_owned(),
            (_, Some(factor)) => figures::decimal(factor, 2),
        },
        level
            .bandwidth_divisor
            .map_or_else(any, |divisor| figures::decimal(divisor, 2)),
        level.bandwidth.map_or_else(any, rate),
    ]
}

/// A bandwidth with three digits or more.
fn rate(bits: u64) -> String {
    let (unit, name) = match bits {
        1_000_000_000.. => (1e9, "Gb/s"),
        1_000_000.. => (1e6, "Mb/s"),
        _ => (1e3, "kb/s"),
    };
    format!("{} {name}", figures::decimal(bits as f64 / unit, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_a_row_for_each_slowdown() {
        let level = |slowdown_thousandths, added| LevelTolerance {
            slowdown_thousandths,
            added_latency_ps: added,
            latency_factor: added.map(|_| 1.5),
            bandwidth_divisor: Some(4.0),
            bandwidth: Some(2_500_000_000),
        };
        let found = Tolerance {
            main_ps: 100_000_000,
            latency_ps: 2_000_000,
            bandwidth: 10_000_000_000,
            latency_sensitivity: 5.0,
            latency_share: 0.1,
            levels: vec![level(10, Some(1_000_000)), level(50, None)],
        };
        let mut out = Vec::new();
        text(Some(&found), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        for words in [
            "1 %",
            "5 %",
            "1.50",
            "4.00",
            "2.50 Gb/s",
            "any",
            "10.00 %",
            "5 messages one after",
        ] {
            assert!(out.contains(words), "{words} in {out}");
        }
    }
}
