//! A scenario as its file defines it.
//!
//! Parsing uses the text alone, and refuses unknown keys. Absent values stay absent or have defaults;
//! [`Plan`](crate::plan) resolves and checks them. The types are also the scenario's schema.

use std::path::{Path, PathBuf};

use belljar_images::toml_error;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::scenario::engine::{EngineChoice, KvmOptions};
use crate::scenario::quantity::Duration;

/// `[[background]]`.
mod background;
/// Delays and failures at given times.
mod delays;
/// The engine of a scenario's nodes.
pub mod engine;
/// Expands folders and patterns of files into single files.
mod files;
/// `[hosts]`.
mod hosts;
/// `[infiniband]`.
mod infiniband;
/// `[network]`.
mod network;
/// `[nodes]`.
mod nodes;
/// `[[nodes.noise]]`.
mod noise;
/// Values with units, as scenarios write them.
pub mod quantity;
/// Records a network shape's defaults in kept scenarios.
mod recorded;
/// `[slurm]`.
mod slurm;
/// Standalone scenarios.
mod standalone;
/// `[nodes.timing]`.
mod timing;
/// `[trace]`.
mod trace;
/// `[workload]`.
mod workload;

pub use background::BackgroundTable;
pub use delays::{DetourTable, FailTable, HoldTable, LossTable, NodeFailure};
pub use files::FilesError;
pub(crate) use files::{HERE, expand};
pub use hosts::{Hosts, LaunchKind};
pub use infiniband::{CardTable, CongestionTable, ControlName, Infiniband, SpeedName};
pub use network::{Arp, GlobalWiringName, LinkTable, Network, RoutingName, TopologyKind};
pub use nodes::{BootKind, LevelName, NodeGroup, Nodes, Results};
pub use noise::{LengthDistribution, NoiseTable, Spacing};
pub use recorded::of_run_directory;
pub use slurm::Slurm;
pub use standalone::{Standalone, job_name};
pub use timing::{CachesTable, FartherCache, FirstCache, TimingTable};
pub use trace::{Iterations, Polls, ProbeTable, ProbeTime, Trace, TraceBy};
pub use workload::{FileSource, Workload};

/// Errors of a scenario's text.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Not TOML, an unknown key, or a wrong value.
    #[error("{path}: {reason}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The reason and its place, on several lines.
        reason: String,
    },
    /// Files of the workload cannot be found.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// `--set` without `=`, or with a key of no table.
    #[error("--set {assignment}: {reason}; write --set section.key=value")]
    Override {
        /// The assignment.
        assignment: String,
        /// The reason.
        reason: String,
    },
}

/// A whole scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name, for display and for the run directory.
    pub name: String,
    /// Description of the scenario.
    #[serde(default)]
    pub description: String,
    /// Seed of all randomness.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Engine that carries the nodes.
    #[serde(default)]
    pub engine: EngineChoice,
    /// Options of the host's virtualisation, for engine kvm.
    #[serde(default)]
    pub kvm: KvmOptions,
    /// Guest image.
    pub image: ImageTable,
    /// Nodes.
    pub nodes: Nodes,
    /// Network of the nodes.
    #[serde(default)]
    pub network: Network,
    /// InfiniBand cards of the nodes and their network, if present.
    #[serde(default)]
    pub infiniband: Option<Infiniband>,
    /// Workload of the nodes.
    pub workload: Workload,
    /// Slurm on the nodes, if present.
    #[serde(default)]
    pub slurm: Option<Slurm>,
    /// Background jobs that share the network.
    #[serde(default)]
    pub background: Vec<BackgroundTable>,
    /// Trace settings.
    #[serde(default)]
    pub trace: Trace,
    /// Profile settings.
    #[serde(default)]
    pub profile: Profile,
    /// Checkpoints of the run.
    #[serde(default)]
    pub checkpoint: Checkpoint,
    /// Physical hosts of the run.
    #[serde(default)]
    pub hosts: Hosts,
}

/// Checkpoints of the run.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Checkpoint {
    /// Virtual time between checkpoints; no automatic ones when absent.
    pub every: Option<Duration>,
    /// True if automatic ones begin with the first call of MPI, in a run on one host.
    pub after_init: bool,
    /// Number of checkpoints that stay, also after the run; if there are more, every other one goes and their interval doubles. The
    /// last two stay until the run's end when absent.
    pub keep: Option<u32>,
}

/// Samples of processors, for `belljar profile`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Profile {
    /// Virtual time between samples; no samples when absent.
    pub every: Option<Duration>,
    /// Most stack frames of a sample: from 1 to 64.
    pub frames: u8,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            every: None,
            frames: 32,
        }
    }
}

fn default_seed() -> u64 {
    1
}

/// The guest image.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "Image")]
#[serde(deny_unknown_fields)]
pub struct ImageTable {
    /// Recipe, as a path relative to the scenario's file, or the name of a built-in one.
    pub recipe: PathBuf,
    /// Words added to the kernel's command line.
    #[serde(default)]
    pub append: String,
}

impl Scenario {
    /// Parses a scenario from `text`, which came from `path`, with `overrides` of the form
    /// `section.key=value` applied.
    ///
    /// # Errors
    /// See [`ScenarioError`].
    pub fn parse(path: &Path, text: &str, overrides: &[String]) -> Result<Self, ScenarioError> {
        let fail = |reason: String| ScenarioError::Parse {
            path: path.to_owned(),
            reason,
        };
        if overrides.is_empty() {
            return toml::from_str(text).map_err(|error| fail(toml_error::in_words(&error)));
        }
        overridden(path, text, overrides)?
            .try_into()
            .map_err(|error: toml::de::Error| fail(toml_error::in_words(&error)))
    }
}

fn overridden(path: &Path, text: &str, overrides: &[String]) -> Result<toml::Table, ScenarioError> {
    let mut table: toml::Table =
        toml::from_str(text).map_err(|error: toml::de::Error| ScenarioError::Parse {
            path: path.to_owned(),
            reason: toml_error::in_words(&error),
        })?;
    let before = table.clone();
    for assignment in overrides {
        assign(&mut table, assignment)?;
    }
    recorded::follow_shape(&before, &mut table, overrides);
    Ok(table)
}

/// Maximum number of parts of a key, more than any key has.
const DEEPEST_KEY: usize = 16;

/// True for the digits of a whole number, with or without a sign, whatever its size.
fn is_whole_number(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.len() > 18 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Sets `section.key` to a TOML value, or to the literal text.
fn assign(table: &mut toml::Table, assignment: &str) -> Result<(), ScenarioError> {
    let fail = |reason: &str| ScenarioError::Override {
        assignment: assignment.to_owned(),
        reason: reason.to_owned(),
    };
    let (key, value) = assignment
        .split_once('=')
        .ok_or_else(|| fail("there is no `=`"))?;
    let parsed = format!("value = {value}").parse::<toml::Table>();
    let parsed = parsed.ok().and_then(|mut parsed| parsed.remove("value"));
    if parsed.is_none() && is_whole_number(value) {
        return Err(fail(&format!(
            "the number is not from {} to {}; a text of digits needs quotation marks",
            i64::MIN,
            i64::MAX
        )));
    }
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut place = table;
    let mut parts: Vec<&str> = key.trim().split('.').collect();
    // Nested sections.
    if parts.len() > DEEPEST_KEY {
        return Err(ScenarioError::Override {
            assignment: format!("{}...", parts[..DEEPEST_KEY].join(".")),
            reason: format!("a key has at most {DEEPEST_KEY} parts"),
        });
    }
    let last = parts
        .pop()
        .filter(|last| !last.is_empty())
        .ok_or_else(|| fail("there is no key"))?;
    for part in parts {
        place = place
            .entry(part)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .ok_or_else(|| fail(&format!("`{part}` is not a section")))?;
    }
    place.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const SMALL: &str = r#"
name = "small"
image = { recipe = "r.toml" }
nodes = { count = 2, memory = "256 MiB", clock = "2 GHz" }
workload = { command = "true" }
"#;

    fn parse(text: &str, overrides: &[&str]) -> Result<Scenario, ScenarioError> {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        Scenario::parse(Path::new("small.toml"), text, &overrides)
    }

    #[test]
    fn keys_of_very_many_parts_are_refused() {
        let error = parse(SMALL, &[&format!("{}=1", ["a"; 60_000].join("."))]).unwrap_err();
        let told = error.to_string();
        assert!(
            told.contains("at most 16 parts") && told.len() < 200,
            "{told}"
        );
    }

    #[test]
    fn numbers_beyond_the_range_are_refused_as_numbers() {
        let error = parse(SMALL, &["nodes.count=99999999999999999999"]).unwrap_err();
        let told = error.to_string();
        assert!(
            told.contains("not from -9223372036854775808 to 9223372036854775807"),
            "{told}"
        );
        let named = parse(SMALL, &["name=\"99999999999999999999\""]).unwrap();
        assert_eq!(named.name, "99999999999999999999");
    }

    #[test]
    fn overrides_reach_into_sections() {
        let scenario = parse(
            SMALL,
            &[
                "nodes.count=4",
                "trace.enabled=false",
                "network.latency=5 us",
            ],
        )
        .unwrap();
        assert_eq!(scenario.nodes.count(), 4);
        assert!(!scenario.trace.enabled);
        assert_eq!(
            scenario.network.latency,
            Duration(belljar_sim::Span::from_us(5))
        );
    }

    #[test]
    fn unknown_keys_and_wrong_units_are_refused_by_name() {
        let error = parse(&format!("{SMALL}\n[trace]\nenable = true\n"), &[])
            .unwrap_err()
            .to_string();
        assert!(error.contains("enable"), "{error}");
        let error = parse(SMALL, &["nodes.timing.cost.divide=3"]).unwrap_err();
        assert!(error.to_string().contains("`cost`"), "{error}");
        let error = parse(SMALL, &["nodes.memory=5 us"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("not a unit of memory size"), "{error}");
        let error = parse(SMALL, &["nodes.level=x86-64-v5"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("x86-64-v4"), "{error}");
        assert!(parse(SMALL, &["nodes"]).is_err());
        assert!(parse(SMALL, &["name.x=1"]).is_err());
    }
}
