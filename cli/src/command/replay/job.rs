//! What is played, and on what: a run's trace as a program, the setting in which it was traced, and the one that options name.
//!
//! Called by `replay`, `place` and `model`.

/// Programs of traces.
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use belljar_cluster::plan::Plan;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::{Scenario, Standalone, of_run_directory};
use belljar_fabric::{Settings, Topology};
use belljar_files::read_input_text;
use belljar_networks::Parameters;
use belljar_program::Program;
use belljar_replay::{Calibration, Costs, NetworkModel, Setting};
use belljar_sim::{Frequency, Span};
use belljar_trace::TRACE_FILE;
use clap::{Args, ValueEnum};

use super::calibrate::costs_of;
use super::placement::PlacementArguments;
use crate::command::terminal::progress;
use crate::command::trace::generated::never_ran;
use crate::command::trace::tables::implementation;
pub(in crate::command) use program::program_of;
use program::program_with_warnings;

/// Collective operations as the library that ran chose them.
pub(in crate::command) const AS_RUN: &str = "as-run";

/// How the network is modelled.
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
    /// A run directory.
    pub(super) directory: PathBuf,
    /// Another value for a key of the run's scenario, such as `network.latency="20 us"`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Another topology: a word of `network.topology` or a GraphML file.
    #[arg(long, value_name = "SHAPE")]
    pub(super) topology: Option<String>,
    /// How the network is modelled.
    #[arg(long, value_enum, default_value = "packet")]
    pub(super) model: Model,
    /// What the processors' own work is multiplied by: 0.5 for processors twice as fast.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(super) compute_scale: f64,
    /// By which algorithms collective operations are carried out: as the MPI library that ran chose them, as Open MPI 4.1 or the image's MPICH would, or
    /// as a file says, which is an MPICH library or a decision table of one in JSON.
    #[arg(long, value_name = "as-run|mpich|openmpi|FILE", default_value = AS_RUN)]
    pub(super) collectives: String,
    /// What hosts' processors do for messages, as `belljar replay calibrate` writes it; Belljar's own figures when absent.
    #[arg(long, value_name = "FILE")]
    pub(super) costs: Option<PathBuf>,
}

impl JobArguments {
    /// The run in a directory as it was, on such a model of its network.
    pub(in crate::command) fn over(directory: &Path, model: Model) -> Self {
        Self {
            directory: directory.to_owned(),
            set: Vec::new(),
            topology: None,
            model,
            compute_scale: 1.0,
            collectives: AS_RUN.to_owned(),
            costs: None,
        }
    }

    /// The job that the run directory has.
    pub(in crate::command) fn job(&self) -> Result<Job<'_>> {
        let trace = self.directory.join(TRACE_FILE);
        let path = trace.with_file_name(SCENARIO_FILE);
        let text = read_input_text(&path).with_context(|| {
            format!(
                "cannot read {}, which says on which network the run was traced; name a run directory",
                path.display()
            )
        })?;
        let text = of_run_directory(text);
        let read = || program_with_warnings(&trace, &self.collectives);
        let (program, mut warnings) = progress::of_traces(read)?;
        if let Some(origin) = never_ran(&trace)? {
            warning!("{origin}");
            warnings.insert(0, origin);
        }
        Ok(Job {
            arguments: self,
            trace,
            path,
            text,
            program,
            warnings,
        })
    }

    /// What options change of the scenario.
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

/// A run that is to be played.
pub(in crate::command) struct Job<'a> {
    /// The options.
    pub(super) arguments: &'a JobArguments,
    /// Its trace.
    pub(in crate::command) trace: PathBuf,
    /// Its scenario's file, and what that says.
    path: PathBuf,
    text: String,
    /// What its processes did.
    pub(in crate::command) program: Program,
    /// Warnings about the trace and its program, printed when they were read.
    pub(super) warnings: Vec<String>,
}

/// A traced run that is ready to be played anywhere.
pub(in crate::command) struct Calibrated {
    pub(in crate::command) program: Program,
    pub(in crate::command) calibration: Calibration,
    pub(in crate::command) costs: Costs,
    /// By process.
    pub(in crate::command) clocks: Vec<Frequency>,
}

impl Calibrated {
    /// The run in a directory, calibrated on frames through the network on which it was traced.
    pub(in crate::command) fn of_run(directory: &Path) -> Result<Self> {
        let arguments = JobArguments::over(directory, Model::Packet);
        let job = arguments.job()?;
        let traced = job.traced()?;
        let calibration = belljar_replay::calibrate(&job.program, &traced)?;
        Ok(Self {
            calibration,
            costs: traced.costs,
            clocks: traced.clocks,
            program: job.program,
        })
    }
}

impl Job<'_> {
    /// What the job was traced on.
    pub(in crate::command) fn traced(&self) -> Result<Setting> {
        self.traced_by(self.arguments.model)
    }

    /// The same by a model of the network.
    fn traced_by(&self, model: Model) -> Result<Setting> {
        let scenario = self.scenario(&[])?;
        let network = Plan::network_of(&scenario, &self.path)?;
        let nodes = self.program.processes.iter().map(|it| it.node).collect();
        self.setting((&scenario, model), network, nodes, 1.0)
    }

    /// The settings of the trace and of the replay, both in the LogGOPS model.
    pub(super) fn by_formulas(&self, placement: &PlacementArguments) -> Result<(Setting, Setting)> {
        let wanted = self.on_by(Model::Loggops, self.arguments, placement)?;
        Ok((self.traced_by(Model::Loggops)?, wanted))
    }

    /// What options say that it is played on.
    pub(super) fn wanted(&self, placement: &PlacementArguments) -> Result<Setting> {
        self.on(self.arguments, placement)
    }

    /// What these options say that it is played on.
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
        let (topology, settings) = Plan::network_of(&scenario, &self.path)?;
        let hosts = placement.hosts(&self.program, &topology)?;
        self.setting((&scenario, model), (topology, settings), hosts, scale)
    }

    /// The scenario as the options change it, and its file.
    pub(super) fn wanted_scenario(&self) -> Result<(Scenario, &Path)> {
        Ok((self.scenario(&self.arguments.overrides())?, &self.path))
    }

    pub(super) fn scenario(&self, overrides: &[String]) -> Result<Scenario> {
        Ok(Scenario::parse(&self.path, &self.text, overrides)?)
    }

    fn setting(
        &self,
        (scenario, model): (&Scenario, Model),
        (topology, settings): (Topology, Settings),
        hosts: Vec<u32>,
        scale: f64,
    ) -> Result<Setting> {
        let network = match model {
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
            costs: match &self.arguments.costs {
                Some(path) => costs_of(path)?,
                None => Costs::of(implementation(&self.trace)?),
            },
            clocks: self.clocks(scenario),
            hosts,
            scale,
        })
    }

    /// The clock of each process's node, as the scenario's groups have it.
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

    /// The scenario with what options change, and what it takes to keep it elsewhere.
    pub(super) fn scenario_to_keep(&self) -> Result<Standalone> {
        let directory = &self.arguments.directory;
        let folder = fs::canonicalize(directory).unwrap_or(directory.clone());
        let overrides = self.arguments.overrides();
        Ok(Scenario::standalone(
            &self.path, &self.text, &overrides, &folder,
        )?)
    }
}
