//! Threads as locations, and the roles of regions.
//!
//! A thread has the same location number in definitions and in events. Used by the writer.

use belljar_collectives::Operation;

use crate::records::collective::operation;
use crate::records::places::ExportedThread;

/// A thread as a location of OTF2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Otf2Location(pub(super) ExportedThread);

impl Otf2Location {
    /// Returns a process's first thread.
    pub(super) fn main(process: u32) -> Self {
        Self(ExportedThread { process, thread: 0 })
    }

    /// Returns its number.
    pub(super) fn location(self) -> u64 {
        u64::from(self.0.thread) << 32 | u64::from(self.0.process)
    }
}

/// Returns the format's number for a function's role.
pub(super) fn role(function: &str) -> u8 {
    const FUNCTION: u8 = 1;
    const BARRIER: u8 = 15;
    const ONE_TO_ALL: u8 = 23;
    const ALL_TO_ONE: u8 = 24;
    const ALL_TO_ALL: u8 = 25;
    const POINT_TO_POINT: u8 = 28;
    const RMA: u8 = 29;
    let messages = ["send", "recv", "wait", "test", "probe", "start"];
    let name = function.to_ascii_lowercase();
    match operation(function) {
        Some(Operation::Barrier) => BARRIER,
        Some(Operation::Broadcast | Operation::Scatter | Operation::Scatterv) => ONE_TO_ALL,
        Some(Operation::Gather | Operation::Gatherv | Operation::Reduce) => ALL_TO_ONE,
        Some(_) => ALL_TO_ALL,
        None if name.starts_with("mpi_win_") => RMA,
        None if messages.iter().any(|message| name.contains(message)) => POINT_TO_POINT,
        None => FUNCTION,
    }
}
