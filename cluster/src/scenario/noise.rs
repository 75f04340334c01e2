//! `[[nodes.noise]]`: detours of nodes' processors as a scenario's file says them.
//!
//! Values as they were written; what they mean together, and for which nodes, is found out when a plan is made.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::scenario::quantity::Duration;

/// Detours: something takes a node's processor for a while.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NoiseTable {
    /// On which nodes, as `"0-3,7"`; on all when absent.
    pub nodes: Option<String>,
    /// Only on nodes of this group, by its name or number.
    pub group: Option<String>,
    /// Time from the beginning of one detour to that of the next, on average.
    pub period: Duration,
    /// How these times are spread.
    #[serde(default)]
    pub spacing: Spacing,
    /// How long a detour lasts, on average.
    pub length: Option<Duration>,
    /// Instead, several lengths, one of which is drawn each time.
    #[serde(default)]
    pub lengths: Vec<Duration>,
    /// How lengths are spread.
    #[serde(default)]
    pub distribution: LengthDistribution,
    /// The shape of a Pareto distribution; 2 when absent.
    pub shape: Option<f64>,
    /// All processors of all these nodes have their detours at the same times.
    #[serde(default)]
    pub synchronised: bool,
}

/// How times from one detour to the next are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// All are the period.
    #[default]
    Periodic,
    /// Detours know nothing of each other.
    Exponential,
    /// Evenly from zero to twice the period.
    Uniform,
}

/// How lengths of detours are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LengthDistribution {
    /// They are as they are given.
    #[default]
    Fixed,
    /// Exponentially.
    Exponential,
    /// Evenly from zero to twice the mean.
    Uniform,
    /// Few that are much longer than most.
    Pareto,
}
