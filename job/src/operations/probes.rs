//! Messages of probes, and receives of matched probes.
//!
//! `MPI_Mprobe` and `MPI_Improbe` match a message at once, and `MPI_Mrecv` or `MPI_Imrecv` receives it later (MPI-4.0, 3.8.2): receives that are posted in between match
//! later messages. Therefore a matched probe reserves the position of its receive in the channel. The receive begins with its own call; earlier facts about it wait until
//! then. Called for each probe, for each receive of a matched message, and after each event.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;

use belljar_mpi::CallKind;

use super::fact::{Fact, OperationId};
use super::requests::MOST_REQUESTS;
use super::{Operations, ProcessCall};
use crate::communicators::{Communicators, ProcessKey};
use crate::matching::{Channel, ReceiveSelector};

/// Receives of matched messages that have not begun.
#[derive(Debug, Default)]
pub(super) struct MatchedProbes {
    /// By process, in the order of the probes.
    waiting: BTreeMap<ProcessKey, VecDeque<(Channel, OperationId)>>,
    /// By receive, the facts that wait for its begin.
    held: BTreeMap<OperationId, Vec<Fact>>,
}

impl MatchedProbes {
    /// The receive of the earliest matched message of a channel, and the facts about it.
    pub(super) fn take(
        &mut self,
        process: ProcessKey,
        channel: Channel,
    ) -> Option<(OperationId, Vec<Fact>)> {
        let own = self.waiting.get_mut(&process)?;
        let place = own.iter().position(|(of, _)| *of == channel)?;
        let (_, receive) = own.remove(place)?;
        Some((receive, self.held.remove(&receive).unwrap_or_default()))
    }

    /// Holds back facts from index `first` on about receives that have not begun.
    pub(super) fn hold(&mut self, first: usize, facts: &mut Vec<Fact>) {
        if self.held.is_empty() {
            return;
        }
        for fact in facts.split_off(first) {
            let receive = match fact {
                Fact::Located { receive, .. } | Fact::Matched { receive, .. } => Some(receive),
                Fact::Lost { operation, .. } => Some(operation),
                _ => None,
            };
            match receive.and_then(|receive| self.held.get_mut(&receive)) {
                Some(held) => held.push(fact),
                None => facts.push(fact),
            }
        }
    }
}

impl<C: Deref<Target = Communicators>> Operations<C> {
    /// Handles a message that a call found, without receiving it.
    pub(super) fn probe(&mut self, call: ProcessCall<'_>, facts: &mut Vec<Fact>) {
        let event = call.event;
        let kind = event.meaning().kind;
        if !matches!(kind, CallKind::Probe | CallKind::ProbeMatched) || event.failed() {
            return;
        }
        let (Some(number), Some(status)) = (event.communicator, event.status) else {
            return;
        };
        let communicators = &*self.communicators;
        let from = communicators.peer(call.process, number, status.source);
        let communicator = communicators.identity(call.process, number);
        if let (Some(communicator), Some(from)) = (communicator, from) {
            let channel = Channel {
                communicator,
                to: call.member,
                from,
                tag: status.tag,
            };
            facts.push(Fact::Probed { channel });
            if kind == CallKind::ProbeMatched {
                self.reserve(call.process, channel, facts);
            }
        }
    }

    /// Reserves the position in the channel for the receive of a matched message.
    fn reserve(&mut self, process: ProcessKey, channel: Channel, facts: &mut Vec<Fact>) {
        let waiting = self.matched_probes.waiting.entry(process).or_default();
        if waiting.len() >= MOST_REQUESTS {
            return;
        }
        let receive = OperationId(self.next);
        self.next += 1;
        waiting.push_back((channel, receive));
        self.matched_probes.held.insert(receive, Vec::new());
        let wanted = ReceiveSelector {
            from: Some(channel.from),
            tag: Some(channel.tag),
        };
        let place = (channel.communicator, channel.to);
        self.matcher.receive(place, wanted, receive, facts);
    }
}
