//! Files of the nodes for the run directory: `workload.outputs`.
//!
//! They are asked for after the run's last cycle, of each node by itself: what it has then is the same
//! in every run of a scenario, whatever ended the run, and nothing that is asked changes what was
//! recorded. What a node answers is a guest's word: [`Answer`](outputs::Answer) reads it, [`Received`](outputs::Received) puts files into
//! the run directory, within the limit, beneath the node's own folder. A [`Keeper`](outputs::Keeper) does that for all
//! nodes, on the host that has the run directory.

/// What a node answers when it is asked for files.
mod answer;
/// Where the nodes' files are put, in a thread of its own.
mod keeper;
/// Files of a node, put into the run directory as they come.
mod received;

use belljar_sim::figures::{counted, counted_as};
use serde::{Deserialize, Serialize};

pub use answer::AnswerError;
pub(crate) use answer::{Answer, Part};
pub(crate) use keeper::{Keeper, Word};
pub(crate) use received::Received;
pub use received::Refused;

/// The folder in a run directory.
pub const FOLDER: &str = "files";

/// Warnings of outputs, all nodes together.
const MOST_WARNINGS: usize = 20;

/// What is asked of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What names match: `belljar-collect.c` has the rules.
    pub patterns: Vec<String>,
    /// The most bytes of each node.
    pub limit: u64,
}

impl Wanted {
    /// The request as it is typed into the control console.
    pub(crate) fn request(&self) -> Vec<u8> {
        let mut request = format!("files {}\n", self.limit);
        for pattern in &self.patterns {
            request.push_str(pattern);
            request.push('\n');
        }
        request.push('\n');
        request.into_bytes()
    }
}

/// What came of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeOutputs {
    /// Its number.
    pub node: u32,
    /// Files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// What matched and is not there, and why: the first ones.
    pub left_out: Vec<String>,
    /// How many of those there are.
    pub left_out_count: u64,
    /// Why not everything came, if that is so.
    pub failed: Option<String>,
}

/// The lines with which a run warns of what is not there.
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
