//! `belljar replay`: a traced job on another network, another placement, other processors.
//!
//! The run's own scenario says on what it was traced, and what the options change of it says on what it is played. Called by `main`.

/// Where ranks are placed.
mod placement;
/// What came of it, for people and for programs.
mod render;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_cluster::plan::Plan;
use belljar_cluster::results::run_directory::{RunDirectory, SCENARIO_FILE};
use belljar_cluster::scenario::Scenario;
use belljar_collectives::{Library, Tables};
use belljar_networks::Parameters;
use belljar_program::{Algorithms, Program, extract};
use belljar_replay::{
    Calibration, Costs, NetworkModel, Outcome, Setting, calibrate, without, write_trace,
};
use belljar_sim::Span;
use belljar_trace::{TRACE_FILE, TraceState};
use clap::{Args, ValueEnum};

use super::output::show;
use super::tables::{implementation, tables_of_run};
use placement::PlacementArguments;

/// What a replay said, in its directory.
const REPLAY_FILE: &str = "replay.json";

/// Collective operations as the library that ran chose them.
const AS_RUN: &str = "as-run";

/// How the network is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Model {
    /// Frames through the network of live runs.
    Packet,
    /// Messages that share links fairly.
    Flow,
    /// Formulas: a latency and a bandwidth, nothing shared.
    Loggops,
}

#[derive(Args)]
pub(crate) struct ReplayArguments {
    /// A run directory.
    directory: PathBuf,
    /// Another value for a key of the run's scenario, such as `network.latency="20 us"`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Another topology: a word of `network.topology` or a GraphML file.
    #[arg(long, value_name = "TOPOLOGY")]
    topology: Option<String>,
    /// How the network is modelled.
    #[arg(long, value_enum, default_value = "packet")]
    model: Model,
    /// What the processors' own work is multiplied by: 0.5 for processors twice as fast.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    compute_scale: f64,
    #[command(flatten)]
    placement: PlacementArguments,
    /// By which algorithms collective operations are carried out: as the MPI library that ran chose them, as Open MPI 4.1 or the image's MPICH would, or
    /// as a file says, which is an MPICH library or a decision table of one in JSON.
    #[arg(long, value_name = "as-run|mpich|openmpi|FILE", default_value = AS_RUN)]
    collectives: String,
    /// Write the replay as a run directory here: its trace is one for all commands of `belljar trace`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Say what the result depends on, too: play it again without latency, with unlimited bandwidth, without processors' work for messages, and with
    /// processors twice as fast.
    #[arg(long)]
    bounds: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// `belljar replay`.
pub(crate) fn replay(arguments: &ReplayArguments) -> Result<ExitCode> {
    if !(arguments.compute_scale.is_finite() && arguments.compute_scale > 0.0) {
        bail!("--compute-scale must be a number above 0");
    }
    let trace = arguments.directory.join(TRACE_FILE);
    let tables = tables(arguments, &trace)?;
    let algorithms = match arguments.collectives.as_str() {
        AS_RUN => Algorithms::AsRun(&tables),
        _ => Algorithms::By(&tables),
    };
    let (program, state) = extract(&trace, algorithms)?;
    warn(&program, &state);
    let traced = setting(arguments, &trace, &program, false)?;
    let calibration = calibrate(&program, &traced)?;
    let wanted = setting(arguments, &trace, &program, true)?;
    let outcome = belljar_replay::replay(&program, &calibration, &wanted, || {})?;
    let fit = calibration.fit(&program);
    let bounds = match arguments.bounds {
        true => without(&program, &calibration, &wanted)?,
        false => Vec::new(),
    };
    if let Some(out) = &arguments.out {
        keep(arguments, out, (&program, &calibration), &outcome)?;
    }
    show(|out| match arguments.json {
        true => render::json(&outcome, fit, &bounds, out),
        false => render::text(&outcome, fit, &bounds, out),
    })?;
    Ok(ending(&outcome))
}

/// Writes the replay as a run directory: the scenario with what was changed of it, and the trace.
fn keep(
    arguments: &ReplayArguments,
    out: &Path,
    (program, calibration): (&Program, &Calibration),
    outcome: &Outcome,
) -> Result<()> {
    let path = arguments.directory.join(SCENARIO_FILE);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let folder = fs::canonicalize(&arguments.directory).unwrap_or(arguments.directory.clone());
    let changed = Scenario::standalone(&path, &text, &overrides(arguments), &folder)?;
    let directory = RunDirectory::create(Some(out), "replay")?;
    for (input, name) in &changed.inputs {
        directory.copy(input, name)?;
    }
    directory.write(SCENARIO_FILE, &changed.text)?;
    let mut whole = Vec::new();
    render::json(outcome, calibration.fit(program), &[], &mut whole)?;
    directory.write(REPLAY_FILE, &String::from_utf8_lossy(&whole))?;
    let from = arguments.directory.join(TRACE_FILE);
    let to = directory.path().join(TRACE_FILE);
    write_trace(&from, &to, program, outcome)?;
    directory.complete("checkpoint")?;
    Ok(())
}

/// The tables by which algorithms are chosen.
fn tables(arguments: &ReplayArguments, trace: &Path) -> Result<Tables> {
    match arguments.collectives.as_str() {
        AS_RUN => Ok(tables_of_run(trace, None).unwrap_or_else(|error| {
            eprintln!(
                "warning: {error:#}; collective operations take the algorithms of Open MPI 4.1"
            );
            Tables::open_mpi()
        })),
        "openmpi" => Ok(Tables::open_mpi()),
        "mpich" => {
            let tables = tables_of_run(trace, None)?;
            if tables.library() != Library::Mpich {
                bail!(
                    "the run's image has no MPICH whose tables could be read; name its library with --collectives FILE"
                );
            }
            Ok(tables)
        }
        file => {
            let bytes = fs::read(file).with_context(|| {
                format!("cannot read {file}; collective operations are as-run, mpich, openmpi, or a file's")
            })?;
            let text = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
            let tables = match text {
                Some(b'{') => Tables::parse(&bytes),
                _ => Tables::of_library(&bytes),
            };
            tables.with_context(|| file.to_owned())
        }
    }
}

/// What a job is played on: as it was traced, or with what options change.
fn setting(
    arguments: &ReplayArguments,
    trace: &Path,
    program: &Program,
    wanted: bool,
) -> Result<Setting> {
    let path = trace.with_file_name(SCENARIO_FILE);
    let text = fs::read_to_string(&path).with_context(|| {
        format!(
            "cannot read {}, which says on which network the run was traced; name a run directory",
            path.display()
        )
    })?;
    let overrides = match wanted {
        true => overrides(arguments),
        false => Vec::new(),
    };
    let scenario = Scenario::parse(&path, &text, &overrides)?;
    let (topology, settings) = Plan::network_of(&scenario, &path)?;
    let nodes: Vec<u32> = program.processes.iter().map(|it| it.node).collect();
    let hosts = match wanted {
        true => arguments.placement.hosts(program, &topology)?,
        false => nodes,
    };
    let network = match arguments.model {
        Model::Packet => NetworkModel::Packet(topology, settings),
        Model::Flow => NetworkModel::Flow(topology, settings),
        Model::Loggops => {
            let network = &scenario.network;
            let latency = network.latency.0 + network.latency.0 + network.switch_latency.0;
            let parameters = Parameters {
                latency,
                gap: Span::ZERO,
                bandwidth: network.bandwidth.0,
            };
            NetworkModel::LogGops(topology.hosts(), parameters)
        }
    };
    Ok(Setting {
        network,
        costs: Costs::of(implementation(trace)?),
        clock: scenario.nodes.clock.0,
        hosts,
        scale: if wanted { arguments.compute_scale } else { 1.0 },
    })
}

/// What options change of the scenario.
fn overrides(arguments: &ReplayArguments) -> Vec<String> {
    let mut overrides = arguments.set.clone();
    if let Some(topology) = &arguments.topology {
        let path = Path::new(topology);
        let value = match path.extension().is_some_and(|it| it == "graphml") {
            true => {
                let whole = fs::canonicalize(path).unwrap_or(path.to_owned());
                format!("{{ graphml = {:?} }}", whole.display().to_string())
            }
            false => format!("{topology:?}"),
        };
        overrides.push(format!("network.topology={value}"));
    }
    overrides
}

/// Says what the replay lacks.
fn warn(program: &Program, state: &TraceState) {
    if let TraceState::Incomplete { offset, reason } = state {
        eprintln!("warning: the trace is whole up to byte {offset} only: {reason}");
    }
    let unknown = program.unknown;
    for (count, what) in [
        (
            unknown.messages,
            "messages whose partner the trace does not tell, which are left out",
        ),
        (
            unknown.collectives,
            "collective operations of which the trace does not tell who takes part, which are left out",
        ),
        (
            unknown.algorithms,
            "collective operations whose algorithm is not known, which take that of Open MPI 4.1 or send straight what they are called with",
        ),
        (unknown.unfinished, "calls that never returned"),
    ] {
        if count > 0 {
            eprintln!("warning: {count} {what}");
        }
    }
}

fn ending(outcome: &Outcome) -> ExitCode {
    match outcome.stuck.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
