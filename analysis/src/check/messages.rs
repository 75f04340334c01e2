//! Data of matched messages: datatypes of both sides, receives that are too small, and messages that no receive took.
//!
//! Memory holds sends and receives without a partner alone. Called for each fact.

/// Datatypes at the origin and at the target of accesses to windows.
mod one_sided;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use belljar_job::{Channel, Fact, Member, Operation, OperationId, Origin};
use belljar_trace::{Datatype, Direction, Ending, Event, Transfer};

use super::finding::{FindingKind, Findings};
use super::signature::types::{Comparison, TypeTable, TypedData, difference as type_difference};
use crate::causes::hang::JobRank;
use crate::dump::words;

/// Most messages of a receiver that are compared with a receive.
const MOST_COMPARED: usize = 64;

/// One side of a message.
#[derive(Clone, Debug)]
struct MessageEnd {
    call: Rc<Event>,
    transfer: usize,
    communicator: u32,
    /// The sender; `None` for a receive from any source.
    from: Option<Member>,
    to: Member,
    /// The tag; `None` for any.
    tag: Option<i32>,
}

impl MessageEnd {
    fn transfer(&self) -> Option<&Transfer> {
        self.call.transfers.get(self.transfer)
    }

    fn data(&self) -> Option<TypedData> {
        let transfer = self.transfer()?;
        Some(TypedData {
            process: (self.call.node, self.call.process),
            datatype: transfer.datatype,
            count: transfer.count,
        })
    }
}

/// Sends and receives without a partner.
#[derive(Debug, Default)]
pub(super) struct Messages {
    ends: BTreeMap<OperationId, MessageEnd>,
    /// True if the trace does not describe all operations, so that a message may have been received.
    is_doubtful: bool,
}

impl Messages {
    /// Takes a fact of a call.
    pub(super) fn take(
        &mut self,
        call: &Rc<Event>,
        fact: &Fact,
        types: &TypeTable,
        findings: &mut Findings,
    ) {
        one_sided::take(call, fact, types, findings);
        let Fact::Begun {
            operation,
            origin: Origin::Transfer(transfer),
            what,
        } = fact
        else {
            self.settle(fact, types, findings);
            return;
        };
        let (communicator, from, to, tag) = match *what {
            Operation::Send {
                channel,
                partitioned: None,
            } => {
                let Channel { from, to, .. } = channel;
                (channel.communicator, Some(from), to, Some(channel.tag))
            }
            Operation::Receive {
                communicator,
                to,
                wanted,
                partitioned: None,
            } => (communicator, wanted.from, to, wanted.tag),
            _ => return,
        };
        let end = MessageEnd {
            call: Rc::clone(call),
            transfer: *transfer,
            communicator,
            from,
            to,
            tag,
        };
        self.ends.insert(*operation, end);
    }

    /// Takes a fact on operations that have begun.
    pub(super) fn settle(&mut self, fact: &Fact, types: &TypeTable, findings: &mut Findings) {
        match fact {
            Fact::Matched { send, receive } => {
                let both = self.ends.remove(send).zip(self.ends.remove(receive));
                if let Some((send, receive)) = both {
                    compare(&send, &receive, types, findings);
                }
            }
            Fact::Completed {
                operation,
                ending,
                cancelled,
                ..
            } if *cancelled || *ending != Ending::Well => {
                self.ends.remove(operation);
            }
            Fact::Lost { operation, .. } => {
                self.ends.remove(operation);
                self.is_doubtful = true;
            }
            Fact::Unmapped { .. } | Fact::Unknown { .. } => self.is_doubtful = true,
            _ => {}
        }
    }
}

impl Messages {
    /// Adds messages that no receive took, if all processes have ended MPI, and receives of `stopped` processes that differ from
    /// such a message in the communicator or the tag.
    pub(super) fn finish(
        &self,
        is_ended: bool,
        stopped: &BTreeSet<JobRank>,
        findings: &mut Findings,
    ) {
        if self.is_doubtful {
            return;
        }
        let is_send = |end: &&MessageEnd| {
            let mut transfer = end.transfer().into_iter();
            transfer.any(|own| own.direction == Direction::Send)
        };
        let (sends, receives): (Vec<_>, Vec<_>) = self.ends.values().partition(is_send);
        let mut by_receiver: BTreeMap<Member, Vec<&MessageEnd>> = BTreeMap::new();
        for send in &sends {
            by_receiver.entry(send.to).or_default().push(send);
        }
        for receive in receives {
            let Member { job, rank } = receive.to;
            let stops = is_ended || stopped.contains(&JobRank { job, rank });
            let others = by_receiver.get(&receive.to).filter(|_| stops);
            let others = others.into_iter().flatten().take(MOST_COMPARED);
            if let Some((send, (kind, text))) = others
                .filter_map(|send| Some((send, difference(send, receive)?)))
                .next()
            {
                findings.add(kind, &[&send.call, &receive.call], text);
            }
        }
        for send in sends.iter().filter(|_| is_ended) {
            let text = format!(
                "no receive took a message of rank {} to rank {} with tag {}",
                send.call.rank,
                send.to.rank,
                send.tag.unwrap_or(0)
            );
            findings.add(FindingKind::LostMessage, &[&send.call], text);
        }
    }
}

/// The difference of a message that no receive takes, and a receive of its receiver that takes no message. A sender has other
/// ranks in other communicators, so the sender is not compared there.
fn difference(send: &MessageEnd, receive: &MessageEnd) -> Option<(FindingKind, String)> {
    let ranks = format!(
        "rank {} sends and rank {} receives",
        send.call.rank, receive.call.rank
    );
    let has_tag = receive.tag.is_none_or(|tag| send.tag == Some(tag));
    if send.communicator != receive.communicator && has_tag {
        let text = format!("{ranks} on different communicators");
        return Some((FindingKind::CommunicatorMismatch, text));
    }
    let is_sender = send.communicator == receive.communicator && send.from == receive.from;
    let (sent, wanted) = send.tag.zip(receive.tag)?;
    (is_sender && !has_tag).then(|| {
        let text = format!("{ranks} with different tags: {sent} and {wanted}");
        (FindingKind::TagMismatch, text)
    })
}

fn compare(send: &MessageEnd, receive: &MessageEnd, types: &TypeTable, findings: &mut Findings) {
    let Some((sent, received)) = send.transfer().zip(receive.transfer()) else {
        return;
    };
    let calls = [&send.call, &receive.call];
    let data = send.data().zip(receive.data()).filter(|_| sent.bytes > 0);
    let compared = data.map(|(sent, received)| types.compare(sent, received));
    if let Some(Comparison::Differ(at)) = compared {
        let [one, other] = [sent, received].map(|transfer| transfer.datatype);
        // Names of predefined datatypes say it.
        let at = match (one, other) {
            (Datatype::Predefined(_), Datatype::Predefined(_)) => None,
            _ => at,
        };
        let (one, other) = (words::datatype(one), words::datatype(other));
        let difference = type_difference(at);
        findings.add(
            FindingKind::DatatypeMismatch,
            &calls,
            format!("a message of {one} is received as {other}{difference}"),
        );
    }
    let sizes = capacity(received).zip(capacity(sent));
    if let Some((room, bytes)) = sizes.filter(|(room, bytes)| bytes > room) {
        findings.add(
            FindingKind::Truncation,
            &calls,
            format!("a message of {bytes} B is received into a buffer of {room} B"),
        );
    }
}

/// The bytes of a transfer's buffer by its count and datatype.
fn capacity(transfer: &Transfer) -> Option<u64> {
    match transfer.datatype {
        Datatype::Unknown => None,
        datatype => datatype.size()?.checked_mul(transfer.count),
    }
}
