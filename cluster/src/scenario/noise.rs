//! `[[nodes.noise]]`: detours of nodes' processors, as a scenario's file defines them.
//!
//! Values as written; a plan resolves their combination and the nodes.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::scenario::quantity::Duration;

/// Detours of nodes' processors.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NoiseTable {
    /// Node numbers, as `"0-3,7"`; all nodes when absent.
    pub nodes: Option<String>,
    /// Name or number of a group of nodes.
    pub group: Option<String>,
    /// Mean time from the beginning of one detour to the beginning of the next.
    pub period: Duration,
    /// Distribution of these times.
    #[serde(default)]
    pub spacing: Spacing,
    /// Mean duration of a detour.
    pub length: Option<Duration>,
    /// Several durations instead; each detour draws one.
    #[serde(default)]
    pub lengths: Vec<Duration>,
    /// Distribution of durations.
    #[serde(default)]
    pub distribution: LengthDistribution,
    /// Shape of a Pareto distribution; 2 when absent.
    pub shape: Option<f64>,
    /// True for detours at the same times on all processors of all these nodes.
    #[serde(default)]
    pub synchronised: bool,
}

/// Distributions of times between detours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// Always the period.
    #[default]
    Periodic,
    /// Independent detours.
    Exponential,
    /// Uniform from zero to twice the period.
    Uniform,
}

/// Distributions of durations of detours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LengthDistribution {
    /// Always the given value.
    #[default]
    Fixed,
    /// Exponential.
    Exponential,
    /// Uniform from zero to twice the mean.
    Uniform,
    /// Pareto: few that are much longer than most.
    Pareto,
}
