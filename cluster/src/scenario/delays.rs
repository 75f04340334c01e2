//! Delays and failures at given times: `[[network.hold]]`, `[[network.lose]]`, `[[nodes.detour]]` and `[[nodes.fail]]`, as a scenario's file has them.
//!
//! Values as written; a plan's `delays` checks nodes, times and overlaps.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::scenario::quantity::Duration;

/// Frames of a node to another one that wait in the sender's network card.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HoldTable {
    /// Number of the sending node.
    pub from: u32,
    /// Number of the receiving node.
    pub to: u32,
    /// Virtual time from which frames wait.
    pub at: Duration,
    /// Time until they leave the card.
    #[serde(rename = "for")]
    pub length: Duration,
}

/// Frames of a node to another one that are lost on the sender's link.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LossTable {
    /// Number of the sending node.
    pub from: u32,
    /// Number of the receiving node.
    pub to: u32,
    /// Virtual time from which frames are lost.
    pub at: Option<Duration>,
    /// Instead, the number of the first lost frame among all frames from the one node to the other, from 1.
    pub frame: Option<u64>,
    /// Number of lost frames.
    #[serde(default = "one_frame")]
    pub frames: u64,
}

fn one_frame() -> u64 {
    1
}

/// A detour of a node's processors at a given time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DetourTable {
    /// Number of the node.
    pub node: u32,
    /// Number of the processor in it, from 0; all processors when absent.
    pub processor: Option<u32>,
    /// Virtual time of its start.
    pub at: Duration,
    /// Its length.
    #[serde(rename = "for")]
    pub length: Duration,
}

/// A failure of a node.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FailTable {
    /// Number of the node.
    pub node: u32,
    /// Virtual time of the failure.
    pub at: Duration,
    /// Kind of failure.
    #[serde(default)]
    pub kind: NodeFailure,
    /// Rank whose process is killed, of the ranks on the node; all of them when absent.
    pub rank: Option<u32>,
    /// Length of a pause, of a lost link or of the time without power before a restart; a link is lost for good when absent.
    #[serde(rename = "for")]
    pub length: Option<Duration>,
}

/// Failures of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeFailure {
    /// All processors stop for good, and the link fails, as without power.
    #[default]
    Die,
    /// All processors stop for a time; frames wait in the card.
    Pause,
    /// The link fails for a time, or for good.
    Link,
    /// The node loses power and, after a time, starts again as after its boot.
    Restart,
    /// The processes of ranks end by SIGKILL, as when the kernel runs out of memory.
    Kill,
}
