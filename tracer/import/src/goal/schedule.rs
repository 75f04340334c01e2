//! From operations that wait for one another to calls.
//!
//! Operations come in an order in which each stands after those it waits for, by their numbers where these leave a choice. A send or receive that the next
//! operation waits for is one that blocks; another one has a request, for which a later call waits. Called for each rank.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use belljar_trace::{Direction, Event, Peer, Phase, WORLD};

use crate::ImportError;
use crate::calls::{Functions, Message, Place, blank, completion};
use crate::layout::Layout;
use crate::spool::Spool;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Work of so many nanoseconds.
    Work(u64),
    /// A message: the peer is a rank or anybody, the tag may be any.
    Message {
        direction: Direction,
        peer: Option<u32>,
        tag: Option<i32>,
        bytes: u64,
    },
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) processor: u8,
    /// Those that must be over, and those that must have begun.
    pub(super) after: Vec<u32>,
    pub(super) after_start: Vec<u32>,
}

impl Operation {
    /// One that waits for none.
    pub(super) fn new(kind: Kind, processor: u8) -> Self {
        Self {
            kind,
            processor,
            after: Vec::new(),
            after_start: Vec::new(),
        }
    }
}

/// The operations of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) operations: Vec<Operation>,
}

/// What was changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Operations on other processors than the first.
    pub(super) processors: u64,
}

impl Rank {
    /// All operations, each after those it waits for; `None` where some wait for themselves.
    pub(super) fn order(&self) -> Option<Vec<u32>> {
        let count = self.operations.len();
        let mut missing = vec![0u32; count];
        let mut followers: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (number, operation) in (0u32..).zip(&self.operations) {
            for before in operation.after.iter().chain(&operation.after_start) {
                followers.get_mut(*before as usize)?.push(number);
                missing[number as usize] += 1;
            }
        }
        let free = (0u32..).zip(&missing).filter(|(_, missing)| **missing == 0);
        let mut ready: BinaryHeap<Reverse<u32>> = free.map(|(number, _)| Reverse(number)).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(Reverse(number)) = ready.pop() {
            order.push(number);
            for follower in std::mem::take(&mut followers[number as usize]) {
                let missing = &mut missing[follower as usize];
                *missing -= 1;
                if *missing == 0 {
                    ready.push(Reverse(follower));
                }
            }
        }
        (order.len() == count).then_some(order)
    }
}

/// A rank as it makes calls.
struct Caller<'a> {
    place: Place,
    time: u64,
    /// Requests that nobody waited for yet: the operations' numbers.
    open: BTreeSet<u32>,
    rank: &'a Rank,
    functions: &'a Functions,
    spool: &'a mut Spool,
}

/// Gives the calls of a rank to `spool`.
pub(super) fn calls(
    place: Place,
    operations: &Rank,
    layout: &Layout,
    (functions, spool): (&Functions, &mut Spool),
    counts: &mut Counts,
) -> Result<(), ImportError> {
    layout.opening(functions, (place, 0), |event| spool.push(event))?;
    let mut caller = Caller {
        place,
        time: 0,
        open: BTreeSet::new(),
        rank: operations,
        functions,
        spool,
    };
    // Readers see that nothing waits for itself.
    let order = operations.order().unwrap_or_default();
    for (at, number) in order.iter().enumerate() {
        let next = order.get(at + 1).copied();
        caller.operation(*number, next)?;
        let operation = &operations.operations[*number as usize];
        counts.processors += u64::from(operation.processor > 0);
    }
    let rest: Vec<u32> = caller.open.iter().copied().collect();
    caller.wait(&rest)
}

impl Caller<'_> {
    fn operation(&mut self, number: u32, next: Option<u32>) -> Result<(), ImportError> {
        let operations = &self.rank.operations;
        let operation = &operations[number as usize];
        let open = operation.after.iter().copied();
        let wanted: BTreeSet<u32> = open.filter(|it| self.open.contains(it)).collect();
        let wanted: Vec<u32> = wanted.into_iter().collect();
        self.wait(&wanted)?;
        let Kind::Message {
            direction,
            peer,
            tag,
            bytes,
        } = operation.kind
        else {
            if let Kind::Work(nanoseconds) = operation.kind {
                self.time = self.time.saturating_add(nanoseconds);
            }
            return Ok(());
        };
        let message = Message {
            peer: peer.map_or(Peer::Any, Peer::Rank),
            tag,
            bytes,
            communicator: Some(WORLD),
        };
        let next = next.map(|next| &operations[next as usize]);
        let blocks = next.is_none_or(|next| next.after.contains(&number));
        let (name, phase) = match (direction, blocks) {
            (Direction::Send, true) => ("MPI_Send", Phase::Done),
            (Direction::Send, false) => ("MPI_Isend", Phase::Begun),
            (Direction::Receive, true) => ("MPI_Recv", Phase::Done),
            (Direction::Receive, false) => ("MPI_Irecv", Phase::Begun),
        };
        let mut event = self.event(name);
        event.transfers.push(message.transfer(direction, phase));
        match blocks {
            true if direction == Direction::Receive => event.status = known(message),
            true => {}
            false => {
                event.started.push(u64::from(number));
                self.open.insert(number);
            }
        }
        self.spool.push(&event)
    }

    fn event(&self, name: &str) -> Event {
        let function = self.functions.number(name).unwrap_or(u16::MAX);
        let mut event = blank(self.place, function, (self.time, Some(self.time)));
        event.communicator = Some(WORLD);
        event
    }

    /// Waits for these operations.
    fn wait(&mut self, numbers: &[u32]) -> Result<(), ImportError> {
        let name = match numbers {
            [] => return Ok(()),
            [_] => "MPI_Wait",
            _ => "MPI_Waitall",
        };
        let mut event = self.event(name);
        event.communicator = None;
        for number in numbers {
            self.open.remove(number);
            let received = match self.rank.operations[*number as usize].kind {
                Kind::Message {
                    direction: Direction::Receive,
                    peer: Some(peer),
                    tag: Some(tag),
                    bytes,
                } => Some(Message {
                    peer: Peer::Rank(peer),
                    tag: Some(tag),
                    bytes,
                    communicator: Some(WORLD),
                }),
                _ => None,
            };
            event
                .completed
                .push(completion(u64::from(*number), received));
        }
        self.spool.push(&event)
    }
}

/// The status of a message of which it is known who sent it.
fn known(message: Message) -> Option<belljar_trace::Status> {
    match message.peer {
        Peer::Rank(_) => message.status(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(after: &[u32]) -> Operation {
        Operation {
            after: after.to_vec(),
            ..Operation::new(Kind::Work(1), 0)
        }
    }

    #[test]
    fn operations_stand_after_what_they_wait_for() {
        let rank = Rank {
            operations: vec![work(&[3]), work(&[]), work(&[0, 1]), work(&[])],
        };
        assert_eq!(rank.order(), Some(vec![1, 3, 0, 2]));
        let circle = Rank {
            operations: vec![work(&[1]), work(&[0])],
        };
        assert_eq!(circle.order(), None);
        let absent = Rank {
            operations: vec![work(&[7])],
        };
        assert_eq!(absent.order(), None);
    }
}
