//! `belljar model fit`: from runs to a model.
//!
//! Each run is calibrated on its own network, so that the model excludes waiting in calls. Called by `model`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_analysis::Table;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::{Scenario, of_run_directory};
use belljar_files::{read_input_text, write_file};
use belljar_model::fit::Fitted;
use belljar_model::{Model, Traced, Values, learn, rounded};
use belljar_program::Program;
use belljar_replay::Calibration;
use belljar_sim::figures::{counted, share};
use belljar_trace::TRACE_FILE;
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::command::output::show;
use crate::command::predicting::replay::job::{Calibrated, Rescaled};

/// Functions that are listed, at most.
const LISTED: usize = 24;

#[derive(Args)]
pub(crate) struct FitArguments {
    /// Run directories of one program, with sizes if they differ.
    ///
    /// The size of the problem is a number above 0 in any unit.
    #[arg(required = true, value_name = "DIR[=SIZE]")]
    runs: Vec<String>,
    /// Processor of the own work: a built-in name or a .toml file.
    ///
    /// Each run is rescaled as in `belljar replay`, so the model is of that processor.
    #[arg(long, value_name = "NAME")]
    processor: Option<String>,
    /// Write the model to this file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A run as a model needs it.
struct FitRun {
    directory: PathBuf,
    trace: PathBuf,
    program: Program,
    calibration: Calibration,
    /// Its work on another processor.
    rescaled: Option<Rescaled>,
    size: f64,
}

/// `belljar model fit`.
pub(super) fn fit(arguments: &FitArguments) -> Result<ExitCode> {
    let runs: Vec<FitRun> = arguments
        .runs
        .iter()
        .map(|word| run(word, arguments.processor.as_deref()))
        .collect::<Result<_>>()?;
    let traced = runs.iter().map(|run| Traced {
        trace: &run.trace,
        program: &run.program,
        calibration: &run.calibration,
        size: run.size,
    });
    let traced: Vec<Traced<'_>> = traced.collect();
    let largest = runs.iter().max_by_key(|run| run.program.processes.len());
    let scenario = largest.map(|run| {
        let modelled = run.rescaled.as_ref().is_some_and(|found| found.modelled);
        let processor = arguments.processor.as_deref().filter(|_| modelled);
        scenario_of(&run.directory, processor)
    });
    let mut model = learn(&traced, scenario.transpose()?)?;
    for warning in runs
        .iter()
        .filter_map(|run| run.rescaled.as_ref())
        .flat_map(|found| &found.warnings)
    {
        if !model.warnings.contains(warning) {
            model.warnings.push(warning.clone());
        }
    }
    write_file(&arguments.out, model.save()?)?;
    warnings(&model).iter().for_each(|it| warning!("{it}"));
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
fn run(word: &str, processor: Option<&str>) -> Result<FitRun> {
    let (directory, size) = match word.rsplit_once('=') {
        Some((directory, size)) if !Path::new(word).exists() => {
            let number: f64 = size.parse().with_context(|| {
                format!("the size of {directory} is not a number: {size:?}; write DIR=SIZE")
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
    let found = Calibrated::on_processor(&directory, processor)?;
    Ok(FitRun {
        trace: directory.join(TRACE_FILE),
        program: found.program,
        calibration: found.calibration,
        rescaled: found.rescaled,
        directory,
        size,
    })
}

/// A run's scenario, without the workload's files, and with the processor of a rescaled model.
fn scenario_of(directory: &Path, processor: Option<&str>) -> Result<String> {
    let path = directory.join(SCENARIO_FILE);
    let text = read_input_text(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = of_run_directory(text);
    let folder = fs::canonicalize(directory).unwrap_or(directory.to_owned());
    let mut without = vec!["workload.files={}".to_owned()];
    if let Some(name) = processor {
        let whole =
            fs::canonicalize(name).map_or(name.to_owned(), |path| path.display().to_string());
        without.push(format!("nodes.timing.processor={whole:?}"));
    }
    let kept = Scenario::standalone(&path, &text, &without, &folder)?;
    if let Some((file, _)) = kept.inputs.first() {
        warning!(
            "the model does not keep {}, which its scenario names: give its place again when a run is made of it",
            file.display()
        );
    }
    Ok(kept.text)
}

/// Errors of functions at points that they were not fitted to.
#[derive(Clone, Copy, Debug, Serialize)]
struct Errors {
    mean: f64,
    median: f64,
    worst: f64,
}

/// Errors of one part of the program; `None` if no function was evaluated at a point outside its fit.
fn errors(model: &Model, start_up: bool) -> Option<Errors> {
    let functions = model.functions();
    let own = functions.iter().filter(|it| it.start_up == start_up);
    let mut errors: Vec<f64> = own.flat_map(|it| it.values.errors()).collect();
    errors.sort_by(f64::total_cmp);
    Some(Errors {
        mean: errors.iter().sum::<f64>() / errors.len() as f64,
        median: *errors.get(errors.len() / 2)?,
        worst: *errors.last()?,
    })
}

fn errors_text(errors: Option<Errors>) -> String {
    match errors {
        None => "unknown, as there is no point that they were not fitted to".to_owned(),
        Some(Errors {
            mean,
            median,
            worst,
        }) => format!(
            "{} in the mean, {} in the median, {} at worst",
            share(mean, 2),
            share(median, 2),
            share(worst, 1)
        ),
    }
}

/// Warnings about a model, independent of any prediction.
fn warnings(model: &Model) -> Vec<String> {
    match model.runs.last() {
        Some((ranks, size)) => model.doubts(f64::from(*ranks), *size),
        None => Vec::new(),
    }
}

fn form(values: &Values) -> String {
    match values {
        Values::Same(of) => of.to_string(),
        Values::Ends(ends) => format!("{} (first: {}; last: {})", ends[1], ends[0], ends[2]),
        Values::Periodic(parts) => format!("one of {} by turns", parts.len()),
        Values::ByTurn(turns) => format!("by turn, {} of them", turns.len()),
        Values::Profile(of, parts) => format!("{of}, a profile of {} parts", parts.len()),
        Values::Divided { parts, .. } => match parts.as_slice() {
            [Some(division)] => division.to_string(),
            parts => format!("divided among ranks, in {} parts", parts.len()),
        },
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
    writeln!(
        out,
        "errors of functions at points that they were not fitted to:\n  main part: {}\n  start-up: {}\n",
        errors_text(errors(model, false)),
        errors_text(errors(model, true))
    )?;
    let mut table = Table::new(["class", "function", "value", "error", "form"]);
    let mut functions = model.functions();
    let at = model.runs.last().copied().unwrap_or((1, 1.0));
    let is_some = |of: &Fitted| of.at(f64::from(at.0), at.1) != 0.0;
    functions.retain(|it| it.values.functions().iter().any(is_some));
    functions.sort_by_key(|it| it.start_up);
    for of in functions.iter().take(LISTED) {
        let worst = of.values.errors().reduce(f64::max);
        table.row(vec![
            of.class.to_string(),
            of.function.clone(),
            of.what.to_owned(),
            worst.map_or("unknown".to_owned(), |it| share(it, 2)),
            form(of.values),
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
    let functions = functions.iter().map(|of| {
        let part = if of.start_up { "start-up" } else { "main" };
        json!({ "class": of.class, "function": of.function, "value": of.what, "part": part, "is": of.values })
    });
    json!({
        "name": model.name,
        "runs": model.runs,
        "role": model.roles.role,
        "classes": model.classes.len(),
        "error": errors(model, false),
        "start_up_error": errors(model, true),
        "warnings": warnings(model),
        "functions": functions.collect::<Vec<_>>(),
    })
}
