//! Messages: sends and receives.
//!
//! A send has its record at its begin, a receive at its completion. Used by the source for each operation that is a
//! side of a message.

use belljar_job::{Channel, Completer, OperationId};
use belljar_trace::{Event, Peer, Status};

use super::Source;
use super::pending::{PendingKind, Receive};
use crate::records::calls::{ExportedCall, ExportedMessage, Other, Record};

impl Source {
    /// Returns the communicator of a process by number, and the peer in it.
    pub(super) fn resolve(
        &mut self,
        event: &Event,
        communicator: Option<u32>,
        peer: Peer,
    ) -> Option<(u32, Other)> {
        let found = self.find(event, communicator, peer);
        self.left_out.communicators += u64::from(found.is_none());
        found
    }

    fn find(
        &mut self,
        event: &Event,
        communicator: Option<u32>,
        peer: Peer,
    ) -> Option<(u32, Other)> {
        let process = (event.node, event.process);
        let Peer::Rank(rank) = peer else {
            return None;
        };
        let number = communicator?;
        let group = self.places.group(&self.communicators, process, number)?;
        let member = self.communicators.peer(process, number, peer)?;
        Some((group, Other { rank, member }))
    }

    /// Adds a send: the transfer with this index, with this channel and number.
    pub(super) fn send(
        &mut self,
        call: &mut ExportedCall,
        index: usize,
        channel: Channel,
        message: Option<u64>,
        request: Option<u64>,
    ) -> Option<PendingKind> {
        let transfer = &call.event.transfers[index];
        let (communicator, peer, bytes) = (transfer.communicator, transfer.peer, transfer.bytes);
        let (group, other) = self.resolve(&call.event, communicator, peer)?;
        let part = ExportedMessage {
            group,
            other,
            tag: channel.tag,
            bytes,
            message,
        };
        call.begun.push(match request {
            Some(request) => Record::SendBegun(part, request),
            None => Record::Send(part),
        });
        Some(PendingKind::Send)
    }

    /// Adds a posted receive: the transfer with this index, with this channel if it is known.
    pub(super) fn post(
        &mut self,
        call: &mut ExportedCall,
        index: usize,
        channel: Option<Channel>,
        request: Option<u64>,
    ) -> Option<PendingKind> {
        let transfer = &call.event.transfers[index];
        call.begun.extend(request.map(Record::ReceiveBegun));
        Some(PendingKind::Receive(Receive {
            communicator: transfer.communicator?,
            peer: transfer.peer,
            channel,
            room: (transfer.bytes, transfer.exact),
        }))
    }

    /// Returns the message of a receive, if its sender is known.
    pub(super) fn received(
        &mut self,
        call: &ExportedCall,
        operation: OperationId,
        receive: Receive,
        by: Completer,
    ) -> Option<ExportedMessage> {
        let completion = match by {
            Completer::Completion(index) => call.event.completed.get(index),
            _ => None,
        };
        let (status, (bytes, exact)) = match completion {
            Some(own) => (own.status, (own.received, own.exact)),
            None => (call.event.status, receive.room),
        };
        let message = self.numbers.receive(operation);
        let Some(channel) = receive.channel else {
            let empty = status.is_some_and(|status| status.source == Peer::Null);
            self.left_out.untold += u64::from(!empty);
            return None;
        };
        let peer = self.sender(&call.event, &receive, channel, status);
        let (group, other) = self.resolve(&call.event, Some(receive.communicator), peer)?;
        self.left_out.room += u64::from(!exact);
        self.left_out.unnumbered += u64::from(message.is_none());
        Some(ExportedMessage {
            group,
            other,
            tag: channel.tag,
            bytes,
            message,
        })
    }

    /// Returns the sender of a message, in the communicator of its receive.
    fn sender(
        &self,
        event: &Event,
        receive: &Receive,
        channel: Channel,
        status: Option<Status>,
    ) -> Peer {
        if matches!(receive.peer, Peer::Rank(_)) {
            return receive.peer;
        }
        if let Some(status) = status {
            return status.source;
        }
        let process = (event.node, event.process);
        let number = receive.communicator;
        let remote = self.communicators.remote_members(process, number);
        let members = remote.or_else(|| self.communicators.members(process, number));
        let mut ranks = members.into_iter().flat_map(|all| all.iter()).zip(0..);
        let own = ranks.find(|(member, _)| *member == channel.from);
        own.map_or(Peer::Any, |(_, rank)| Peer::Rank(rank))
    }
}
