//! The plan of a replay, in words: the plan of the run, with the network and the options of the replay.
//!
//! A report of a run and its replay compares both plans. Called by `replay`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use anyhow::Result;
use belljar_cluster::plan::Plan;
use belljar_cluster::scenario::quantity::Rate;
use belljar_files::read_input_text;
use clap::ValueEnum;

use super::job::{AS_RUN, Job, JobArguments, Model};
use super::placement::PlacementArguments;

/// Name of the plan in a run directory.
pub(in crate::command) const PLAN_FILE: &str = "plan.txt";
/// Largest plan of a run that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Columns of a line before its value.
const HEAD: usize = 11;

/// The options of a replay that are not keys of the scenario, by their names; defaults are left out.
pub(super) fn options(
    arguments: &JobArguments,
    placement: &PlacementArguments,
) -> BTreeMap<&'static str, String> {
    let path = |path: &std::path::PathBuf| path.display().to_string();
    let model = arguments.model.to_possible_value();
    let model = model.filter(|_| arguments.model != Model::default());
    let scale = (arguments.compute_scale != 1.0).then(|| arguments.compute_scale.to_string());
    let collectives = (arguments.collectives != AS_RUN).then(|| arguments.collectives.clone());
    let all = [
        ("collectives", collectives),
        ("compute-scale", scale),
        ("costs", arguments.costs.as_ref().map(path)),
        ("hostfile", placement.hostfile.as_ref().map(path)),
        ("mapping", placement.mapping.clone()),
        ("processor", arguments.processor.clone()),
        ("model", model.map(|model| model.get_name().to_owned())),
        (
            "ranks-per-node",
            placement.ranks_per_node.map(|each| each.to_string()),
        ),
    ];
    let set = all.into_iter();
    set.filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// The plan of a replay.
///
/// # Errors
/// If the scenario's network is invalid.
pub(super) fn text(job: &Job<'_>, options: &BTreeMap<&'static str, String>) -> Result<String> {
    let (scenario, path) = job.wanted_scenario()?;
    let network = Plan::network_text(&scenario, path)?;
    let of_run = run_plan(job);
    let mut text = format!("replay     of {}\n", job.arguments.directory.display());
    for (name, value) in options {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "           --{name} {value}");
    }
    let clocks = scenario.nodes.kinds(1);
    let clocks = clocks
        .iter()
        .map(|(nodes, _)| (nodes.count(), nodes.clock.0));
    for (number, (count, clock)) in clocks.enumerate() {
        let head = if number == 0 { "nodes" } else { "" };
        let _ = writeln!(text, "{head:<HEAD$}{count} at {}", Rate(clock));
    }
    text.push_str(&network);
    for (name, lines) in of_run {
        if !["replay", "nodes", "network", "infiniband"].contains(&name.as_str()) {
            text.push_str(&lines);
        }
    }
    Ok(text)
}

/// The sections of the run's plan by name, each with its lines; empty without a plan.
fn run_plan(job: &Job<'_>) -> Vec<(String, String)> {
    let path = job.arguments.directory.join(PLAN_FILE);
    let small = fs::metadata(&path).is_ok_and(|data| data.len() <= MOST_BYTES);
    let text = match small {
        true => read_input_text(&path).unwrap_or_default(),
        false => String::new(),
    };
    let mut parts: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let name = line.get(..HEAD).unwrap_or(line).trim();
        if !name.is_empty() || parts.is_empty() {
            parts.push((name.to_owned(), String::new()));
        }
        if let Some((_, lines)) = parts.last_mut() {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    parts
}
