//! Events that belong to one call: from where its function is entered to where it is left.
//!
//! A receive that is begun tells nothing; what it received stands with its completion, so calls wait for that (`Waiting`). Called for each event of a
//! location within a call.

use std::collections::{BTreeMap, VecDeque};

use belljar_trace::{Collective, Details, Direction, Event, Peer, Phase, Status};

use crate::builder::calls::{Message, completion, take_part};

/// Calls of a thread that wait for what is completed later, at most.
const MOST_WAITING: usize = 1 << 18;
/// Requests that are remembered, at most.
const MOST_REQUESTS: usize = 1 << 20;

/// What a call that is over waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Which of its messages.
    Transfer(usize),
    /// Which of its collective operations.
    Collective(usize),
}

/// A call, and for how many requests it waits.
#[derive(Debug)]
struct Over {
    event: Event,
    waits: u32,
}

/// Calls of a thread in their order, as far as they are not given on.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    calls: VecDeque<Over>,
    /// The number of the first of them.
    first: u64,
    requests: BTreeMap<u64, (u64, Asked)>,
    /// Requests of the call that is under way.
    fresh: Vec<(u64, Asked)>,
    /// Operations of which nothing was told in time.
    pub(super) untold: u64,
}

impl Waiting {
    /// A receive was begun.
    pub(super) fn receive(&mut self, event: &mut Event, request: u64) {
        let unknown = Message {
            peer: Peer::Any,
            tag: None,
            bytes: 0,
            communicator: None,
        };
        let mut transfer = unknown.transfer(Direction::Receive, Phase::Begun);
        transfer.exact = false;
        self.fresh
            .push((request, Asked::Transfer(event.transfers.len())));
        event.transfers.push(transfer);
        event.started.push(request);
    }

    /// A collective operation was begun.
    pub(super) fn collective(&mut self, event: &mut Event, request: u64) {
        self.fresh
            .push((request, Asked::Collective(event.collectives.len())));
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

    /// A receive completed.
    pub(super) fn received(&mut self, event: &mut Event, request: u64, message: Message) {
        let transfer = message.transfer(Direction::Receive, Phase::Begun);
        if let Some((asking, Asked::Transfer(at))) = self.asking(event, request) {
            asking.transfers[at] = transfer;
            asking.communicator = asking.communicator.or(message.communicator);
        }
        event.completed.push(completion(request, Some(message)));
    }

    /// A collective operation completed.
    pub(super) fn collected(&mut self, event: &mut Event, request: u64, part: Collective) {
        if let Some((asking, Asked::Collective(at))) = self.asking(event, request) {
            asking.communicator = asking.communicator.or(part.communicator);
            asking.collectives[at] = Collective {
                phase: Phase::Begun,
                ..part
            };
        }
        event.completed.push(completion(request, None));
    }

    /// A request was cancelled.
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

    /// The call that has a request, which waits for one less: `event` itself, or an earlier one.
    fn asking<'e>(
        &'e mut self,
        event: &'e mut Event,
        request: u64,
    ) -> Option<(&'e mut Event, Asked)> {
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

    /// The call is over.
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

    /// The next call that waits for nothing, or of which nothing is to be expected any more: always, at the `end`.
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

/// A message that is sent or received in the call itself.
pub(super) fn moved(event: &mut Event, direction: Direction, message: Message) {
    event.communicator = event.communicator.or(message.communicator);
    if direction == Direction::Receive {
        event.status = message.status();
    }
    let transfer = message.transfer(direction, Phase::Done);
    event.transfers.push(transfer);
}

/// A message that is begun to be sent.
pub(super) fn sending(event: &mut Event, request: u64, message: Message) {
    event.communicator = event.communicator.or(message.communicator);
    let transfer = message.transfer(Direction::Send, Phase::Begun);
    event.transfers.push(transfer);
    event.started.push(request);
}

/// A collective operation in the call itself.
pub(super) fn collected(event: &mut Event, part: Collective) {
    take_part(event, part);
}

/// The window that a call is about.
pub(super) fn on_window(event: &mut Event, (window, communicator): (u32, Option<u32>)) {
    event.communicator = event.communicator.or(communicator);
    let details = Details {
        window: Some(window),
        ..Details::default()
    };
    event.details.0 = Some(Box::new(details));
}
