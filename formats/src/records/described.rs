//! Named values that describe a call: peers, tags, bytes, communicators.
//!
//! Names are few and fixed, so that formats may number them. Used by formats whose slices have arguments.

use crate::records::calls::{Collected, ExportedCall, ExportedMessage, Other, Record, Root};
use belljar_mpi::Access;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A number.
    Number(i64),
    /// A word.
    Word(&'static str),
}

/// The names of values, in arbitrary order.
pub(crate) const NAMES: [&str; 13] = [
    "entry (ticks)",
    "in the call (ticks)",
    "calls",
    "result",
    "communicator",
    "to",
    "from",
    "tag",
    "bytes",
    "operation",
    "root",
    "bytes sent",
    "bytes received",
];

/// Takes names and values.
pub(crate) type Tell<'a> = dyn FnMut(&'static str, Value) + 'a;

fn number(value: u64) -> Value {
    Value::Number(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Describes a call by itself; its messages describe the received data.
pub(crate) fn call(call: &ExportedCall, tell: &mut Tell<'_>) {
    tell("entry (ticks)", number(call.entry));
    if let Some(exit) = call.exit {
        let inside = call.event.duration().filter(|_| call.event.calls() > 1);
        tell(
            "in the call (ticks)",
            number(inside.unwrap_or(exit - call.entry)),
        );
    }
    if call.event.calls() > 1 {
        tell("calls", number(call.event.calls()));
    }
    if let Some(result) = call.event.result.filter(|result| *result != 0) {
        tell("result", Value::Number(result));
    }
    for record in call.begun.iter().chain(&call.done) {
        match record {
            Record::Send(part) | Record::SendBegun(part, _) => message("to", part, tell),
            Record::Collective(collected) | Record::CollectiveCompleted(collected, _) => {
                collective(collected, tell);
            }
            Record::Accessed {
                access,
                other,
                sent,
                received,
                ..
            } => accessed(*access, *other, *sent, *received, tell),
            _ => {}
        }
    }
}

/// Describes a message; `side` is the name of its peer.
pub(crate) fn message(side: &'static str, part: &ExportedMessage, tell: &mut Tell<'_>) {
    tell(side, number(part.other.member.rank.into()));
    tell("tag", Value::Number(part.tag.into()));
    tell("bytes", number(part.bytes));
    tell("communicator", number(part.group.into()));
}

fn collective(collected: &Collected, tell: &mut Tell<'_>) {
    tell("operation", Value::Word(collected.operation.name()));
    tell("communicator", number(collected.group.into()));
    match collected.root {
        Some(Root::Rank(rank)) => tell("root", number(rank.into())),
        Some(Root::Own) => tell("root", Value::Word("this process")),
        Some(Root::OwnGroup) => tell("root", Value::Word("in the own group")),
        None => {}
    }
    if let Some(sent) = collected.sent {
        tell("bytes sent", number(sent));
    }
    if let Some(received) = collected.received {
        tell("bytes received", number(received));
    }
}

fn accessed(access: Access, other: Other, sent: u64, received: u64, tell: &mut Tell<'_>) {
    let side = if access == Access::Get { "from" } else { "to" };
    tell(side, number(other.member.rank.into()));
    tell("bytes sent", number(sent));
    tell("bytes received", number(received));
}

/// Returns the message that a record receives, if any.
pub(crate) fn received(record: &Record) -> Option<&ExportedMessage> {
    match record {
        Record::Receive(part) | Record::ReceiveCompleted(part, _) => Some(part),
        _ => None,
    }
}

/// Returns the message that a record sends, if any.
pub(crate) fn sent(record: &Record) -> Option<&ExportedMessage> {
    match record {
        Record::Send(part) | Record::SendBegun(part, _) => Some(part),
        _ => None,
    }
}
