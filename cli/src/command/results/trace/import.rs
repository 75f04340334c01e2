//! `belljar trace import`: traces that other tools wrote, as run directories.
//!
//! Data missing from such a trace is reported on standard error, and recorded in the directory, so that reports mention it, too.
//! Called by `trace`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_cluster::results::run_directory::{RunDirectory, SCENARIO_FILE};
use belljar_cluster::scenario::quantity::Rate;
use belljar_files::Registration;
use belljar_formats::{Format, Imported, Rates};
use belljar_trace::TRACE_FILE;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::command::output::say;

/// Data about the import, in its directory.
const IMPORT_FILE: &str = "import.json";

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ImportFormat {
    /// OTF2 archive, as Score-P writes it.
    ///
    /// The path is its anchor, `traces.otf2`, or its folder.
    Otf2,
    /// GOAL schedule, as text or in its binary form.
    Goal,
    /// Time-independent trace of SimGrid.
    ///
    /// The path is the list of ranks' files, a file with all ranks, or a folder with the list `ranks`.
    Ti,
}

#[derive(Args)]
pub(crate) struct ImportArguments {
    /// Trace file, or folder of an archive.
    file: PathBuf,
    /// New run directory.
    ///
    /// The default is the first free one of `belljar-runs/NAME`, after the trace's name.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Input format; by default detected from the content.
    #[arg(long, value_enum)]
    format: Option<ImportFormat>,
    /// For `ti`: floating-point operations per second of a processor.
    ///
    /// The default is the speed of the hosts in the file `platform.xml` next to the trace, or 1e9.
    #[arg(long, value_name = "NUMBER")]
    flops_per_second: Option<f64>,
    /// Clock of hosts' processors in replays.
    ///
    /// Hosts' costs are cycles of it.
    #[arg(long, value_name = "RATE", default_value = HOST_CLOCK)]
    clock: Rate,
}

/// Clock of the processors with which hosts' costs were measured: the processors of the ready scenario `pingpong`.
const HOST_CLOCK: &str = "2.6 GHz";

/// True if the trace at `trace` was imported.
pub(in crate::command) fn imported(trace: &Path) -> bool {
    trace.with_file_name(IMPORT_FILE).exists()
}

/// `belljar trace import`.
pub(super) fn import(arguments: &ImportArguments) -> Result<ExitCode> {
    let flops_per_second = arguments.flops_per_second;
    if flops_per_second.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
        bail!("--flops-per-second must be a number above 0");
    }
    let format = arguments.format.map(|choice| match choice {
        ImportFormat::Otf2 => Format::Otf2,
        ImportFormat::Goal => Format::Goal,
        ImportFormat::Ti => Format::Ti,
    });
    let format = match format {
        Some(format) => format,
        None => Format::of(&arguments.file)?,
    };
    let name = name_of(&arguments.file);
    let directory = RunDirectory::create(arguments.out.as_deref(), &name)?;
    let registration = Registration::of_folder(directory.path());
    let rates = Rates { flops_per_second };
    let imported = match fill(&directory, arguments, format, rates, &name) {
        Ok(imported) => imported,
        Err(error) => {
            // A failed import cannot be continued.
            let _ = fs::remove_dir_all(directory.path());
            return Err(error);
        }
    };
    let path = directory.complete(Some("checkpoint"))?;
    drop(registration);
    for note in &imported.notes {
        note!("note: {note}");
    }
    say(path.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the trace and the files next to it.
fn fill(
    directory: &RunDirectory,
    arguments: &ImportArguments,
    format: Format,
    rates: Rates,
    name: &str,
) -> Result<Imported> {
    let trace = directory.path().join(TRACE_FILE);
    let (file, clock) = (&arguments.file, arguments.clock);
    let mut imported = belljar_formats::import(file, Some(format), rates, &trace, name)?;
    imported.notes.push(format!(
        "it has no clock of processors: hosts' costs in a replay are cycles at {clock} (--clock; in a replay --set nodes.clock)"
    ));
    keep(directory, arguments, name, &imported)?;
    Ok(imported)
}

/// A name for display and for the run directory.
fn name_of(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let fits = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.');
    let name: String = stem.chars().filter(|it| fits(*it)).take(100).collect();
    match name.trim_start_matches('.') {
        "" => "imported".to_owned(),
        name => name.to_owned(),
    }
}

/// Writes the files next to the trace: a scenario for replays, and data about the import.
fn keep(
    directory: &RunDirectory,
    arguments: &ImportArguments,
    name: &str,
    imported: &Imported,
) -> Result<()> {
    let (file, clock) = (&arguments.file, arguments.clock);
    directory.write(SCENARIO_FILE, &scenario(file, clock, name, imported))?;
    let text = |value: &serde_json::Value| {
        let text = serde_json::to_string_pretty(value);
        text.context("the import cannot be written as JSON")
    };
    let summary = json!({
        "scenario": name,
        "seed": 0,
        "ending": format!("imported from {}", imported.format.name()),
        "exit_code": null,
        "virtual_time_ps": imported.end_ps,
        "mpi_calls": imported.calls,
        "nodes": [],
        "links": [],
        "warnings": imported.notes,
    });
    directory.write("summary.json", &text(&summary)?)?;
    let told = json!({
        "format": imported.format.name(),
        "file": file.display().to_string(),
        "nodes": imported.nodes,
        "processes": imported.processes,
        "calls": imported.calls,
        "clock_hz": clock.0.as_hz(),
        "notes": imported.notes,
    });
    directory.write(IMPORT_FILE, &text(&told)?)?;
    Ok(())
}

/// The scenario of a trace that no run of Belljar made: its nodes, and a network for replays.
fn scenario(file: &Path, clock: Rate, name: &str, imported: &Imported) -> String {
    let from = format!("{} of {}", imported.format.name(), file.display());
    format!(
        "# No guest ran: this stands next to a trace that was imported, so that `belljar replay` has nodes and a network to play it on. The network is \
         a default one, as the\n# trace has none; --set network.latency=\"2 us\" and the like change it. Hosts' costs are cycles of the clock. Image and memory mean nothing here.\n\
         name = {name:?}\ndescription = {from:?}\n\n[image]\nrecipe = \"bookworm-openmpi\"\n\n[nodes]\ncount = {}\nmemory = \"256 MiB\"\n\
         clock = \"{clock}\"\n\n[workload]\ncommand = \"true\"\n",
        imported.nodes
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_cluster::scenario::Scenario;

    #[test]
    fn names_fit_scenarios_and_folders() {
        for (file, expected) in [
            ("a/traces.otf2", "traces"),
            ("a/..", "imported"),
            (".hidden", "hidden"),
            ("x y/\u{e9}\"b.goal", "\u{e9}b"),
        ] {
            assert_eq!(name_of(Path::new(file)), expected, "{file}");
        }
    }

    #[test]
    fn the_scenario_is_one() {
        let imported = Imported {
            format: Format::Goal,
            nodes: 7,
            processes: 7,
            calls: 1,
            end_ps: 1,
            notes: Vec::new(),
        };
        let clock: Rate = HOST_CLOCK.parse().expect("a rate");
        let text = scenario(Path::new("a \"b\".goal"), clock, "a", &imported);
        let read = Scenario::parse(Path::new("scenario.toml"), &text, &[]);
        let nodes = read.expect("it is sound").nodes;
        assert_eq!((nodes.count(), nodes.clock), (7, clock));
    }
}
