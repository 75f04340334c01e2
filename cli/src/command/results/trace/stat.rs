//! `belljar trace stat`, and its page at the end of a run.
//!
//! Called by `trace`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use belljar_analysis::{Filter, Ratio, Statistics, TimesMode};
use belljar_cluster::plan;
use belljar_trace::{TRACE_FILE, TraceState};
use clap::Args;

use super::collected::warn;
use super::efficiency::{self, ScalingChoice};
use super::{FilterArguments, counted, filter, nodes, results, several_of, trace_file};
use crate::command::output::show;

#[derive(Args)]
pub(crate) struct StatArguments {
    /// Run directories or trace files; several appear side by side.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Print cycles per instruction instead.
    ///
    /// They are split into core, caches, memory, idle and MPI.
    #[arg(long)]
    cpi: bool,
    /// Print only calls, bytes and messages.
    ///
    /// Times are not read, so this is several times as fast, and works on files with damaged times.
    #[arg(long, conflicts_with = "cpi")]
    counts: bool,
    /// Replay on an ideal network for two more efficiencies.
    ///
    /// They are serialisation and transfer efficiency.
    #[arg(long, conflicts_with_all = ["cpi", "counts"])]
    efficiency: bool,
    /// Growth of the problem with ranks, for computation scaling.
    ///
    /// It applies to several runs. By default it is detected.
    #[arg(long, value_enum, value_name = "strong|weak")]
    scaling: Option<ScalingChoice>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterArguments,
}

/// `belljar trace stat`.
pub(super) fn stat(arguments: &StatArguments) -> Result<ExitCode> {
    let of = |path: &Path| -> Result<(Statistics, TraceState)> {
        Ok(match counted(&arguments.filter, path, arguments.counts)? {
            (wanted, TimesMode::Read) => {
                let mut found = belljar_analysis::statistics(path, &wanted)?;
                if arguments.efficiency {
                    efficiency::add_ideal(&mut found.0, path)?;
                }
                found
            }
            (wanted, TimesMode::Unread) => belljar_analysis::counts(path, &wanted)?,
        })
    };
    let [trace] = arguments.traces.as_slice() else {
        if arguments.cpi {
            bail!("--cpi is for one run at a time; leave out the others");
        }
        let compare = |found: &mut [(String, Statistics)]| {
            efficiency::compare(found, arguments.scaling);
        };
        return several_of(&arguments.traces, arguments.json, of, compare);
    };
    if arguments.scaling.is_some() {
        bail!("--scaling compares several runs; name them all");
    }
    let path = trace_file(trace);
    warn(&path)?;
    if arguments.cpi {
        return cpi(arguments, &path);
    }
    let (statistics, state) = of(&path)?;
    let groups = nodes::groups_of(&path);
    results(&state, |out| match arguments.json {
        true => {
            let mut text = Vec::new();
            statistics.write_json(&mut text)?;
            nodes::add_to(&text, &groups, out)
        }
        false => {
            statistics.write(out)?;
            out.write_all(nodes::told(&groups).as_bytes())
        }
    })
}

/// `belljar trace stat --cpi`.
fn cpi(arguments: &StatArguments, path: &Path) -> Result<ExitCode> {
    let filter = filter(&arguments.filter, path)?;
    let processors = nodes::processors_of(path)?;
    let (mut statistics, state) = belljar_analysis::cpi(path, &filter, ratio(processors.ratio))?;
    statistics.processors = processors.most;
    results(&state, |out| match arguments.json {
        true => statistics.write_json(out),
        false => statistics.write(out),
    })
}

/// Cycles per instruction as a fraction.
fn ratio(ratio: f64) -> Ratio {
    let (cycles, instructions) = plan::kinds::ratio_parts(ratio);
    Ratio {
        cycles: cycles.into(),
        instructions: instructions.into(),
    }
}

/// Prints a page of the statistics of a run's trace, if it has one.
pub(in crate::command) fn print_statistics(directory: &Path) -> Result<()> {
    let path = directory.join(TRACE_FILE);
    if path.exists() {
        let (statistics, _) = belljar_analysis::statistics(&path, &Filter::default())?;
        show(|out| {
            statistics.write_page(out)?;
            let directory = directory.display();
            writeln!(out, "more of this: belljar trace stat {directory}")?;
            writeln!(out)
        })?;
    }
    Ok(())
}
