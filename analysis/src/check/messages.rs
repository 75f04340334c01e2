//! Data of matched messages: datatypes of both sides, and receives that are too small.
//!
//! Memory holds sends and receives without a partner alone. Type signatures of derived datatypes are not in traces, so only
//! their sizes are compared. Called for each fact.

use std::collections::BTreeMap;
use std::rc::Rc;

use belljar_job::{Fact, Operation, OperationId, Origin};
use belljar_trace::{Datatype, Event, Transfer};

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
pub(super) struct Messages(BTreeMap<OperationId, MessageEnd>);

impl Messages {
    /// Takes a fact of a call.
    pub(super) fn take(&mut self, call: &Rc<Event>, fact: &Fact, findings: &mut Findings) {
        match fact {
            Fact::Begun {
                operation,
                origin: Origin::Transfer(transfer),
                what:
                    Operation::Send {
                        partitioned: None, ..
                    }
                    | Operation::Receive {
                        partitioned: None, ..
                    },
            } => {
                let call = Rc::clone(call);
                let transfer = *transfer;
                self.0.insert(*operation, MessageEnd { call, transfer });
            }
            Fact::Matched { send, receive } => {
                let both = self.0.remove(send).zip(self.0.remove(receive));
                if let Some((send, receive)) = both {
                    compare(&send, &receive, findings);
                }
            }
            Fact::Lost { operation, .. } => {
                self.0.remove(operation);
            }
            _ => {}
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
