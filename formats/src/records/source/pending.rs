//! Incomplete operations, and their records.
//!
//! An operation keeps the arguments that its record needs at completion. Their number is bounded by the job's operations.
//! Used by the source at the begin and the completion of each operation.

use belljar_job::{Channel, Completer, Loss, Operation, OperationId, Origin};
use belljar_trace::{Peer, Phase};

use super::Source;
use crate::records::calls::{Collected, ExportedCall, Record};

/// An incomplete operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingOperation {
    /// The number of its request; `None` for an operation that its call completes.
    pub(super) request: Option<u64>,
    pub(super) kind: PendingKind,
}

/// The kind of an incomplete operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum PendingKind {
    Send,
    Receive(Receive),
    Collective(Collected),
}

/// The arguments of a receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    /// The communicator, by the process's own number.
    pub(super) communicator: u32,
    pub(super) peer: Peer,
    /// The channel of its message, once it is known.
    pub(super) channel: Option<Channel>,
    /// The size of the buffer in bytes, and true if the message has this length.
    pub(super) room: (u64, bool),
}

impl Source {
    /// Begins an operation of a call; a send has this number of its message.
    pub(super) fn begin(
        &mut self,
        call: &mut ExportedCall,
        operation: OperationId,
        message: Option<u64>,
        origin: Origin,
        what: Operation,
    ) {
        let phase = match origin {
            Origin::Transfer(index) => call.event.transfers[index].phase,
            Origin::Collective(index) => call.event.collectives[index].phase,
            Origin::Call => return,
        };
        if let (Operation::Access { .. }, Origin::Transfer(index)) = (what, origin) {
            let transfer = call.event.transfers[index].clone();
            self.access(call, &transfer);
            return;
        }
        let request = (phase == Phase::Begun).then(|| self.request(call.process));
        let kind = match (what, origin) {
            (Operation::Send { channel, .. }, Origin::Transfer(index)) => {
                self.send(call, index, channel, message, request)
            }
            (
                Operation::Receive {
                    wanted,
                    to,
                    communicator,
                    ..
                },
                Origin::Transfer(index),
            ) => {
                let channel = wanted.from.zip(wanted.tag).map(|(from, tag)| Channel {
                    communicator,
                    to,
                    from,
                    tag,
                });
                self.post(call, index, channel, request)
            }
            (Operation::Collective { .. }, Origin::Collective(index)) => {
                self.take_part(call, index, request)
            }
            _ => None,
        };
        let pending = kind.map(|kind| PendingOperation { request, kind });
        self.pending
            .extend(pending.map(|pending| (operation, pending)));
    }

    /// Returns the number of a process's next request, from 1.
    fn request(&mut self, process: u32) -> u64 {
        let count = self.requests.entry(process).or_default();
        *count += 1;
        *count
    }

    /// Sets the channel of a receive.
    pub(super) fn name(&mut self, receive: OperationId, channel: Channel) {
        let pending = self.pending.get_mut(&receive);
        if let Some(PendingKind::Receive(receive)) = pending.map(|pending| &mut pending.kind) {
            receive.channel = Some(channel);
        }
    }

    /// Handles an operation whose partner stays unknown, or that is no longer followed.
    pub(super) fn lose(&mut self, operation: OperationId, why: Loss) {
        self.numbers.forget(operation);
        if matches!(why, Loss::Bound | Loss::Unmapped) {
            let forgotten = self.pending.remove(&operation).is_some() && why == Loss::Bound;
            self.left_out.requests += u64::from(forgotten);
        }
    }

    /// Completes an operation in a call; it moved nothing if it was cancelled or failed.
    pub(super) fn complete(
        &mut self,
        call: &mut ExportedCall,
        operation: OperationId,
        pending: PendingOperation,
        nothing: bool,
        by: Completer,
    ) {
        let record = match (pending.kind, pending.request) {
            (_, None) if nothing => None,
            (_, Some(request)) if nothing => Some(Record::Cancelled(request)),
            (PendingKind::Send, request) => request.map(Record::SendCompleted),
            (PendingKind::Receive(receive), request) => {
                let part = self.received(call, operation, receive, by);
                part.map(|part| match request {
                    Some(request) => Record::ReceiveCompleted(part, request),
                    None => Record::Receive(part),
                })
            }
            (PendingKind::Collective(collected), Some(request)) => {
                Some(Record::CollectiveCompleted(collected, request))
            }
            (PendingKind::Collective(collected), None) => Some(Record::Collective(collected)),
        };
        call.done.extend(record);
    }
}
