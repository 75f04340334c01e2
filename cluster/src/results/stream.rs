//! What is kept of each node as it comes, and the files that it goes into: what it writes, as text, and its profile.
//!
//! A node has its serial console, `ttyS0`, where its kernel and its init write, and two more to
//! which the workload's command writes, on node 0 alone: `hvc1` is its standard output, `hvc2` its
//! standard error.

use serde::{Deserialize, Serialize};

/// One of a node's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stream {
    /// The serial console.
    Console,
    /// The command's standard output.
    Stdout,
    /// The command's standard error.
    Stderr,
    /// What its processors were doing every so often: the host's, not the node's.
    Profile,
}

/// Folder of a run directory that has the nodes' profiles.
pub const PROFILE_FOLDER: &str = "profile";

impl Stream {
    /// All of them, in the order of their [numbers](Self::number).
    pub const ALL: [Self; 4] = [Self::Console, Self::Stdout, Self::Stderr, Self::Profile];

    /// Its place in [`ALL`](Self::ALL).
    pub(crate) fn number(self) -> usize {
        self as usize
    }

    /// Whether a run has it, which has profiles or not.
    pub(crate) fn is_of(self, profiled: bool) -> bool {
        profiled || self != Self::Profile
    }

    /// Which of its output consoles the node writes it to; `None` for the serial console, and for what it does not write.
    pub(crate) fn device(self) -> Option<usize> {
        match self {
            Self::Console | Self::Profile => None,
            Self::Stdout => Some(0),
            Self::Stderr => Some(1),
        }
    }

    /// Its file in the run directory for node `node`, if that node has such a file.
    pub fn file(self, node: u32) -> Option<String> {
        match (self, node) {
            (Self::Console, _) => Some(format!("console/node{node}.log")),
            (Self::Stdout, 0) => Some("stdout".to_owned()),
            (Self::Stderr, 0) => Some("stderr".to_owned()),
            (Self::Profile, _) => Some(format!("{PROFILE_FOLDER}/node{node}.bjp")),
            _ => None,
        }
    }

    /// What its files are called, without the node.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Console => "console",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Profile => "profile",
        }
    }

    /// What it is, in words.
    pub fn what(self) -> &'static str {
        match self {
            Self::Console => "console",
            Self::Stdout => "standard output",
            Self::Stderr => "standard error",
            Self::Profile => "profile",
        }
    }
}
