//! `[nodes]` and its groups: the machines as a scenario's file says them.
//!
//! Values as they were written; `limits` says which may be, and `kinds` of a plan what they mean. Groups only
//! hold what differs from `[nodes]`.

use belljar_cpu::{IsaError, Level};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Image, NoiseTable, TimingTable};
use crate::scenario::quantity::{Bytes, Duration, Rate};

/// The nodes: all alike, but for what groups say.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nodes {
    /// How many; as many as all groups together when absent.
    pub count: Option<u32>,
    /// RAM of each.
    pub memory: Bytes,
    /// Processors of each.
    #[serde(default = "one_vcpu")]
    pub vcpus: u32,
    /// How long each of several processors runs before it is the next one's turn; what
    /// suits the engine when absent.
    pub slice: Option<Duration>,
    /// Processor clock.
    pub clock: Rate,
    /// The level of the x86-64 psABI that the processors have.
    #[serde(default)]
    #[schemars(with = "String")]
    pub level: LevelName,
    /// Extensions besides the level, such as `aes`.
    #[serde(default)]
    pub extensions: Vec<String>,
    /// Whether nodes are clones of one that booted, or boot each by itself.
    #[serde(default)]
    pub boot: BootKind,
    /// Whose approximations and undefined flags they have.
    #[serde(default)]
    pub results: Results,
    /// Virtual cycles for each retired instruction; 1 when absent.
    pub cycles_per_instruction: Option<f64>,
    /// What time is made of besides instructions; nothing else when absent.
    pub timing: Option<TimingTable>,
    /// Nodes that differ, in the order of their numbers; all alike when there are none.
    #[serde(default)]
    pub group: Vec<NodeGroup>,
    /// What takes their processors for a while.
    #[serde(default)]
    pub noise: Vec<NoiseTable>,
}

/// Some of the nodes. What is absent is as `[nodes]` has it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NodeGroup {
    /// What reports call it; its number, from 1, when absent.
    pub name: Option<String>,
    /// How many nodes, whose numbers follow those of the group before.
    pub count: u32,
    /// What they boot; the scenario's image when absent.
    pub image: Option<Image>,
    /// RAM of each.
    pub memory: Option<Bytes>,
    /// Processors of each.
    pub vcpus: Option<u32>,
    /// Ranks that launchers may start on each; as many as `vcpus` where the group has that, else
    /// `workload.ranks-per-node`.
    pub ranks_per_node: Option<u32>,
    /// Processor clock.
    pub clock: Option<Rate>,
    /// The level of the x86-64 psABI that the processors have.
    #[schemars(with = "Option<String>")]
    pub level: Option<LevelName>,
    /// Extensions besides the level.
    pub extensions: Option<Vec<String>>,
    /// Virtual cycles for each retired instruction.
    pub cycles_per_instruction: Option<f64>,
    /// What time is made of besides instructions.
    pub timing: Option<TimingTable>,
}

fn one_vcpu() -> u32 {
    1
}

impl Nodes {
    /// How many nodes there are; 0 where nothing says so.
    pub fn count(&self) -> u32 {
        let counts = self.group.iter().map(|group| group.count);
        let sum = || counts.fold(0, u32::saturating_add);
        self.count.unwrap_or_else(sum)
    }

    /// The nodes of each group as if all were of it, with the ranks that launchers may start on each of
    /// them where `ranks` is what the workload says; all nodes where there are no groups.
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
        };
        let ranks = group.ranks_per_node.or(group.vcpus).unwrap_or(ranks);
        (nodes, ranks)
    }

    /// Virtual cycles for each retired instruction, where those have no cost of their own.
    pub fn ratio(&self) -> f64 {
        self.cycles_per_instruction.unwrap_or(1.0)
    }
}

/// Where results come from of which manuals say how exact they are, or that they are undefined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Results {
    /// The exact engine defines them, the same on every make of processor.
    #[default]
    Defined,
    /// The host's processor has them.
    Host,
}

/// How nodes come up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BootKind {
    /// One boots, and all are clones of it that then learn who they are.
    #[default]
    Clone,
    /// Each boots by itself.
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
