//! `belljar place`: searches the best placement of a traced run's ranks.
//!
//! Called by `main`.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use belljar_analysis::{Table, time_words};
use belljar_files::write_file;
use belljar_program::Program;
use belljar_replay::{Calibration, Effort, Method, Placement, Setting, calibrate, replay, search};
use clap::Args;
use serde_json::json;

use super::doubts::doubts;
use super::hostfile::name_of;
use super::job::{Job, JobArguments};
use super::placement::PlacementArguments;
use super::render::change;
use crate::command::output::show;
use crate::command::terminal::progress::TerminalTask;

#[derive(Args)]
pub(crate) struct PlaceArguments {
    #[command(flatten)]
    job: JobArguments,
    /// Maximum number of ranks on each node.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_node: u32,
    /// Number of replays in simulated annealing.
    #[arg(long, value_name = "N", default_value_t = 200)]
    tries: u32,
    /// Seed of the search.
    ///
    /// The same seed finds the same placement.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the best placement here.
    ///
    /// Each line is the node of a rank, as `--mapping` of `belljar replay` and `belljar run` reads it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the placement as a rankfile of Open MPI, too.
    #[arg(long, value_name = "FILE")]
    rankfile: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `belljar place`.
pub(crate) fn place(arguments: &PlaceArguments) -> Result<ExitCode> {
    let job = arguments.job.job()?;
    let program = &job.program;
    let calibration = calibrate(program, &job.traced()?)?;
    let setting = job.wanted(&PlacementArguments::default())?;
    let effort = Effort {
        slots: arguments.ranks_per_node,
        tries: arguments.tries,
        seed: arguments.seed,
    };
    let all = Method::CONSTRUCTIVE + u64::from(effort.tries);
    let task = TerminalTask::of_steps("placements", Some(all));
    let placements = search(program, &calibration, &setting, effort, || {
        task.step();
    })?;
    drop(task);
    if let Some(best) = placements.first() {
        let ranks = names(program, best, &setting);
        let list: String = ranks.iter().fold(String::new(), |mut text, host| {
            let _ = writeln!(text, "{host}");
            text
        });
        let rankfile = (0..)
            .zip(&ranks)
            .fold(String::new(), |mut text, (rank, host)| {
                let _ = writeln!(text, "rank {rank}={host} slot=0");
                text
            });
        for (file, text) in [(&arguments.out, list), (&arguments.rankfile, rankfile)] {
            if let Some(path) = file {
                write_file(path, text)?;
            }
        }
    }
    let warnings = match placements.first() {
        Some(best) => warnings(&job, &calibration, &setting, best)?,
        None => Vec::new(),
    };
    show(|out| match arguments.json {
        true => json(program, &placements, &warnings, out),
        false => {
            text(program, &placements, &setting, out)?;
            let mut lines = warnings.iter();
            lines.try_for_each(|warning| writeln!(out, "Warning: {warning}"))
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Warnings about the figures of the best placement.
fn warnings(
    job: &Job<'_>,
    calibration: &Calibration,
    setting: &Setting,
    best: &Placement,
) -> Result<Vec<String>> {
    let setting = Setting {
        hosts: best.hosts.clone(),
        ..setting.clone()
    };
    let outcome = replay(&job.program, calibration, &setting, || true)?;
    let network = job.network_warnings(job.arguments, &setting)?;
    let doubts = doubts(&job.program, calibration, &setting, true, &outcome);
    Ok([&job.warnings[..], &network, &doubts].concat())
}

/// The names of ranks' nodes, as hostfiles have them.
fn names(program: &Program, placement: &Placement, setting: &Setting) -> Vec<String> {
    let hosts = by_rank(program, placement).into_iter();
    match setting.network.paths() {
        Some((topology, _)) => hosts.map(|host| name_of(host, topology)).collect(),
        None => hosts.map(|host| format!("node{host}")).collect(),
    }
}

/// The node of each rank of the first job.
fn by_rank(program: &Program, placement: &Placement) -> Vec<u32> {
    let all = program.processes.iter().zip(&placement.hosts);
    let mut ranks: Vec<(u32, u32, u32)> = all
        .map(|(process, host)| (process.job, process.rank, *host))
        .collect();
    ranks.sort_unstable();
    let first = ranks.first().map(|(job, ..)| *job);
    let own = ranks.into_iter().filter(|(job, ..)| Some(*job) == first);
    own.map(|(.., host)| host).collect()
}

fn text(
    program: &Program,
    placements: &[Placement],
    setting: &Setting,
    out: &mut dyn Write,
) -> io::Result<()> {
    let as_run = placements
        .iter()
        .find(|placement| placement.method.name() == "as run");
    let mut table = Table::new(["placement", "predicted", "change", "frames x latency"]);
    for placement in placements {
        table.row(vec![
            placement.method.name().to_owned(),
            time_words(placement.total_ps),
            as_run.map_or_else(String::new, |was| change(was.total_ps, placement.total_ps)),
            time_words(placement.weight_ps),
        ]);
    }
    table.write(out)?;
    let Some(best) = placements.first() else {
        return Ok(());
    };
    let nodes = names(program, best, setting);
    writeln!(out, "\nBest: ranks 0, 1, ... on {}", nodes.join(" "))
}

fn json(
    program: &Program,
    placements: &[Placement],
    warnings: &[String],
    out: &mut dyn Write,
) -> io::Result<()> {
    let all = placements.iter().map(|placement| {
        json!({
            "method": placement.method,
            "total_ps": placement.total_ps,
            "weight_ps": placement.weight_ps,
            "nodes": by_rank(program, placement),
        })
    });
    let all = json!({ "placements": all.collect::<Vec<_>>(), "warnings": warnings });
    serde_json::to_writer_pretty(&mut *out, &all)?;
    writeln!(out)
}
