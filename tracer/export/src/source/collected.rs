//! Parts in collective operations.
//!
//! A part is told by the call that begins it, as that knows the operation and the amounts. Called by the source for each.

use belljar_trace::{Collective, Event, Peer};

use super::Source;
use crate::calls::{Call, Collected, Record, Root};
use crate::collective::named;
use crate::requests::Pending;

impl Source {
    /// A process's part in a collective operation, if the format can have it.
    fn collected(&mut self, event: &Event, collective: &Collective) -> Option<Collected> {
        let Some(operation) = collective.operation.filter(named) else {
            self.left_out.collectives += 1;
            return None;
        };
        let process = (event.node, event.process);
        let group = collective
            .communicator
            .and_then(|number| self.places.group(&self.communicators, process, number));
        let Some(group) = group else {
            self.left_out.communicators += 1;
            return None;
        };
        let root = match collective.root {
            Some(Peer::Rank(rank)) => Some(Root::Rank(rank)),
            Some(Peer::Root) => Some(Root::Own),
            Some(Peer::Null) => Some(Root::OwnGroup),
            _ => None,
        };
        let (sent, received) = self.communicators.volume(event, collective);
        Some(Collected {
            operation,
            group,
            root,
            sent,
            received,
        })
    }

    /// One that is done when the call returns.
    pub(super) fn collective(&mut self, call: &mut Call, collective: &Collective) {
        if let Some(collected) = self.collected(&call.event, collective) {
            call.begun.push(Record::CollectiveEntered);
            call.done.push(Record::Collective(collected));
        }
    }

    /// One that completes later: its number, and what its request stands for.
    pub(super) fn begin_collective(
        &mut self,
        call: &mut Call,
        collective: &Collective,
    ) -> Option<(u64, Pending)> {
        let collected = self.collected(&call.event, collective)?;
        let number = self.requests.number(call.process);
        call.begun.push(Record::CollectiveBegun(number));
        Some((number, Pending::Collective(collected)))
    }
}
