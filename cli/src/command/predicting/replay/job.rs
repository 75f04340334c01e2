//! The run to replay: its trace as a program, the setting of the trace, and the setting that options select.
//!
//! Called by `replay`, `place` and `model`.

/// Runs with their residuals, for replays in any setting.
mod calibrated;
/// Programs of traces.
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use belljar_cluster::plan::Plan;
use belljar_cluster::plan::infiniband::InfinibandPlan;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::{Scenario, Standalone, of_run_directory};
use belljar_fabric::{Settings, Topology};
use belljar_files::read_input_text;
use belljar_networks::Parameters;
use belljar_program::Program;
use belljar_replay::{Costs, NetworkModel, Setting};
use belljar_sim::{Frequency, Span};
use belljar_trace::TRACE_FILE;
use clap::{Args, ValueEnum};

use super::calibrate::costs_of;
use super::infiniband;
use super::placement::PlacementArguments;
use super::rescaling;
pub(in crate::command) use super::rescaling::{Rescaled, duration_factor};
use crate::command::results::trace::generated::never_ran;
use crate::command::results::trace::tables::implementation;
use crate::command::terminal::progress;
pub(in crate::command) use calibrated::Calibrated;
pub(in crate::command) use program::program_of;
use program::program_with_warnings;

/// Collective operations with the algorithms of the run's MPI library.
pub(in crate::command) const AS_RUN: &str = "as-run";

/// Model of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(in crate::command) enum Model {
    /// Frames through the network of live runs.
    #[default]
    Packet,
    /// Messages that share links fairly.
    Flow,
    /// Formulas: a latency and a bandwidth, nothing shared.
    Loggops,
}

#[derive(Args, Clone)]
pub(crate) struct JobArguments {
    /// Run directory.
    pub(super) directory: PathBuf,
    /// Override a scenario key, such as `network.latency="20 us"`; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Topology: a value of `network.topology` or a GraphML file.
    #[arg(long, value_name = "SHAPE")]
    pub(super) topology: Option<String>,
    /// Model of the network.
    #[arg(long, value_enum, default_value = "packet")]
    pub(super) model: Model,
    /// Factor of the processors' work time.
    ///
    /// 0.5 means processors twice as fast.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(super) compute_scale: f64,
    /// Processor of the own work: a built-in name or a .toml file.
    ///
    /// A run with a processor model is rescaled by the parts of its cycles, others by their clock.
    #[arg(long, value_name = "NAME")]
    pub(super) processor: Option<String>,
    /// Algorithms of collective operations.
    ///
    /// `as-run` takes the choices of the run's MPI library, `openmpi` those by Open MPI 4.1, `mpich` those by the image's MPICH.
    /// A file is an MPICH library, or its decision table in JSON.
    #[arg(long, value_name = "as-run|mpich|openmpi|FILE", default_value = AS_RUN)]
    pub(super) collectives: String,
    /// Hosts' message costs, from `belljar replay calibrate`.
    ///
    /// The default is Belljar's own figures.
    #[arg(long, value_name = "FILE")]
    pub(super) costs: Option<PathBuf>,
}

impl JobArguments {
    /// The run in a directory, unchanged, on the given model of its network.
    pub(in crate::command) fn over(directory: &Path, model: Model) -> Self {
        Self {
            directory: directory.to_owned(),
            set: Vec::new(),
            topology: None,
            model,
            compute_scale: 1.0,
            processor: None,
            collectives: AS_RUN.to_owned(),
            costs: None,
        }
    }

    /// The same with its own work on another processor, if one is given.
    pub(in crate::command) fn on_processor(self, processor: Option<&str>) -> Self {
        Self {
            processor: processor.map(str::to_owned),
            ..self
        }
    }

    /// The job of the run directory.
    pub(in crate::command) fn job(&self) -> Result<Job<'_>> {
        let trace = self.directory.join(TRACE_FILE);
        let scenario = TracedScenario::of(&self.directory)?;
        let read = || program_with_warnings(&trace, &self.collectives);
        let (program, mut warnings) = progress::of_traces(read)?;
        if let Some(origin) = never_ran(&trace)? {
            warning!("{origin}");
            warnings.insert(0, origin);
        }
        Ok(Job {
            arguments: self,
            trace,
            scenario,
            program,
            warnings,
        })
    }

    /// The factor of own work on the processor, without reading the program; `None` without a processor.
    pub(in crate::command) fn rescaled(&self) -> Result<Option<Rescaled>> {
        if self.processor.is_none() {
            return Ok(None);
        }
        TracedScenario::of(&self.directory)?.rescaled(self)
    }

    /// The scenario keys that options override.
    pub(super) fn overrides(&self) -> Vec<String> {
        let mut overrides = self.set.clone();
        if let Some(topology) = &self.topology {
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
}

/// The scenario of a traced run.
struct TracedScenario {
    path: PathBuf,
    text: String,
}

impl TracedScenario {
    /// The scenario in a run directory.
    fn of(directory: &Path) -> Result<Self> {
        let path = directory.join(SCENARIO_FILE);
        let text = read_input_text(&path).with_context(|| {
            format!(
                "cannot read {}, which says on which network the run was traced; name a run directory",
                path.display()
            )
        })?;
        let text = of_run_directory(text);
        Ok(Self { path, text })
    }

    /// The scenario with keys overridden.
    fn with(&self, overrides: &[String]) -> Result<Scenario> {
        Ok(Scenario::parse(&self.path, &self.text, overrides)?)
    }

    /// The factor of own work on the processor of these options, if they have one.
    fn rescaled(&self, arguments: &JobArguments) -> Result<Option<Rescaled>> {
        let Some(wanted) = &arguments.processor else {
            return Ok(None);
        };
        let (before, after) = (self.with(&[])?, self.with(&arguments.overrides())?);
        let rate = |scenario: &Scenario| scenario.nodes.clock.0.as_hz() as f64;
        let kinds = before.nodes.kinds(1);
        let mut processors: Vec<Option<String>> = kinds
            .iter()
            .map(|(nodes, _)| nodes.timing.as_ref()?.processor.clone())
            .collect();
        processors.dedup();
        let traced = match &processors[..] {
            [one] => one.as_deref(),
            _ => bail!(
                "--processor: the run's groups of nodes have several processors; it replaces one of all nodes"
            ),
        };
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let traced = traced.map(|name| (name, folder));
        let clocks = rate(&before) / rate(&after);
        let trace = self.path.with_file_name(TRACE_FILE);
        rescaling::rescaled(&trace, traced, wanted, clocks).map(Some)
    }
}

/// A run to replay.
pub(in crate::command) struct Job<'a> {
    /// The options.
    pub(super) arguments: &'a JobArguments,
    /// Path of its trace.
    pub(in crate::command) trace: PathBuf,
    scenario: TracedScenario,
    /// The program of its trace.
    pub(in crate::command) program: Program,
    /// Warnings about the trace and its program, already printed.
    pub(super) warnings: Vec<String>,
}

impl Job<'_> {
    /// The setting of the trace.
    pub(in crate::command) fn traced(&self) -> Result<Setting> {
        self.traced_by(self.arguments.model)
    }

    /// The same by a model of the network.
    fn traced_by(&self, model: Model) -> Result<Setting> {
        let scenario = self.scenario(&[])?;
        let (topology, settings) = Plan::network_of(&scenario, &self.scenario.path)?;
        let nodes = self.program.processes.iter().map(|it| it.node).collect();
        self.setting(&scenario, model, topology, settings, nodes, 1.0)
    }

    /// The settings of the trace and of the replay, both in the LogGOPS model.
    pub(super) fn by_formulas(&self, placement: &PlacementArguments) -> Result<(Setting, Setting)> {
        let wanted = self.on_by(Model::Loggops, self.arguments, placement)?;
        Ok((self.traced_by(Model::Loggops)?, wanted))
    }

    /// The setting that options select.
    pub(super) fn wanted(&self, placement: &PlacementArguments) -> Result<Setting> {
        self.on(self.arguments, placement)
    }

    /// The setting that these options select.
    pub(super) fn on(
        &self,
        arguments: &JobArguments,
        placement: &PlacementArguments,
    ) -> Result<Setting> {
        self.on_by(self.arguments.model, arguments, placement)
    }

    /// The same by a model of the network.
    fn on_by(
        &self,
        model: Model,
        arguments: &JobArguments,
        placement: &PlacementArguments,
    ) -> Result<Setting> {
        let scale = arguments.compute_scale;
        if !(scale.is_finite() && scale > 0.0) {
            bail!("--compute-scale must be a number above 0");
        }
        let scenario = self.scenario(&arguments.overrides())?;
        let scale = scale * self.rescaled(arguments)?.map_or(1.0, |found| found.factor);
        let (topology, settings) = Plan::network_of(&scenario, &self.scenario.path)?;
        let hosts = placement.hosts(&self.program, &topology)?;
        self.setting(&scenario, model, topology, settings, hosts, scale)
    }

    /// The scenario as the options change it, and its file.
    pub(super) fn wanted_scenario(&self) -> Result<(Scenario, &Path)> {
        Ok((
            self.scenario(&self.arguments.overrides())?,
            &self.scenario.path,
        ))
    }

    pub(super) fn scenario(&self, overrides: &[String]) -> Result<Scenario> {
        self.scenario.with(overrides)
    }

    /// The network of the cards of a scenario of this job, if nodes have them.
    pub(super) fn infiniband(&self, scenario: &Scenario) -> Result<Option<InfinibandPlan>> {
        Ok(Plan::infiniband_of(scenario, &self.scenario.path)?)
    }

    /// The factor of own work on the processor of these options, if they have one.
    pub(in crate::command) fn rescaled(
        &self,
        arguments: &JobArguments,
    ) -> Result<Option<Rescaled>> {
        self.scenario.rescaled(arguments)
    }

    fn setting(
        &self,
        scenario: &Scenario,
        model: Model,
        topology: Topology,
        settings: Settings,
        hosts: Vec<u32>,
        scale: f64,
    ) -> Result<Setting> {
        let infiniband = self.infiniband(scenario)?;
        let library = implementation(&self.trace)?;
        let (network, usual) = match &infiniband {
            Some(plan) => (
                infiniband::network(plan, model),
                Costs::over_infiniband(library, infiniband::rendezvous(scenario)),
            ),
            None => (
                ethernet(scenario, model, topology, settings),
                Costs::of(library),
            ),
        };
        Ok(Setting {
            network,
            costs: match &self.arguments.costs {
                Some(path) => costs_of(path)?,
                None => usual,
            },
            clocks: self.clocks(scenario),
            hosts,
            scale,
        })
    }

    /// The clock of each process's node, from the scenario's groups.
    fn clocks(&self, scenario: &Scenario) -> Vec<Frequency> {
        let kinds = scenario.nodes.kinds(1);
        let ends = kinds.iter().scan(0_u32, |end, (nodes, _)| {
            *end = end.saturating_add(nodes.count());
            Some((*end, nodes.clock.0))
        });
        let ends: Vec<(u32, Frequency)> = ends.collect();
        let usual = scenario.nodes.clock.0;
        let clock = |node: u32| ends.iter().find(|(end, _)| node < *end);
        let processes = self.program.processes.iter();
        processes
            .map(|process| clock(process.node).map_or(usual, |(_, clock)| *clock))
            .collect()
    }

    /// The scenario with the changes of options, as a standalone copy.
    pub(super) fn scenario_to_keep(&self) -> Result<Standalone> {
        let directory = &self.arguments.directory;
        let folder = fs::canonicalize(directory).unwrap_or(directory.clone());
        let overrides = self.arguments.overrides();
        Ok(Scenario::standalone(
            &self.scenario.path,
            &self.scenario.text,
            &overrides,
            &folder,
        )?)
    }
}

/// The network of Ethernet in this model.
fn ethernet(
    scenario: &Scenario,
    model: Model,
    topology: Topology,
    settings: Settings,
) -> NetworkModel {
    match model {
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
    }
}
