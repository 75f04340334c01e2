//! Files of the nodes for the run directory: `workload.outputs`.
//!
//! They are requested after the run's last cycle, from each node alone. A node's state then is the same in every run of a
//! scenario, independent of the cause of the end, and the requests change no records. A node's answer is untrusted:
//! [`Answer`](outputs::Answer) parses it, [`Received`](outputs::Received) writes files into the run directory, within the limit,
//! beneath the node's own folder. A [`Keeper`](outputs::Keeper) does that for all nodes, on the host that has the run directory.

/// A node's answer to a request for files.
mod answer;
/// The thread that writes the nodes' files.
mod keeper;
/// Files of a node, written into the run directory as they arrive.
mod received;

use belljar_sim::figures::{counted, counted_as};
use serde::{Deserialize, Serialize};

pub use answer::AnswerError;
pub(crate) use answer::{Answer, AnswerPiece};
pub(crate) use keeper::{Keeper, Word};
pub(crate) use received::Received;
pub use received::Refused;

/// The folder in a run directory.
pub const FOLDER: &str = "files";

/// Maximum number of warnings of outputs for all nodes.
const MOST_WARNINGS: usize = 20;

/// The files requested from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedFiles {
    /// Patterns of names, with the rules of `belljar-collect.c`.
    pub patterns: Vec<String>,
    /// Byte limit of each node.
    pub limit: u64,
    /// True if `/root` is node 0's on all nodes. No other node can read it after the run.
    pub shared_folder: bool,
}

impl RequestedFiles {
    /// The request to node `node` as input of the control console.
    pub(crate) fn request(&self, node: u32) -> Vec<u8> {
        let mut request = format!("files {}\n", self.limit);
        let is_elsewhere = |pattern: &str| {
            let is_in_root = !pattern.starts_with('/') || pattern.starts_with("/root/");
            self.shared_folder && node != 0 && is_in_root
        };
        for pattern in self.patterns.iter().filter(|it| !is_elsewhere(it)) {
            request.push_str(pattern);
            request.push('\n');
        }
        request.push('\n');
        request.into_bytes()
    }
}

/// The files received from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeOutputs {
    /// Its number.
    pub node: u32,
    /// Files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Matching files that were left out, with reasons: the first ones.
    pub left_out: Vec<String>,
    /// Number of files left out.
    pub left_out_count: u64,
    /// The reason if files are missing.
    pub failed: Option<String>,
}

/// A run's warnings about missing files.
pub(crate) fn warnings(outputs: &[NodeOutputs]) -> Vec<String> {
    let mut warnings: Vec<String> = outputs.iter().flat_map(NodeOutputs::warnings).collect();
    let more = warnings.len().saturating_sub(MOST_WARNINGS);
    if more > 0 {
        warnings.truncate(MOST_WARNINGS);
        warnings.push(format!(
            "{} of outputs, see outputs in summary.json",
            counted(more as u64, "more warning")
        ));
    }
    warnings
}

impl NodeOutputs {
    fn warnings(&self) -> Vec<String> {
        let node = self.node;
        let mut warnings: Vec<String> = self
            .left_out
            .iter()
            .map(|what| format!("node {node}: output left out: {what}"))
            .collect();
        let more = self.left_out_count - self.left_out.len() as u64;
        if more > 0 {
            warnings.push(format!(
                "node {node}: {} left out",
                counted_as(more, "more output is", "more outputs are")
            ));
        }
        if let Some(why) = &self.failed {
            warnings.push(format!("node {node}: its outputs are not whole: {why}"));
        }
        warnings
    }
}
