//! Events that belong to one call, from the entry of its function to the exit.
//!
//! The begin of a receive has no data; the received message is in its completion, so calls wait for that (`PendingCalls`). Used for each event of a
//! location within a call.

use std::collections::{BTreeMap, VecDeque};

use belljar_trace::{Collective, Details, Direction, Event, Peer, Phase, Status};

use crate::builder::calls::{ImportedMessage, completion, take_part};

/// Most calls of a thread that wait for later completions.
const MOST_WAITING: usize = 1 << 18;
/// Most requests that are kept.
const MOST_REQUESTS: usize = 1 << 20;

/// The item of a completed call that waits for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestedItem {
    /// The index of a message.
    Transfer(usize),
    /// The index of a collective operation.
    Collective(usize),
}

/// A call, and the number of requests that it waits for.
#[derive(Debug)]
struct Over {
    event: Event,
    waits: u32,
}

/// Calls of a thread, in their order, that were not passed on yet.
#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    calls: VecDeque<Over>,
    /// The number of the first of them.
    first: u64,
    requests: BTreeMap<u64, (u64, RequestedItem)>,
    /// Requests of the current call.
    fresh: Vec<(u64, RequestedItem)>,
    /// Operations without a completion in time.
    pub(super) untold: u64,
}

impl PendingCalls {
    /// Handles the begin of a receive.
    pub(super) fn receive(&mut self, event: &mut Event, request: u64) {
        let unknown = ImportedMessage {
            peer: Peer::Any,
            tag: None,
            bytes: 0,
            communicator: None,
        };
        let mut transfer = unknown.transfer(Direction::Receive, Phase::Begun);
        transfer.exact = false;
        self.fresh
            .push((request, RequestedItem::Transfer(event.transfers.len())));
        event.transfers.push(transfer);
        event.started.push(request);
    }

    /// Handles the begin of a collective operation.
    pub(super) fn collective(&mut self, event: &mut Event, request: u64) {
        self.fresh
            .push((request, RequestedItem::Collective(event.collectives.len())));
        event.collectives.push(Collective {
            operation: None,
            phase: Phase::Begun,
            communicator: None,
            root: None,
            sent: belljar_trace::Amount::whole(None),
            received: belljar_trace::Amount::whole(None),
        });
        event.started.push(request);
    }

    /// Handles the completion of a receive.
    pub(super) fn received(&mut self, event: &mut Event, request: u64, message: ImportedMessage) {
        let transfer = message.transfer(Direction::Receive, Phase::Begun);
        if let Some((asking, RequestedItem::Transfer(at))) = self.asking(event, request) {
            asking.transfers[at] = transfer;
            asking.communicator = asking.communicator.or(message.communicator);
        }
        event.completed.push(completion(request, Some(message)));
    }

    /// Handles the completion of a collective operation.
    pub(super) fn collected(&mut self, event: &mut Event, request: u64, part: Collective) {
        if let Some((asking, RequestedItem::Collective(at))) = self.asking(event, request) {
            asking.communicator = asking.communicator.or(part.communicator);
            asking.collectives[at] = Collective {
                phase: Phase::Begun,
                ..part
            };
        }
        event.completed.push(completion(request, None));
    }

    /// Handles the cancellation of a request.
    pub(super) fn cancelled(&mut self, event: &mut Event, request: u64) {
        self.asking(event, request);
        let mut over = completion(request, None);
        over.status = Some(Status {
            source: Peer::Null,
            tag: 0,
            bytes: 0,
            cancelled: true,
            observed: false,
        });
        event.completed.push(over);
    }

    /// Returns the call with this request, which waits for one less: `event` itself, or an earlier one.
    fn asking<'e>(
        &'e mut self,
        event: &'e mut Event,
        request: u64,
    ) -> Option<(&'e mut Event, RequestedItem)> {
        let fresh = self.fresh.iter().position(|(own, _)| *own == request);
        if let Some(at) = fresh {
            let (_, asked) = self.fresh.swap_remove(at);
            return Some((event, asked));
        }
        let (number, asked) = self.requests.remove(&request)?;
        let at = number.checked_sub(self.first)? as usize;
        let over = self.calls.get_mut(at)?;
        over.waits = over.waits.saturating_sub(1);
        Some((&mut over.event, asked))
    }

    /// Ends the call.
    pub(super) fn push(&mut self, event: Event) {
        let number = self.first + self.calls.len() as u64;
        let mut waits = 0;
        for (request, asked) in self.fresh.drain(..) {
            if self.requests.len() >= MOST_REQUESTS {
                self.untold += 1;
                continue;
            }
            waits += 1;
            self.requests.insert(request, (number, asked));
        }
        self.calls.push_back(Over { event, waits });
    }

    /// Takes the next call that waits for no request, or that has waited too long; any call, at the `end`.
    pub(super) fn next(&mut self, end: bool) -> Option<Event> {
        let waits = self.calls.front()?.waits;
        if waits > 0 && !end && self.calls.len() <= MOST_WAITING {
            return None;
        }
        self.untold += u64::from(waits);
        self.first += 1;
        self.calls.pop_front().map(|over| over.event)
    }
}

/// Adds a message that is sent or received in the call itself.
pub(super) fn moved(event: &mut Event, direction: Direction, message: ImportedMessage) {
    event.communicator = event.communicator.or(message.communicator);
    if direction == Direction::Receive {
        event.status = message.status();
    }
    let transfer = message.transfer(direction, Phase::Done);
    event.transfers.push(transfer);
}

/// Adds a message whose send begins.
pub(super) fn sending(event: &mut Event, request: u64, message: ImportedMessage) {
    event.communicator = event.communicator.or(message.communicator);
    let transfer = message.transfer(Direction::Send, Phase::Begun);
    event.transfers.push(transfer);
    event.started.push(request);
}

/// Adds a collective operation in the call itself.
pub(super) fn collected(event: &mut Event, part: Collective) {
    take_part(event, part);
}

/// Sets the window of a call.
pub(super) fn on_window(event: &mut Event, window: u32, communicator: Option<u32>) {
    event.communicator = event.communicator.or(communicator);
    let details = Details {
        window: Some(window),
        ..Details::default()
    };
    event.details.0 = Some(Box::new(details));
}
