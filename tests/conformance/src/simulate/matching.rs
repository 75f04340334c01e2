//! Messages, receives and their matching.
//!
//! Messages of a sender, communicator and tag do not overtake each other (MPI-4.0, 3.5). Called by the simulation at
//! each entry.

use std::collections::{BTreeMap, BTreeSet};

use super::rank_of;
use crate::job::{Action, Job, OperationId};

/// One rank's messages that no receive got, and receives that got no message, both in order.
#[derive(Clone, Debug, Default)]
struct Mailbox {
    arrived: Vec<(OperationId, u64)>,
    posted: Vec<OperationId>,
}

/// The mailboxes of all ranks, and messages in flight.
#[derive(Debug)]
pub(super) struct Mailboxes {
    boxes: Vec<Mailbox>,
    /// By time of arrival.
    under_way: BTreeSet<(u64, OperationId)>,
    /// The last arrival from one rank at another.
    last: BTreeMap<(u32, u32), u64>,
}

/// True if a receive takes a message.
pub(crate) fn takes(job: &Job, receive: OperationId, send: OperationId) -> bool {
    let (receive, send) = (&job.operations[receive], &job.operations[send]);
    let (Action::Receive { from, tag, .. }, Action::Send { to, tag: sent, .. }) =
        (receive.action, send.action)
    else {
        return false;
    };
    receive.communicator == send.communicator
        && receive.partitions.is_some() == send.partitions.is_some()
        && to == rank_of(job, receive)
        && from.is_none_or(|from| from == rank_of(job, send))
        && tag.is_none_or(|tag| tag == sent)
}

impl Mailboxes {
    pub(super) fn new(ranks: u32) -> Self {
        Self {
            boxes: vec![Mailbox::default(); ranks as usize],
            under_way: BTreeSet::new(),
            last: BTreeMap::new(),
        }
    }

    /// A message is sent and arrives at this time, or after the pair's one before.
    pub(super) fn send(&mut self, job: &Job, send: OperationId, at: u64) {
        let operation = &job.operations[send];
        let Action::Send { to, .. } = operation.action else {
            return;
        };
        let last = self.last.entry((rank_of(job, operation), to)).or_default();
        *last = at.max(*last + 1);
        self.under_way.insert((*last, send));
    }

    fn mailbox_of(&mut self, job: &Job, operation: OperationId) -> &mut Mailbox {
        let operation = &job.operations[operation];
        let rank = match operation.action {
            Action::Send { to, .. } => to,
            _ => rank_of(job, operation),
        };
        &mut self.boxes[rank as usize]
    }

    /// When the next message arrives.
    pub(super) fn next_arrival(&self) -> Option<u64> {
        self.under_way.first().map(|(at, _)| *at)
    }

    /// The next message arrives; the pair that is matched by it.
    pub(super) fn arrive(&mut self, job: &Job) -> Option<(OperationId, OperationId)> {
        let (at, send) = self.under_way.pop_first()?;
        let mailbox = self.mailbox_of(job, send);
        let place = mailbox
            .posted
            .iter()
            .position(|receive| takes(job, *receive, send));
        match place {
            Some(place) => Some((send, mailbox.posted.remove(place))),
            None => {
                mailbox.arrived.push((send, at));
                None
            }
        }
    }

    /// Posts a receive; returns the message that it gets, if one is there.
    pub(super) fn post(&mut self, job: &Job, receive: OperationId) -> Option<OperationId> {
        let mailbox = self.mailbox_of(job, receive);
        let mut arrived = mailbox.arrived.iter();
        match arrived.position(|(send, _)| takes(job, receive, *send)) {
            Some(place) => Some(mailbox.arrived.remove(place).0),
            None => {
                mailbox.posted.push(receive);
                None
            }
        }
    }

    /// When the first message arrived that a receive would get, if one did.
    pub(super) fn probe(&self, job: &Job, receive: OperationId) -> Option<u64> {
        let rank = rank_of(job, &job.operations[receive]);
        let mut arrived = self.boxes[rank as usize].arrived.iter();
        arrived
            .find(|(send, _)| takes(job, receive, *send))
            .map(|(_, at)| *at)
    }

    /// Withdraws a receive; false if it got a message.
    pub(super) fn cancel(&mut self, job: &Job, receive: OperationId) -> bool {
        let mailbox = self.mailbox_of(job, receive);
        let place = mailbox.posted.iter().position(|posted| *posted == receive);
        place.map(|place| mailbox.posted.remove(place)).is_some()
    }
}
