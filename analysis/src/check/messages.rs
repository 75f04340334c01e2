//! Data of matched messages: datatypes of both sides, receives that are too small, and messages that no receive took.
//!
//! Memory holds sends and receives without a partner alone. Type signatures of derived datatypes are not in traces, so only
//! their sizes are compared. Called for each fact.

use std::collections::BTreeMap;
use std::rc::Rc;

use belljar_job::{Fact, Operation, OperationId, Origin};
use belljar_trace::{Datatype, Direction, Ending, Event, Transfer};

use super::finding::{FindingKind, Findings};
use super::signature::agree;
use crate::dump::words;

/// One side of a message.
#[derive(Clone, Debug)]
struct MessageEnd {
    call: Rc<Event>,
    transfer: usize,
}

impl MessageEnd {
    fn transfer(&self) -> Option<&Transfer> {
        self.call.transfers.get(self.transfer)
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
    pub(super) fn take(&mut self, call: &Rc<Event>, fact: &Fact, findings: &mut Findings) {
        let Fact::Begun {
            operation,
            origin: Origin::Transfer(transfer),
            what:
                Operation::Send {
                    partitioned: None, ..
                }
                | Operation::Receive {
                    partitioned: None, ..
                },
        } = fact
        else {
            self.settle(fact, findings);
            return;
        };
        let end = MessageEnd {
            call: Rc::clone(call),
            transfer: *transfer,
        };
        self.ends.insert(*operation, end);
    }

    /// Takes a fact on operations that have begun.
    pub(super) fn settle(&mut self, fact: &Fact, findings: &mut Findings) {
        match fact {
            Fact::Matched { send, receive } => {
                let both = self.ends.remove(send).zip(self.ends.remove(receive));
                if let Some((send, receive)) = both {
                    compare(&send, &receive, findings);
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
    /// Adds messages that no receive took, after all processes have ended MPI.
    pub(super) fn finish(&self, findings: &mut Findings) {
        if self.is_doubtful {
            return;
        }
        for end in self.ends.values() {
            let transfer = end.transfer();
            let Some(sent) = transfer.filter(|own| own.direction == Direction::Send) else {
                continue;
            };
            let text = format!(
                "no receive took a message of rank {} to {} with tag {}",
                end.call.rank,
                words::peer(sent.peer),
                sent.tag.unwrap_or(0)
            );
            findings.add(FindingKind::LostMessage, &[&end.call], text);
        }
    }
}

fn compare(send: &MessageEnd, receive: &MessageEnd, findings: &mut Findings) {
    let Some((sent, received)) = send.transfer().zip(receive.transfer()) else {
        return;
    };
    let calls = [&send.call, &receive.call];
    if sent.bytes > 0 && !agree(sent.datatype, received.datatype) {
        let (sent, received) = (
            words::datatype(sent.datatype),
            words::datatype(received.datatype),
        );
        findings.add(
            FindingKind::DatatypeMismatch,
            &calls,
            format!("a message of {sent} is received as {received}"),
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
