//! `belljar replay calibrate`: hosts' costs by traces of runs.
//!
//! Traces of the ready scenario `pingpong` give the best estimates, as they contain nothing else. All others are accepted, too.
//! Called by `replay`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use belljar_analysis::{Table, time_words};
use belljar_files::{read_input_text, write_file};
use belljar_replay::{Costs, Fit, Fitted, Traced, fit_costs};
use belljar_sim::figures::{decimal, percent};
use clap::Args;

use super::job::{Job, JobArguments, Model};
use crate::command::output::show;
use crate::command::terminal::interrupt;
use crate::command::terminal::watch::Watch;

#[derive(Args)]
pub(crate) struct CalibrateArguments {
    /// Run directories of programs that sent messages.
    ///
    /// All runs have one MPI library. Runs of the scenario `pingpong`, on one network or several, give the best estimates.
    #[arg(required = true)]
    directories: Vec<PathBuf>,
    /// Model of the network.
    #[arg(long, value_enum, default_value = "packet")]
    model: Model,
    /// Write the costs here, for `belljar replay --costs`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `belljar replay calibrate`.
pub(super) fn calibrate(arguments: &CalibrateArguments) -> Result<ExitCode> {
    let over = |directory: &PathBuf| JobArguments::over(directory, arguments.model);
    let each: Vec<JobArguments> = arguments.directories.iter().map(over).collect();
    let jobs: Vec<Job<'_>> = each.iter().map(JobArguments::job).collect::<Result<_>>()?;
    let traced = jobs.iter().map(|job| {
        Ok(Traced {
            program: &job.program,
            setting: job.traced()?,
        })
    });
    let traced: Vec<Traced<'_>> = traced.collect::<Result<_>>()?;
    let watch = Watch::of("plays of the traces", None);
    let fitted = fit_costs(&traced, || watch.step())?;
    drop(watch);
    if let Some(out) = &arguments.out {
        let text = toml::to_string(&fitted.costs)?;
        write_file(out, text)?;
    }
    show(|out| match arguments.json {
        true => {
            serde_json::to_writer_pretty(&mut *out, &fitted)?;
            writeln!(out)
        }
        false => text(&fitted, &arguments.directories, out),
    })?;
    Ok(match fitted.broken_off {
        true => interrupt::report("these are the best costs until then"),
        false => ExitCode::SUCCESS,
    })
}

/// Costs as [`calibrate`] writes them.
///
/// # Errors
/// If the file cannot be read, or has impossible costs.
pub(super) fn costs_of(path: &Path) -> Result<Costs> {
    let text = read_input_text(path)
        .with_context(|| format!("cannot read the costs in {}", path.display()))?;
    let costs: Costs = toml::from_str(&text).with_context(|| {
        format!(
            "{} has no costs; make them with: belljar replay calibrate DIR --out FILE",
            path.display()
        )
    })?;
    costs
        .check()
        .with_context(|| format!("in {}", path.display()))?;
    Ok(costs)
}

/// Text for a terminal.
fn text(fitted: &Fitted, directories: &[PathBuf], out: &mut dyn Write) -> io::Result<()> {
    if fitted.broken_off {
        writeln!(out, "Broken off: these are the best costs until then.\n")?;
    }
    writeln!(out, "Costs, in cycles of a node's processor")?;
    let mut table = Table::new(["cost", "before", "fitted", ""]);
    for cost in &fitted.each {
        let said = match cost.determined {
            true => "",
            false => "not determined by these traces",
        };
        let cycles = |cycles: f64| match cycles < 10.0 {
            true => decimal(cycles, 2),
            false => decimal(cycles, 0),
        };
        table.row(vec![
            cost.name.to_owned(),
            cycles(cost.was),
            cycles(cost.is),
            said.to_owned(),
        ]);
    }
    table.write(out)?;
    writeln!(
        out,
        "\nModel fit of calls that move data: unexplained work of hosts, and overestimated time"
    )?;
    let mut table = Table::new(["trace", "in calls", "before", "", "fitted", ""]);
    for ((directory, before), after) in directories.iter().zip(&fitted.before).zip(&fitted.after) {
        let share = |fit: &Fit, part: u64| percent(part, fit.inside_ps.max(1));
        table.row(vec![
            directory.display().to_string(),
            time_words(before.inside_ps),
            share(before, before.more_ps),
            share(before, before.less_ps),
            share(after, after.more_ps),
            share(after, after.less_ps),
        ]);
    }
    table.write(out)
}
