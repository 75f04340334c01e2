//! Outputs of each node and their files: text, and the node's profile.
//!
//! A node has a serial console, `ttyS0`, for its kernel and its init. The workload's command writes to two more consoles,
//! on node 0 alone: `hvc1` is its standard output, `hvc2` its standard error.

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
    /// The samples of its processors, recorded by the host.
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

    /// True if a run has it; a profile needs `profiled`.
    pub(crate) fn is_of(self, profiled: bool) -> bool {
        profiled || self != Self::Profile
    }

    /// The index of its output console; `None` for the serial console and for the profile.
    pub(crate) fn device(self) -> Option<usize> {
        match self {
            Self::Console | Self::Profile => None,
            Self::Stdout => Some(0),
            Self::Stderr => Some(1),
        }
    }

    /// Its file in the run directory for node `node`, if that node has one.
    pub fn file(self, node: u32) -> Option<String> {
        match (self, node) {
            (Self::Console, _) => Some(format!("console/node{node}.log")),
            (Self::Stdout, 0) => Some("stdout".to_owned()),
            (Self::Stderr, 0) => Some("stderr".to_owned()),
            (Self::Profile, _) => Some(format!("{PROFILE_FOLDER}/node{node}.bjp")),
            _ => None,
        }
    }

    /// The base name of its files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Console => "console",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Profile => "profile",
        }
    }

    /// Its description in words.
    pub fn what(self) -> &'static str {
        match self {
            Self::Console => "console",
            Self::Stdout => "standard output",
            Self::Stderr => "standard error",
            Self::Profile => "profile",
        }
    }
}
