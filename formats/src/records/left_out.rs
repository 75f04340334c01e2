//! Counts of data that a format cannot hold, or that the trace lacks.
//!
//! An export counts its omissions here, so that its caller can report them once at the end. Created by the source, and by
//! formats.

use belljar_sim::figures::plural;

/// Number of omissions and changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Calls of processes whose job is unknown.
    pub processes: u64,
    /// Calls that an MPI library made internally, or that the scenario did not select.
    pub unselected: u64,
    /// Calls that never returned.
    pub unreturned: u64,
    /// Polls merged into others: calls beyond the number of records.
    pub folded: u64,
    /// Messages, parts in collective operations and accesses on communicators with unknown members.
    pub communicators: u64,
    /// Messages received without a status, whose sender or tag is unknown.
    pub untold: u64,
    /// Messages received without a status, recorded with the size of their buffers.
    pub room: u64,
    /// Parts in collective operations without a name in the format.
    pub collectives: u64,
    /// Requests that were forgotten because a process has too many.
    pub requests: u64,
    /// Requests of a call that cannot be assigned to its operations.
    pub unassigned: u64,
    /// Messages with only one side, or with an ambiguous match.
    pub alone: u64,
    /// Messages whose sides have no common number: the receive completed before the match of an earlier wildcard was known.
    pub unnumbered: u64,
    /// Calls without their site, because there are too many sites.
    pub sites: u64,
    /// Calls that begin before an earlier one of their thread ends.
    pub disorder: u64,
}

impl LeftOut {
    /// Returns the counts of omissions, each with a sentence, in a fixed order.
    pub fn sentences(&self) -> impl Iterator<Item = (u64, &'static str)> {
        [
            (
                self.processes,
                "call is left out: the trace does not tell the job of its process",
                "calls are left out: the trace does not tell the job of their processes",
            ),
            (
                self.unselected,
                "call is left out: an MPI library made it of itself, or the scenario did not select it",
                "calls are left out: an MPI library made them of itself, or the scenario did not select them",
            ),
            (
                self.unreturned,
                "call never returned: it is entered and not left",
                "calls never returned: they are entered and not left",
            ),
            (
                self.folded,
                "poll that found nothing stands in the record of the first one of its kind, from its entry to the last one's exit",
                "polls that found nothing stand in the records of the first ones of their kind, from its entry to the last one's exit",
            ),
            (
                self.communicators,
                "message, access or part in a collective operation is left out: the trace does not tell its communicator's members",
                "messages, accesses and parts in collective operations are left out: the trace does not tell their communicators' members",
            ),
            (
                self.untold,
                "received message is left out: no status tells who sent it, or with which tag",
                "received messages are left out: no status tells who sent them, or with which tag",
            ),
            (
                self.room,
                "received message has the room for it as its length: no status tells how much came",
                "received messages have the room for them as their length: no status tells how much came",
            ),
            (
                self.collectives,
                "part in a collective operation is left out: the format has no name for the operation",
                "parts in collective operations are left out: the format has no name for the operation",
            ),
            (
                self.requests,
                "request is left out: a process has more than 65536 that are not complete",
                "requests are left out: a process has more than 65536 that are not complete",
            ),
            (
                self.unassigned,
                "request is left out: the trace does not tell which operation is whose",
                "requests are left out: the trace does not tell which operation is whose",
            ),
            (
                self.alone,
                "side of a message is left out: nothing tells which the other one is",
                "sides of messages are left out: nothing tells which the other one is",
            ),
            (
                self.unnumbered,
                "received message has no number of its send: an earlier receive from any source may have taken it",
                "received messages have no number of their send: an earlier receive from any source may have taken it",
            ),
            (
                self.sites,
                "call has no site: there are more than a million of them",
                "calls have no site: there are more than a million of them",
            ),
            (
                self.disorder,
                "call begins when the one before in its thread ends: the trace has it begin earlier",
                "calls begin when the one before in their thread ends: the trace has them begin earlier",
            ),
        ]
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| (count, plural(count, one, many)))
    }
}
