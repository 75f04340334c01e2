//! What nodes write that a run keeps as text, and the files that it goes into.
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
}

impl Stream {
    /// All of them, in the order of their [numbers](Self::number).
    pub const ALL: [Self; 3] = [Self::Console, Self::Stdout, Self::Stderr];

    /// Its place in [`ALL`](Self::ALL).
    pub(crate) fn number(self) -> usize {
        self as usize
    }

    /// Which of its output consoles the node writes it to; `None` is the serial console.
    pub(crate) fn device(self) -> Option<usize> {
        match self {
            Self::Console => None,
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
            _ => None,
        }
    }

    /// What its files are called, without the node.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Console => "console",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    /// What it is, in words.
    pub fn what(self) -> &'static str {
        match self {
            Self::Console => "console",
            Self::Stdout => "standard output",
            Self::Stderr => "standard error",
        }
    }
}
