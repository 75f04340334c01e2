//! Messages: sent, received at once, or through requests.
//!
//! A message is received when the call returns that completes it; what its receive did not say, the status tells. Called by
//! the source for each message and for each completed request.

use belljar_trace::{Completion, Direction, Ending, Event, Peer, Status, Transfer};

use super::Source;
use crate::calls::{Call, Other, Part, Record};
use crate::matched::{Channel, Receipt};
use crate::requests::Pending;

/// The wishes of a receive: communicator, peer, tag, and the receipt of its posting.
type Wanted = (Option<u32>, Peer, Option<i32>, Receipt);

impl Source {
    /// The communicator of a process by number, and who in it a peer is.
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

    /// A message that is sent or received when the call returns.
    pub(super) fn message(&mut self, call: &mut Call, transfer: &Transfer) {
        if transfer.direction == Direction::Send {
            if let Some(part) = self.sent(call, transfer) {
                call.begun.push(Record::Send(part));
            }
        } else if call.exit.is_some() {
            let told = call.event.status;
            let room = (transfer.bytes, transfer.exact);
            let wanted = self.wanted(call, transfer);
            if let Some(part) = self.received(call, wanted, told, room) {
                call.done.push(Record::Receive(part));
            }
        }
    }

    /// A message whose request completes later: its number, and what the request stands for.
    pub(super) fn begin_message(
        &mut self,
        call: &mut Call,
        transfer: &Transfer,
    ) -> Option<(u64, Pending)> {
        let number = self.requests.number(call.process);
        if transfer.direction == Direction::Receive {
            call.begun.push(Record::ReceiveBegun(number));
            let (communicator, peer, tag, receipt) = self.wanted(call, transfer);
            let pending = Pending::Receive {
                communicator,
                peer,
                tag,
                receipt,
            };
            return Some((number, pending));
        }
        let part = self.sent(call, transfer)?;
        call.begun.push(Record::SendBegun(part, number));
        Some((number, Pending::Send))
    }

    fn sent(&mut self, call: &Call, transfer: &Transfer) -> Option<Part> {
        let (group, other) = self.resolve(&call.event, transfer.communicator, transfer.peer)?;
        let tag = transfer.tag.unwrap_or(0);
        let to = self.places.process(other.member)?;
        let message = self.matched.sent(Channel {
            group,
            from: call.process,
            to,
            tag,
        });
        Some(Part {
            group,
            other,
            tag,
            bytes: transfer.bytes,
            message,
        })
    }

    /// A receive is posted.
    fn wanted(&mut self, call: &Call, transfer: &Transfer) -> Wanted {
        let (communicator, peer, tag) = (transfer.communicator, transfer.peer, transfer.tag);
        let from = match peer {
            Peer::Any => Some(None),
            named => {
                let found = self.find(&call.event, communicator, named);
                found
                    .and_then(|(_, other)| self.places.process(other.member))
                    .map(Some)
            }
        };
        let receipt = match (self.group(call, communicator), from) {
            (Some(group), Some(from)) => self.matched.posted((group, call.process), from, tag),
            _ => Receipt::Unknown,
        };
        (communicator, peer, tag, receipt)
    }

    /// The number of a process's communicator.
    fn group(&mut self, call: &Call, communicator: Option<u32>) -> Option<u32> {
        let process = (call.event.node, call.event.process);
        self.places
            .group(&self.communicators, process, communicator?)
    }

    /// How a message to this process goes, if it is known by whom and with which tag it is sent.
    fn channel(
        &mut self,
        call: &Call,
        communicator: Option<u32>,
        peer: Peer,
        tag: Option<i32>,
    ) -> Option<Channel> {
        let (group, other) = self.find(&call.event, communicator, peer)?;
        Some(Channel {
            group,
            from: self.places.process(other.member)?,
            to: call.process,
            tag: tag?,
        })
    }

    /// The message that a receive got, if it is known who sent it.
    fn received(
        &mut self,
        call: &Call,
        (communicator, wanted, wanted_tag, receipt): Wanted,
        status: Option<Status>,
        (bytes, exact): (u64, bool),
    ) -> Option<Part> {
        let process = (call.event.node, call.event.process);
        let group =
            communicator.and_then(|number| self.places.group(&self.communicators, process, number));
        let at = group.map(|group| (group, call.process));
        let peer = match wanted {
            Peer::Any => status.map(|status| status.source),
            other => Some(other),
        };
        let tag = wanted_tag.or(status.map(|status| status.tag));
        let (Some(peer), Some(tag)) = (peer, tag) else {
            self.left_out.untold += 1;
            if let Some(at) = at {
                self.matched.lose(at);
            }
            return None;
        };
        if matches!(peer, Peer::Null) {
            return None;
        }
        let (group, other) = self.resolve(&call.event, communicator, peer)?;
        self.left_out.room += u64::from(!exact);
        let channel = self.channel(call, communicator, peer, Some(tag));
        let message = at
            .zip(channel)
            .and_then(|(at, channel)| self.matched.completed(at, receipt, channel));
        let open = matches!(receipt, Receipt::Open(_));
        self.left_out.unnumbered += u64::from(open && message.is_none());
        Some(Part {
            group,
            other,
            tag,
            bytes,
            message,
        })
    }

    /// What it completes of what was begun before.
    pub(super) fn complete(&mut self, call: &mut Call) {
        let completed = std::mem::take(&mut call.event.completed);
        for completion in &completed {
            for (number, pending) in self.requests.close(call.process, completion.request) {
                if let Some(record) = self.completed(call, completion, number, pending) {
                    call.done.push(record);
                }
            }
        }
        call.event.completed = completed;
    }

    fn completed(
        &mut self,
        call: &Call,
        completion: &Completion,
        number: u64,
        pending: Pending,
    ) -> Option<Record> {
        let cancelled = completion.status.is_some_and(|status| status.cancelled);
        let nothing = cancelled || completion.ending != Ending::Well;
        match pending {
            Pending::Receive {
                communicator,
                peer,
                tag,
                receipt,
            } => {
                let wanted = (communicator, peer, tag, receipt);
                if nothing {
                    self.withdraw(call, wanted);
                    return Some(Record::Cancelled(number));
                }
                let amount = (completion.received, completion.exact);
                let part = self.received(call, wanted, completion.status, amount)?;
                Some(Record::ReceiveCompleted(part, number))
            }
            _ if nothing => Some(Record::Cancelled(number)),
            Pending::Send => Some(Record::SendCompleted(number)),
            Pending::Collective(collected) => Some(Record::CollectiveCompleted(collected, number)),
        }
    }

    /// A receive that was posted gets nothing.
    fn withdraw(&mut self, call: &Call, (communicator, peer, tag, receipt): Wanted) {
        let channel = self.channel(call, communicator, peer, tag);
        if let Some(group) = self.group(call, communicator) {
            self.matched
                .withdraw((group, call.process), receipt, channel);
        }
    }
}
