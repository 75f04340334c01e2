//! Messages: sends and receives from their begin to their completion.
//!
//! A send names its channel. A receive with a wildcard gets its channel from its status, or by deduction once every send
//! that it may have taken is known. Called for each transfer other than accesses to windows, and for each completion.

use std::ops::Deref;

use belljar_mpi::CallKind;
use belljar_trace::{Direction, Peer, Phase, Status};

use super::fact::{Fact, Loss, Operation, OperationId, Origin};
use super::partitions::partitioned;
use super::requests::{MessageSide, OpenOperation, Receive};
use super::{Operations, ProcessCall};
use crate::communicators::Communicators;
use crate::matching::{Channel, ReceiveSelector, Sent};

impl<C: Deref<Target = Communicators>> Operations<C> {
    /// A message that a call sends or receives: the transfer with this index.
    pub(super) fn message(
        &mut self,
        call: ProcessCall<'_>,
        index: usize,
        facts: &mut Vec<Fact>,
    ) -> Option<OpenOperation> {
        let transfer = &call.event.transfers[index];
        if matches!(transfer.peer, Peer::Null | Peer::Invalid(_)) {
            return None;
        }
        let origin = Origin::Transfer(index);
        let mut unknown = |why| {
            facts.push(Fact::Unknown { origin, why });
            None
        };
        let communicators = &*self.communicators;
        let found = transfer.communicator.and_then(|number| {
            let identity = communicators.identity(call.process, number)?;
            Some((number, identity))
        });
        let Some((number, communicator)) = found else {
            return unknown(Loss::Communicator);
        };
        let peer = communicators.peer(call.process, number, transfer.peer);
        if peer.is_none() && transfer.peer != Peer::Any {
            return unknown(Loss::Peer);
        }
        let partitioned = partitioned(call.event, index);
        match (transfer.direction, peer, transfer.tag) {
            (Direction::Send, Some(to), Some(tag)) => {
                let channel = Channel {
                    communicator,
                    from: call.member,
                    to,
                    tag,
                };
                Some(self.send(call, index, channel, partitioned, facts))
            }
            (Direction::Send, ..) => unknown(Loss::Peer),
            (Direction::Receive, from, tag) => {
                let receive = Receive {
                    communicator,
                    number,
                    to: call.member,
                    known: from.is_some() && tag.is_some(),
                    cancellable: transfer.phase != Phase::Done,
                };
                let wanted = ReceiveSelector { from, tag };
                Some(self.receive(call, index, receive, wanted, partitioned, facts))
            }
        }
    }

    fn send(
        &mut self,
        call: ProcessCall<'_>,
        index: usize,
        channel: Channel,
        partitioned: Option<u32>,
        facts: &mut Vec<Fact>,
    ) -> OpenOperation {
        let what = Operation::Send {
            channel,
            partitioned,
        };
        let open = self.open(
            Origin::Transfer(index),
            what,
            MessageSide::Send(channel),
            facts,
        );
        self.partitions.sends(call.process, partitioned, open);
        let sent = Sent {
            operation: open.operation,
            at: self.time(call.event, call.event.entry),
            thread: call.event.thread,
        };
        self.matcher.send(channel, sent, facts);
        open
    }

    fn receive(
        &mut self,
        call: ProcessCall<'_>,
        index: usize,
        receive: Receive,
        wanted: ReceiveSelector,
        partitioned: Option<u32>,
        facts: &mut Vec<Fact>,
    ) -> OpenOperation {
        let (communicator, to) = (receive.communicator, receive.to);
        let what = Operation::Receive {
            communicator,
            to,
            wanted,
            partitioned,
        };
        let side = MessageSide::Receive(receive);
        let origin = Origin::Transfer(index);
        let open = match self.matched_before(call, communicator, wanted) {
            Some((operation, known)) => {
                let open = self.open_as(operation, origin, what, side, facts);
                facts.extend(known);
                open
            }
            None => {
                let open = self.open(origin, what, side, facts);
                self.matcher
                    .receive((communicator, to), wanted, open.operation, facts);
                open
            }
        };
        self.partitions.receives(call.process, partitioned, open);
        let done = call.event.transfers[index].phase == Phase::Done;
        if let Some(exit) = call.event.exit.filter(|_| done) {
            let at = self.time(call.event, exit);
            self.received(call, open, at, call.event.status, facts);
        }
        open
    }

    /// The receive that a matched probe reserved for the message of this call, and the facts about it.
    fn matched_before(
        &mut self,
        call: ProcessCall<'_>,
        communicator: u32,
        wanted: ReceiveSelector,
    ) -> Option<(OperationId, Vec<Fact>)> {
        if call.event.meaning().kind != CallKind::ReceiveMatched {
            return None;
        }
        let (from, tag) = wanted.from.zip(wanted.tag)?;
        let channel = Channel {
            communicator,
            to: call.member,
            from,
            tag,
        };
        self.matched_probes.take(call.process, channel)
    }

    /// Completes a receive at a given time, with its status if the trace has one. No effect on other operations.
    pub(super) fn received(
        &mut self,
        call: ProcessCall<'_>,
        open: OpenOperation,
        at: u64,
        status: Option<Status>,
        facts: &mut Vec<Fact>,
    ) {
        let MessageSide::Receive(receive) = open.side else {
            return;
        };
        let place = (receive.communicator, receive.to);
        if receive.known || status.is_none() {
            let cancelling = receive.cancellable && self.cancelling.contains(&call.process);
            match cancelling && status.is_none() {
                true => self
                    .matcher
                    .perhaps_cancelled(place, open.operation, at, facts),
                false => self.matcher.ended(place, open.operation, at),
            }
            return;
        }
        let got = status.and_then(|status| {
            let peer = status.source;
            let from = self
                .communicators
                .peer(call.process, receive.number, peer)?;
            Some((from, status.tag))
        });
        let empty = status.is_some_and(|status| status.source == Peer::Null);
        match got {
            Some((from, tag)) => {
                facts.push(Fact::Named {
                    receive: open.operation,
                    channel: Channel {
                        communicator: receive.communicator,
                        to: receive.to,
                        from,
                        tag,
                    },
                });
                self.matcher.got(place, open.operation, from, tag, facts);
            }
            // Another process cancelled or freed the receive: it got nothing.
            None if empty => self.withdraw(open, facts),
            None => {
                self.withdraw(open, facts);
                facts.push(Fact::Lost {
                    operation: open.operation,
                    why: Loss::Peer,
                });
            }
        }
    }

    /// An operation moves no message: it was cancelled, or failed.
    pub(super) fn withdraw(&mut self, open: OpenOperation, facts: &mut Vec<Fact>) {
        match open.side {
            MessageSide::Receive(receive) => {
                let place = (receive.communicator, receive.to);
                self.matcher.withdraw(place, open.operation, facts);
            }
            MessageSide::Send(channel) => self.matcher.withdraw_send(channel, open.operation),
            MessageSide::Neither => {}
        }
    }
}
