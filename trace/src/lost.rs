//! Processes that have ended, as a run observed them.
//!
//! A trace has no ends of processes: a run learns them from the guests' kernels and keeps those of an unfinished run in a file
//! beside the trace. A rank whose process has ended sends nothing any more. Written by runs, read by commands.

use serde::{Deserialize, Serialize};

/// The file beside the trace.
pub const LOST_FILE: &str = "lost.json";

/// An MPI process that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LostProcess {
    /// Its node.
    pub node: u32,
    /// Its number on the node, as in the trace.
    pub process: u32,
    /// The status with which it ended, as `wait` returns it, if that was observed.
    pub status: Option<u32>,
}

impl LostProcess {
    /// Describes the end of a process with this status, after the word "which".
    pub fn describe(status: Option<u32>) -> String {
        match status {
            Some(status) if status & 0x7f != 0 => format!("was ended by {}", signal(status & 0x7f)),
            Some(status) => format!("exited with status {}", status >> 8 & 0xff),
            None => "has exited".to_owned(),
        }
    }
}

/// A signal of Linux on x86-64 in words.
fn signal(number: u32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return format!("signal {number}"),
    };
    format!("signal {number} ({name})")
}
