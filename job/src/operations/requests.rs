//! Open requests, and the operations of each.
//!
//! A trace numbers the requests of a process, and reuses a number after the request's completion. If a number is reused
//! earlier, or there are too many requests, operations are lost. Called for each call that returns or completes
//! requests.

use std::collections::BTreeMap;

use super::ProcessCall;
use super::fact::{Fact, Loss, OperationId};
use crate::communicators::{Member, ProcessKey};
use crate::matching::Channel;

/// Limit on requests of a process that are followed.
pub(super) const MOST_REQUESTS: usize = 1 << 16;

/// An operation that is not complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenOperation {
    pub(super) operation: OperationId,
    pub(super) side: MessageSide,
}

/// The side of a message that an operation is.
#[derive(Clone, Copy, Debug)]
pub(super) enum MessageSide {
    Send(Channel),
    Receive(Receive),
    /// Not a message.
    Neither,
}

/// A posted receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    /// The communicator, by the number that all members use.
    pub(super) communicator: u32,
    /// The communicator, by the process's own number.
    pub(super) number: u32,
    pub(super) to: Member,
    /// True if it names sender and tag.
    pub(super) known: bool,
    /// True if it has a request, which `MPI_Cancel` can cancel.
    pub(super) cancellable: bool,
}

/// The open requests of all processes.
#[derive(Debug, Default)]
pub(super) struct Requests(BTreeMap<ProcessKey, BTreeMap<u64, Vec<OpenOperation>>>);

impl Requests {
    /// Stores the operations of the requests that a call returned.
    pub(super) fn insert(
        &mut self,
        call: ProcessCall<'_>,
        begun: Vec<Option<OpenOperation>>,
        facts: &mut Vec<Fact>,
    ) {
        match call.event.started.as_slice() {
            [] if begun.is_empty() => {}
            // One request may have several operations, as for MPI_Isendrecv.
            [request] => {
                let begun = begun.into_iter().flatten().collect();
                self.stand(call.process, *request, begun, facts);
            }
            requests if requests.len() == begun.len() => {
                for (request, open) in requests.iter().zip(begun) {
                    let open = open.into_iter().collect();
                    self.stand(call.process, *request, open, facts);
                }
            }
            // The trace does not map requests to operations here, so their completion is unknown.
            requests => {
                facts.push(Fact::Unmapped {
                    requests: requests.len() as u32,
                });
                facts.extend(begun.into_iter().flatten().map(|open| Fact::Lost {
                    operation: open.operation,
                    why: Loss::Unmapped,
                }));
            }
        }
    }

    fn stand(
        &mut self,
        process: ProcessKey,
        request: u64,
        operations: Vec<OpenOperation>,
        facts: &mut Vec<Fact>,
    ) {
        let own = self.0.entry(process).or_default();
        let mut lost = own.insert(request, operations).unwrap_or_default();
        if own.len() > MOST_REQUESTS {
            lost.extend(own.pop_first().into_iter().flat_map(|(_, oldest)| oldest));
        }
        facts.extend(lost.into_iter().map(|open| Fact::Lost {
            operation: open.operation,
            why: Loss::Bound,
        }));
    }

    /// The operations of a completed request.
    pub(super) fn take(&mut self, process: ProcessKey, request: u64) -> Vec<OpenOperation> {
        let own = self.0.get_mut(&process);
        own.and_then(|own| own.remove(&request)).unwrap_or_default()
    }
}
