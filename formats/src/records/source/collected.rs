//! Parts in collective operations.
//!
//! The call that begins a part has its operation and amounts. Used by the source for each part.

use belljar_trace::{Collective, Event, Peer};

use super::Source;
use super::pending::PendingKind;
use crate::records::calls::{Collected, ExportedCall, Record, Root};
use crate::records::collective::named;

impl Source {
    /// Returns a process's part in a collective operation, if the format supports it.
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

    /// Adds a process's part in the collective operation with this index.
    pub(super) fn take_part(
        &mut self,
        call: &mut ExportedCall,
        index: usize,
        request: Option<u64>,
    ) -> Option<PendingKind> {
        let collected = self.collected(&call.event, &call.event.collectives[index])?;
        call.begun.push(match request {
            Some(request) => Record::CollectiveBegun(request),
            None => Record::CollectiveEntered,
        });
        Some(PendingKind::Collective(collected))
    }
}
