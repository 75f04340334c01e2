//! `belljar model fit`: from runs to a model.
//!
//! Each run is calibrated on its own network, so that what calls wait is not in the model. Called by `model`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_analysis::Table;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::{Scenario, of_run_directory};
use belljar_model::{Model, Traced, Values, learn, rounded};
use belljar_program::Program;
use belljar_replay::Calibration;
use belljar_sim::figures::{counted, share};
use clap::Args;
use serde_json::json;

use crate::command::output::show;
use crate::command::replay::job::{JobArguments, Model as NetworkModel};

/// Functions that are listed, at most.
const LISTED: usize = 24;

#[derive(Args)]
pub(crate) struct FitArguments {
    /// Run directories of one program; each with `=SIZE` where the size of its problem differs, a number above 0 in whatever unit.
    #[arg(required = true, value_name = "DIR[=SIZE]")]
    runs: Vec<String>,
    /// Write the model to this file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// A run as a model needs it.
struct Run {
    directory: PathBuf,
    trace: PathBuf,
    program: Program,
    calibration: Calibration,
    size: f64,
}

/// `belljar model fit`.
pub(super) fn fit(arguments: &FitArguments) -> Result<ExitCode> {
    let runs: Vec<Run> = arguments
        .runs
        .iter()
        .map(|word| run(word))
        .collect::<Result<_>>()?;
    let traced = runs.iter().map(|run| Traced {
        trace: &run.trace,
        program: &run.program,
        calibration: &run.calibration,
        size: run.size,
    });
    let traced: Vec<Traced<'_>> = traced.collect();
    let largest = runs.iter().max_by_key(|run| run.program.processes.len());
    let scenario = largest.map(|run| scenario_of(&run.directory)).transpose()?;
    let model = learn(&traced, scenario)?;
    fs::write(&arguments.out, model.save()?)
        .with_context(|| format!("cannot write {}", arguments.out.display()))?;
    show(|out| match arguments.json {
        true => {
            serde_json::to_writer_pretty(&mut *out, &rounded(told(&model)))?;
            writeln!(out)
        }
        false => text(&model, &arguments.out, out),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The run in a directory, and the size that follows its name.
fn run(word: &str) -> Result<Run> {
    let (directory, size) = match word.rsplit_once('=') {
        Some((directory, size)) if !Path::new(word).exists() => {
            let number: f64 = size.parse().with_context(|| {
                format!("the size of {directory} is no number: {size:?}; write DIR=SIZE")
            })?;
            (PathBuf::from(directory), number)
        }
        _ => (PathBuf::from(word), 1.0),
    };
    if !(size.is_finite() && size > 0.0) {
        bail!(
            "the size of {} must be a number above 0",
            directory.display()
        );
    }
    let arguments = JobArguments::over(&directory, NetworkModel::Packet);
    let job = arguments.job()?;
    let calibration = belljar_replay::calibrate(&job.program, &job.traced()?)?;
    Ok(Run {
        trace: job.trace.clone(),
        program: job.program,
        calibration,
        directory,
        size,
    })
}

/// A run's scenario, without the workload's files.
fn scenario_of(directory: &Path) -> Result<String> {
    let path = directory.join(SCENARIO_FILE);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = of_run_directory(text);
    let folder = fs::canonicalize(directory).unwrap_or(directory.to_owned());
    let without = ["workload.files={}".to_owned()];
    let kept = Scenario::standalone(&path, &text, &without, &folder)?;
    if let Some((file, _)) = kept.inputs.first() {
        eprintln!(
            "warning: the model does not keep {}, which its scenario names: give its place again when a run is made of it",
            file.display()
        );
    }
    Ok(kept.text)
}

/// How wrong functions are, the worst last: the mean, the median and the worst of their errors.
fn errors(model: &Model) -> (f64, f64, f64) {
    let functions = model.functions();
    let all = functions.iter().flat_map(|(.., values)| values.functions());
    let mut errors: Vec<f64> = all.map(|of| of.error).collect();
    errors.sort_by(f64::total_cmp);
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let median = errors.get(errors.len() / 2).copied().unwrap_or(0.0);
    (mean, median, errors.last().copied().unwrap_or(0.0))
}

fn form(values: &Values) -> String {
    match values {
        Values::Same(of) => of.to_string(),
        Values::Ends(ends) => format!("{} (first: {}; last: {})", ends[1], ends[0], ends[2]),
        Values::Periodic(parts) => format!("one of {} by turns", parts.len()),
        Values::ByTurn(turns) => format!("by turn, {} of them", turns.len()),
        Values::Profile(of, parts) => format!("{of}, a profile of {} parts", parts.len()),
    }
}

fn text(model: &Model, file: &Path, out: &mut dyn Write) -> io::Result<()> {
    let (calls, loops) = model.extent();
    let runs: Vec<String> = model
        .runs
        .iter()
        .map(|(ranks, size)| format!("{}, size {size}", counted(u64::from(*ranks), "rank")))
        .collect();
    writeln!(out, "{}: {}", model.name, runs.join("; "))?;
    writeln!(
        out,
        "classes of ranks: {}, by {}; calls in their text: {calls}; loops: {loops}",
        model.classes.len(),
        serde_json::to_string(&model.roles.role).unwrap_or_default()
    )?;
    let (mean, median, worst) = errors(model);
    writeln!(
        out,
        "error of functions at points that they were not fitted to: {} in the mean, {} in the median, {} at worst\n",
        share(mean, 2),
        share(median, 2),
        share(worst, 1)
    )?;
    let mut table = Table::new(["class", "function", "value", "error", "form"]);
    let mut functions = model.functions();
    // Times that go on for long matter most; counts and bytes are few.
    functions.retain(|(.., values)| values.functions().iter().any(|of| of.at(1.0, 1.0) != 0.0));
    for (class, function, value, values) in functions.iter().take(LISTED) {
        let error = values
            .functions()
            .iter()
            .map(|of| of.error)
            .fold(0.0, f64::max);
        table.row(vec![
            class.to_string(),
            function.clone(),
            (*value).to_owned(),
            share(error, 2),
            form(values),
        ]);
    }
    table.write(out)?;
    if functions.len() > LISTED {
        writeln!(out, "and {} more: --json has all", functions.len() - LISTED)?;
    }
    writeln!(out, "\nmodel: {}", file.display())
}

fn told(model: &Model) -> serde_json::Value {
    let functions = model.functions();
    let functions = functions.iter().map(|(class, function, value, values)| {
        json!({ "class": class, "function": function, "value": value, "is": values })
    });
    let (mean, median, worst) = errors(model);
    json!({
        "name": model.name,
        "runs": model.runs,
        "role": model.roles.role,
        "classes": model.classes.len(),
        "error": { "mean": mean, "median": median, "worst": worst },
        "functions": functions.collect::<Vec<_>>(),
    })
}
