//! A mix file of jobs: the machine, its policies, and the jobs.
//!
//! Any value may be a list: then all combinations are simulated, numbered by the order of the keys in the file, the last one
//! varying fastest. The keys of the network are those of a scenario. All randomness follows from the seed. Called by `belljar
//! simulate`.

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
    GreedyRouter, Job, Linear, MappingPolicy, Nanos, Policies, Router, Scheduler, Selection,
    TopologyAware,
};
use schemars::JsonSchema;
use serde::Deserialize;

pub use combinations::{Combination, Combinations, combinations};
pub use jobs::{TracedTraffic, TrafficProvider};

use belljar_cluster::plan::Plan;
use belljar_cluster::plan::error::PlanError;
use belljar_cluster::plan::infiniband::InfinibandPlan;
use belljar_cluster::scenario::quantity::Duration;
use belljar_cluster::scenario::{Infiniband, Network, Scenario, ScenarioError};

/// An error in a mix.
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
    /// Too many combinations.
    #[error("{count} combinations are more than {most}: vary fewer keys, or fewer values")]
    Many {
        /// Their number.
        count: usize,
        /// The limit.
        most: usize,
    },
    /// A list without values.
    #[error("{key} is an empty list: there is no value to try")]
    Empty {
        /// The key.
        key: String,
    },
    /// An invalid value.
    #[error("{key} is {value}: it must be {allowed}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// An invalid network.
    #[error("the network: {0}")]
    Scenario(#[from] Box<ScenarioError>),
    /// A network that makes no plan.
    #[error("the network: {0}")]
    Plan(#[from] Box<PlanError>),
    /// An invalid routing.
    #[error("the network: {0}")]
    Routing(#[from] belljar_fabric::RoutingError),
    /// A file that a job names.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Traffic model of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "Level")]
#[serde(rename_all = "kebab-case")]
pub enum TrafficLevel {
    /// A constant flow between each two of its ranks.
    #[default]
    Matrix,
    /// Its messages, one by one.
    Message,
}

/// Network model of messages.
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
    /// Name for display.
    pub name: String,
    /// Description of the mix.
    #[serde(default)]
    pub description: String,
    /// Seed of all randomness.
    #[serde(default = "one")]
    pub seed: u64,
    /// Hosts of the machine.
    pub hosts: u32,
    /// Maximum number of processes on each host.
    #[serde(default = "one_rank")]
    pub ranks_per_host: u32,
    /// Scheduler of jobs: `fcfs`, `easy`, `conservative`.
    #[serde(default = "fcfs")]
    pub scheduler: String,
    /// Selection of hosts: `linear`, `random`, `contiguous`, `topology-aware`.
    #[serde(default = "linear")]
    pub selection: String,
    /// Mapping of processes to the job's hosts: `block`, `cyclic`, `application-aware`.
    #[serde(default = "block")]
    pub mapping: String,
    /// Routing of flows: a value of `network.routing`, or `greedy`.
    #[serde(default)]
    pub routing: Option<String>,
    /// Traffic model of jobs: `matrix` for a constant flow over the job's run time, `message` for single messages, which contend
    /// with messages of other jobs.
    #[serde(default)]
    pub level: TrafficLevel,
    /// Network model at the level of messages.
    #[serde(default)]
    pub model: MessageModel,
    /// Times of network snapshots.
    #[serde(default)]
    pub snapshots: Vec<Duration>,
    /// The network, as in a scenario.
    #[serde(default)]
    #[schemars(with = "Network")]
    pub network: toml::Table,
    /// InfiniBand cards and their network instead, as in a scenario, at the level of messages.
    #[serde(default)]
    #[schemars(with = "Option<Infiniband>")]
    pub infiniband: Option<toml::Table>,
    /// Groups of jobs.
    #[serde(default)]
    jobs: Vec<jobs::JobGroup>,
    /// Log of a workload.
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

/// Maximum number of hosts of a machine.
const MOST_HOSTS: u32 = 1_000_000;

impl Mix {
    /// A combination's mix.
    ///
    /// # Errors
    /// [`MixFileError`] if its keys or values are invalid.
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

    /// The machine's network: that of the cards, if it has cards.
    ///
    /// # Errors
    /// [`MixFileError`] if it is invalid.
    pub fn machine(&self, path: &Path) -> Result<(Topology, Settings), MixFileError> {
        if let Some((_, cards)) = self.cards(path)? {
            let settings = Settings {
                routing: cards.routes.routing,
                seed: cards.routes.seed,
                ..Settings::default()
            };
            return Ok((cards.topology, settings));
        }
        let mut network = self.network.clone();
        if let Some(routing) = self.routing.as_ref().filter(|routing| *routing != GREEDY) {
            network.insert("routing".to_owned(), routing.clone().into());
        }
        // Flows have no latency.
        let latency = network.entry("latency".to_owned());
        latency.or_insert_with(|| "1 us".into());
        let scenario = self.scenario(path, "network", network)?;
        Ok(Plan::machine_of(&scenario, path).map_err(Box::new)?)
    }

    /// The machine's InfiniBand cards and their network, with a scenario that has them; `None` if hosts have none.
    ///
    /// # Errors
    /// [`MixFileError`] if the network is invalid, or keys of the mix do not apply to cards.
    pub fn cards(&self, path: &Path) -> Result<Option<(Scenario, InfinibandPlan)>, MixFileError> {
        let Some(table) = &self.infiniband else {
            return Ok(None);
        };
        if self.level == TrafficLevel::Matrix {
            let allowed = "left out, or `level` must be message: cards send messages";
            return Err(value("infiniband", "given at level matrix", allowed));
        }
        if !self.network.is_empty() {
            let allowed = "left out with `infiniband`, which has the network of the hosts' cards";
            return Err(value("network", "given", allowed));
        }
        let mut table = table.clone();
        if let Some(routing) = &self.routing {
            table.insert("routing".to_owned(), routing.clone().into());
        }
        let scenario = self.scenario(path, "infiniband", table)?;
        let plan = Plan::infiniband_of(&scenario, path).map_err(Box::new)?;
        Ok(plan.map(|plan| (scenario, plan)))
    }

    /// A scenario with the table of a network. Keys outside of it do not matter.
    fn scenario(
        &self,
        path: &Path,
        name: &str,
        table: toml::Table,
    ) -> Result<Scenario, MixFileError> {
        let mut whole = toml::Table::new();
        whole.insert(name.to_owned(), table.into());
        let text = format!(
            "name = \"mix\"\nseed = {}\n[image]\nrecipe = \"bookworm-mpich\"\n[nodes]\ncount = {}\nmemory = \"64 MiB\"\nclock = \"1 GHz\"\n[workload]\ncommand = \"true\"\n{whole}",
            self.seed, self.hosts
        );
        Ok(Scenario::parse(path, &text, &[]).map_err(Box::new)?)
    }

    /// The policies of jobs on this network.
    ///
    /// # Errors
    /// [`MixFileError`] if a policy is unknown.
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
        let mapping: Box<dyn MappingPolicy + Send> = match self.mapping.as_str() {
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

    /// True if flows take paths by placement, traffic and load instead of the network's routing.
    pub fn is_greedy(&self) -> bool {
        self.routing.as_deref() == Some(GREEDY)
    }

    /// Times of network snapshots, in order.
    pub fn snapshots(&self) -> Vec<Nanos> {
        let times = self.snapshots.iter().map(|time| time.0.as_ps() / 1000);
        let mut times: Vec<Nanos> = times.collect();
        times.sort_unstable();
        times
    }

    /// The jobs, and warnings about them. Paths are relative to the mix's folder; `traced` provides the traffic of traces.
    ///
    /// # Errors
    /// [`MixFileError`] if a file cannot be read, or values are invalid.
    pub fn jobs(
        &self,
        path: &Path,
        traced: &mut dyn TrafficProvider,
    ) -> Result<(Vec<Job>, Vec<String>), MixFileError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        jobs::all(&self.jobs, self.log.as_ref(), self.seed, folder, traced)
    }
}

/// The routing by placement, traffic and load.
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
