//! What a format cannot hold, or the trace does not tell, counted.
//!
//! An export counts here what it leaves out, so that its caller can say it once at the end. Made by the source, and by formats.

use belljar_sim::figures::plural;

/// How often something was left out, or stands in another way than it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Calls of processes whose job the trace does not tell.
    pub processes: u64,
    /// Calls that an MPI library made of itself, or that the scenario did not select.
    pub unselected: u64,
    /// Calls that never returned.
    pub unreturned: u64,
    /// Polls that stand for others: more calls than there are records.
    pub folded: u64,
    /// Messages, parts in collective operations and accesses on communicators whose members the trace does not tell.
    pub communicators: u64,
    /// Messages that were received without a status by which it is known who sent them, or with which tag.
    pub untold: u64,
    /// Messages that were received without a status, which stand with the room there was for them.
    pub room: u64,
    /// Parts in collective operations that the format has no name for.
    pub collectives: u64,
    /// Requests that were forgotten because a process has too many.
    pub requests: u64,
    /// Requests of a call of which the trace does not tell which is whose.
    pub unassigned: u64,
    /// Messages of which one side was seen only, or of which it cannot be known which is which.
    pub alone: u64,
    /// Messages whose sides have no common number: the receive completed before the match of an earlier wildcard was known.
    pub unnumbered: u64,
    /// Calls without their site, as there are too many sites.
    pub sites: u64,
    /// Calls that begin before an earlier one of their thread ends.
    pub disorder: u64,
}

impl LeftOut {
    /// What was left out, as a number and a sentence about so many, in a fixed order.
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
