//! `[nodes]` and its groups, as a scenario's file defines them.
//!
//! Values as written; `limits` checks them, and a plan's `kinds` resolves them. Groups have only the
//! differences from `[nodes]`.

use belljar_cpu::{IsaError, Level};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{DetourTable, FailTable, ImageTable, NoiseTable, TimingTable};
use crate::scenario::quantity::{Bytes, Duration, Rate};

/// Nodes, with equal properties except for groups.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nodes {
    /// Number of nodes; the sum of all groups when absent.
    pub count: Option<u32>,
    /// RAM of each.
    pub memory: Bytes,
    /// Processors of each.
    #[serde(default = "one_vcpu")]
    pub vcpus: u32,
    /// Time slice of each processor, if there are several; the engine's default when absent.
    pub slice: Option<Duration>,
    /// Processor clock.
    pub clock: Rate,
    /// Processor level of the x86-64 psABI.
    #[serde(default)]
    #[schemars(with = "String")]
    pub level: LevelName,
    /// Extensions of the level, such as `aes`.
    #[serde(default)]
    pub extensions: Vec<String>,
    /// Method to start nodes: as clones of a booted one, or by booting each.
    #[serde(default)]
    pub boot: BootKind,
    /// Origin of approximate results and undefined flags.
    #[serde(default)]
    pub results: Results,
    /// Virtual cycles for each retired instruction; 1 when absent.
    pub cycles_per_instruction: Option<f64>,
    /// Time model; only instructions take time when absent.
    pub timing: Option<TimingTable>,
    /// Groups of nodes with differences, in the order of their numbers; none when absent.
    #[serde(default)]
    pub group: Vec<NodeGroup>,
    /// Detours of their processors.
    #[serde(default)]
    pub noise: Vec<NoiseTable>,
    /// Detours at given times.
    #[serde(default)]
    pub detour: Vec<DetourTable>,
    /// Failures of nodes at given times.
    #[serde(default)]
    pub fail: Vec<FailTable>,
}

/// A group of nodes. Absent values are those of `[nodes]`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NodeGroup {
    /// Name in reports; the group's number, from 1, when absent.
    pub name: Option<String>,
    /// Number of nodes, which follow the nodes of the group before.
    pub count: u32,
    /// Image; the scenario's when absent.
    pub image: Option<ImageTable>,
    /// RAM of each.
    pub memory: Option<Bytes>,
    /// Processors of each.
    pub vcpus: Option<u32>,
    /// Ranks that launchers may start on each; the group's `vcpus` if it has that key, else
    /// `workload.ranks-per-node`.
    pub ranks_per_node: Option<u32>,
    /// Processor clock.
    pub clock: Option<Rate>,
    /// Processor level of the x86-64 psABI.
    #[schemars(with = "Option<String>")]
    pub level: Option<LevelName>,
    /// Extensions of the level.
    pub extensions: Option<Vec<String>>,
    /// Virtual cycles for each retired instruction.
    pub cycles_per_instruction: Option<f64>,
    /// Time model.
    pub timing: Option<TimingTable>,
}

fn one_vcpu() -> u32 {
    1
}

impl Nodes {
    /// The number of nodes; 0 if it is absent.
    pub fn count(&self) -> u32 {
        let counts = self.group.iter().map(|group| group.count);
        let sum = || counts.fold(0, u32::saturating_add);
        self.count.unwrap_or_else(sum)
    }

    /// The settings of each group's nodes, with the ranks that launchers may start on each. `ranks` is the
    /// workload's number; without groups, all nodes are one kind.
    pub fn kinds(&self, ranks: u32) -> Vec<(Self, u32)> {
        if self.group.is_empty() {
            return vec![(self.clone(), ranks)];
        }
        let kinds = self.group.iter().map(|group| self.of_group(group, ranks));
        kinds.collect()
    }

    fn of_group(&self, group: &NodeGroup, ranks: u32) -> (Self, u32) {
        let nodes = Self {
            count: Some(group.count),
            memory: group.memory.unwrap_or(self.memory),
            vcpus: group.vcpus.unwrap_or(self.vcpus),
            slice: self.slice,
            clock: group.clock.unwrap_or(self.clock),
            level: group.level.unwrap_or(self.level),
            extensions: group
                .extensions
                .as_ref()
                .unwrap_or(&self.extensions)
                .clone(),
            boot: self.boot,
            results: self.results,
            cycles_per_instruction: group.cycles_per_instruction.or(self.cycles_per_instruction),
            timing: group.timing.as_ref().or(self.timing.as_ref()).cloned(),
            group: Vec::new(),
            noise: Vec::new(),
            detour: Vec::new(),
            fail: Vec::new(),
        };
        let ranks = group.ranks_per_node.or(group.vcpus).unwrap_or(ranks);
        (nodes, ranks)
    }

    /// Virtual cycles for each retired instruction without a cost of its own.
    pub fn ratio(&self) -> f64 {
        self.cycles_per_instruction.unwrap_or(1.0)
    }
}

/// Origin of results that manuals define approximately or not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Results {
    /// Defined by the exact engine, the same on all processors.
    #[default]
    Defined,
    /// Computed by the host's processor.
    Host,
}

/// Method to start nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BootKind {
    /// One boots, and all are clones of it, which then get their identities.
    #[default]
    Clone,
    /// Each boots.
    Each,
}

/// A level by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LevelName(pub Level);

impl TryFrom<String> for LevelName {
    type Error = IsaError;

    fn try_from(name: String) -> Result<Self, IsaError> {
        name.parse().map(Self)
    }
}
