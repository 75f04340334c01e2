//! `belljar model generate`: from a model to the run directory of a run that never was.
//!
//! The model determines the calls of ranks and the time of their processors. A replay determines the waiting on the network, so
//! that the trace is like any other. Called by `model`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_analysis::time_words;
use belljar_cluster::results::run_directory::{RunDirectory, SCENARIO_FILE};
use belljar_cluster::scenario::{Scenario, of_run_directory};
use belljar_files::{Registration, read_input_text};
use belljar_model::{MOST_CALLS, Model, generate as make};
use belljar_replay::{Calibration, write_trace};
use belljar_sim::figures::counted;
use belljar_trace::TRACE_FILE;
use clap::Args;
use serde_json::json;

use crate::command::output::show;
use crate::command::predicting::replay::job::{JobArguments, Model as NetworkModel};
use crate::command::predicting::replay::network_warnings::network_warnings_of;
use crate::command::results::trace::generated::ORIGIN_FILE;
use crate::command::terminal::interrupt;
use crate::command::terminal::watch::Watch;

/// The largest file that is taken for a model, in bytes.
const MOST_BYTES: u64 = 1 << 30;

#[derive(Args)]
pub(crate) struct GenerateArguments {
    /// Model file, as `belljar model fit` writes it.
    model: PathBuf,
    /// Number of nodes of the run.
    #[arg(long, value_name = "N")]
    nodes: u32,
    /// Problem size, in the unit of the model's runs.
    #[arg(long, value_name = "SIZE", default_value_t = 1.0)]
    size: f64,
    /// Override a scenario key, such as `network.topology="fat-tree"`; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Model of the network.
    #[arg(long = "network-model", value_enum, default_value = "packet")]
    network: NetworkModel,
    /// New run directory.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `belljar model generate`.
pub(super) fn generate(arguments: &GenerateArguments) -> Result<ExitCode> {
    let model = read(&arguments.model)?;
    let ranks = arguments.nodes.saturating_mul(model.per_node.max(1));
    let made = make(&model, ranks, arguments.size, MOST_CALLS)?;
    let mut warnings = vec![made.origin.clone()];
    warnings.extend(made.warnings.iter().cloned());
    let calls = made.calls();
    let Some(scenario) = model.scenario.clone().map(of_run_directory) else {
        bail!("the model has no scenario, so nothing says on which network the run would be");
    };
    let mut overrides = vec![format!("nodes.count={}", arguments.nodes)];
    overrides.extend(arguments.set.iter().cloned());
    let folder = fs::canonicalize(".").unwrap_or_default();
    let kept = Scenario::standalone(&arguments.model, &scenario, &overrides, &folder)?;
    // Replays the ranks' actions, generated without waiting; the replay's trace becomes the run.
    let unplayed = tempfile::tempdir().context("cannot make a temporary folder")?;
    let _registration = Registration::of_folder(unplayed.path());
    fs::write(unplayed.path().join(SCENARIO_FILE), &kept.text)
        .context("cannot write into a temporary folder")?;
    made.write(&unplayed.path().join(TRACE_FILE))?;
    let job = JobArguments::over(unplayed.path(), arguments.network);
    let job = job.job()?;
    let setting = job.traced()?;
    warnings.extend(network_warnings_of(&setting)?);
    warnings.iter().for_each(|it| warning!("{it}"));
    let own = Calibration::own(&job.program);
    let watch = Watch::over(&job.program);
    let outcome = belljar_replay::replay(&job.program, &own, &setting, || watch.step())?;
    drop(watch);
    if outcome.broken_off {
        return Ok(interrupt::report("no run was generated"));
    }
    if let Some(stuck) = outcome.stuck.first() {
        bail!(
            "call {} of rank {} would never return: the model's ranks do not agree at this size; fit it to more runs",
            stuck.call,
            stuck.rank
        );
    }
    let directory = RunDirectory::create(Some(&arguments.out), "model")?;
    let _incomplete = Registration::of_folder(directory.path());
    directory.write(SCENARIO_FILE, &kept.text)?;
    directory.write(ORIGIN_FILE, &about(arguments, &model, &warnings))?;
    write_trace(
        &job.trace,
        &directory.path().join(TRACE_FILE),
        &job.program,
        &outcome,
    )?;
    directory.complete(Some("checkpoint"))?;
    show(|out| match arguments.json {
        true => writeln!(
            out,
            "{}",
            json!({ "ranks": ranks, "calls": calls, "total_ps": outcome.total_ps, "messages": outcome.messages, "never_ran": true, "warnings": warnings })
        ),
        false => writeln!(
            out,
            "{}, {}, {}: {} from the first call to the last\nrun directory: {}",
            counted(u64::from(ranks), "rank"),
            counted(calls as u64, "call"),
            counted(outcome.messages, "message"),
            time_words(outcome.total_ps),
            arguments.out.display()
        ),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The model in a file.
pub(super) fn read(path: &Path) -> Result<Model> {
    let length = fs::metadata(path)
        .with_context(|| format!("cannot read {}", path.display()))?
        .len();
    if length > MOST_BYTES {
        bail!("{} has {length} bytes, more than any model", path.display());
    }
    let text = read_input_text(path).with_context(|| format!("cannot read {}", path.display()))?;
    Model::load(&text).with_context(|| path.display().to_string())
}

/// The text of `model.txt`: the run's origin, the model, and warnings.
fn about(arguments: &GenerateArguments, model: &Model, warnings: &[String]) -> String {
    let (origin, warnings) = warnings
        .split_first()
        .map_or(("", warnings), |(it, rest)| (it, rest));
    let mut text = format!(
        "{origin}\nmodel: {} of {}, for {} and size {}\n",
        arguments.model.display(),
        model.name,
        counted(u64::from(arguments.nodes), "node"),
        arguments.size
    );
    for warning in warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text
}
