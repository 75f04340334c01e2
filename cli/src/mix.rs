//! A mix of jobs as a file: the machine, how it is run, and what runs on it.
//!
//! Any value may be a list: then all combinations are simulated, numbered by the order of the keys in the file, the last one varying fastest. The network is that of a scenario, key by key. All chance is of the seed. Called by
//! `belljar simulate`.

/// Lists of values, and all combinations of them.
mod combinations;
/// Jobs of a mix.
mod jobs;

use std::path::{Path, PathBuf};

use belljar_fabric::{Settings, Topology};
use belljar_images::toml_error::in_words;
use belljar_sim::{Random, Seed};
use belljar_simulate::{
    Anywhere, Block, Conservative, Contiguous, Cyclic, Easy, Fabric, Fcfs, GreedyMapping,
    GreedyRouter, Job, Linear, Mapping, Nanos, Policies, Router, Scheduler, Selection,
    TopologyAware,
};
use schemars::JsonSchema;
use serde::Deserialize;

pub use combinations::{Combination, Combinations, combinations};
pub use jobs::{Traced, TracedTraffic};

use belljar_cluster::plan::Plan;
use belljar_cluster::plan::error::PlanError;
use belljar_cluster::scenario::quantity::Duration;
use belljar_cluster::scenario::{Network, Scenario, ScenarioError};

/// Why a mix cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum MixFileError {
    /// The file is no TOML.
    #[error("{}: {reason}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// The fault and its place, on several lines.
        reason: String,
    },
    /// There are too many combinations.
    #[error("{count} combinations are more than {most}: vary fewer keys, or fewer values")]
    Many {
        /// How many.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A list without values.
    #[error("{key} is an empty list: there is no value to try")]
    Empty {
        /// Its key.
        key: String,
    },
    /// A value that is none of those that there are.
    #[error("{key} is {value}: it must be {allowed}")]
    Value {
        /// Its key.
        key: String,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// The network.
    #[error("the network: {0}")]
    Scenario(#[from] Box<ScenarioError>),
    /// The network.
    #[error("the network: {0}")]
    Plan(#[from] Box<PlanError>),
    /// The routing.
    #[error("the network: {0}")]
    Routing(#[from] belljar_fabric::RoutingError),
    /// A file that a job names.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// What a job is to a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// A constant flow between each two of its ranks.
    #[default]
    Matrix,
    /// Its messages, one by one.
    Message,
}

/// How messages go over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MessageModel {
    /// They share links fairly.
    #[default]
    Flow,
    /// As frames through queues.
    Packet,
}

/// A mix without lists of values.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mix {
    /// A name for people.
    pub name: String,
    /// What this is about.
    #[serde(default)]
    pub description: String,
    /// All chance comes from here.
    #[serde(default = "one")]
    pub seed: u64,
    /// Hosts of the machine.
    pub hosts: u32,
    /// Processes on each host, at most.
    #[serde(default = "one_rank")]
    pub ranks_per_host: u32,
    /// Which job starts: `fcfs`, `easy`, `conservative`.
    #[serde(default = "fcfs")]
    pub scheduler: String,
    /// On which hosts: `linear`, `random`, `contiguous`, `topology-aware`.
    #[serde(default = "linear")]
    pub selection: String,
    /// Which process is on which of them: `block`, `cyclic`, `application-aware`.
    #[serde(default = "block")]
    pub mapping: String,
    /// Over which links flows go: those of `network.routing`, or `greedy`.
    #[serde(default)]
    pub routing: Option<String>,
    /// What a job is: `matrix`, a constant flow for as long as it ran, or `message`, its messages, which contend with those of others.
    #[serde(default)]
    pub level: Level,
    /// How the network is modelled at the level of messages.
    #[serde(default)]
    pub model: MessageModel,
    /// When the network is to be seen.
    #[serde(default)]
    pub snapshots: Vec<Duration>,
    /// The network, as in a scenario.
    #[serde(default)]
    #[schemars(with = "Network")]
    pub network: toml::Table,
    /// Groups of jobs.
    #[serde(default)]
    jobs: Vec<jobs::Group>,
    /// A log of a workload.
    #[serde(default)]
    log: Option<jobs::LogSource>,
}

fn one() -> u64 {
    1
}

fn one_rank() -> u32 {
    1
}

fn fcfs() -> String {
    "fcfs".to_owned()
}

fn linear() -> String {
    "linear".to_owned()
}

fn block() -> String {
    "block".to_owned()
}

/// Hosts that a machine may have.
const MOST_HOSTS: u32 = 1_000_000;

impl Mix {
    /// A combination's mix.
    ///
    /// # Errors
    /// [`MixFileError`] when its keys or values are none.
    pub fn of(path: &Path, combination: &Combination) -> Result<Self, MixFileError> {
        let mix: Self =
            combination
                .table
                .clone()
                .try_into()
                .map_err(|error| MixFileError::Toml {
                    path: path.to_owned(),
                    reason: in_words(&error),
                })?;
        if !(1..=MOST_HOSTS).contains(&mix.hosts) {
            return Err(value("hosts", mix.hosts, "from 1 to 1000000"));
        }
        if mix.ranks_per_host == 0 {
            return Err(value("ranks-per-host", 0, "at least 1"));
        }
        Ok(mix)
    }

    /// The machine's network.
    ///
    /// # Errors
    /// [`MixFileError`] when it is none.
    pub fn machine(&self, path: &Path) -> Result<(Topology, Settings), MixFileError> {
        let mut network = self.network.clone();
        if let Some(routing) = self.routing.as_ref().filter(|routing| *routing != GREEDY) {
            network.insert("routing".to_owned(), routing.clone().into());
        }
        // Flows know no latency.
        let latency = network.entry("latency".to_owned());
        latency.or_insert_with(|| "1 us".into());
        let mut whole = toml::Table::new();
        whole.insert("network".to_owned(), network.into());
        // What a scenario has besides its network is not looked at.
        let text = format!(
            "name = \"mix\"\nseed = {}\n[image]\nrecipe = \"bookworm-mpich\"\n[nodes]\ncount = {}\nmemory = \"64 MiB\"\nclock = \"1 GHz\"\n[workload]\ncommand = \"true\"\n{whole}",
            self.seed, self.hosts
        );
        let scenario = Scenario::parse(path, &text, &[]).map_err(Box::new)?;
        Ok(Plan::machine_of(&scenario, path).map_err(Box::new)?)
    }

    /// How jobs are dealt with on this network.
    ///
    /// # Errors
    /// [`MixFileError`] when a policy is none.
    pub fn policies(
        &self,
        topology: &Topology,
        settings: &Settings,
    ) -> Result<Policies, MixFileError> {
        let scheduler: Box<dyn Scheduler + Send> = match self.scheduler.as_str() {
            "fcfs" => Box::new(Fcfs),
            "easy" => Box::new(Easy),
            "conservative" => Box::new(Conservative),
            other => return Err(value("scheduler", other, "fcfs, easy or conservative")),
        };
        let random = || Random::new(Seed(self.seed), "hosts of jobs", 0);
        let selection: Box<dyn Selection + Send> = match self.selection.as_str() {
            "linear" => Box::new(Linear),
            "random" => Box::new(Anywhere(random())),
            "contiguous" => Box::new(Contiguous),
            "topology-aware" => Box::new(TopologyAware),
            other => {
                let allowed = "linear, random, contiguous or topology-aware";
                return Err(value("selection", other, allowed));
            }
        };
        let mapping: Box<dyn Mapping + Send> = match self.mapping.as_str() {
            "block" => Box::new(Block),
            "cyclic" => Box::new(Cyclic),
            "application-aware" => Box::new(GreedyMapping),
            other => {
                return Err(value(
                    "mapping",
                    other,
                    "block, cyclic or application-aware",
                ));
            }
        };
        let router: Box<dyn Router + Send> = match self.routing.as_deref() {
            Some(GREEDY) => Box::new(GreedyRouter::new(topology, self.seed)?),
            _ => Box::new(Fabric::new(topology, &settings.routes())?),
        };
        Ok(Policies {
            scheduler,
            selection,
            mapping,
            router,
        })
    }

    /// True if flows take ways by placement, traffic and load instead of the network's routing.
    pub fn is_greedy(&self) -> bool {
        self.routing.as_deref() == Some(GREEDY)
    }

    /// When the network is to be seen, in order.
    pub fn snapshots(&self) -> Vec<Nanos> {
        let times = self.snapshots.iter().map(|time| time.0.as_ps() / 1000);
        let mut times: Vec<Nanos> = times.collect();
        times.sort_unstable();
        times
    }

    /// The jobs, and what is to be said of them. Files are relative to that of the mix; `traced` has the traffic of traces.
    ///
    /// # Errors
    /// [`MixFileError`] when a file cannot be read, or figures are none.
    pub fn jobs(
        &self,
        path: &Path,
        traced: &mut dyn Traced,
    ) -> Result<(Vec<Job>, Vec<String>), MixFileError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        jobs::all(&self.jobs, self.log.as_ref(), self.seed, (folder, traced))
    }
}

/// The routing that looks at placement, traffic and load.
const GREEDY: &str = "greedy";

fn value(key: &str, value: impl std::fmt::Display, allowed: &'static str) -> MixFileError {
    MixFileError::Value {
        key: key.to_owned(),
        value: value.to_string(),
        allowed,
    }
}

#[cfg(test)]
mod tests;
