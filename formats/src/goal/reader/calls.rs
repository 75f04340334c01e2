//! Calls of a rank, from its sequence or from its threads.
//!
//! A message that the next call waits for is blocking; other messages have a request, for which a later call waits. Work without a following message
//! ends with `MPI_Pcontrol`, which does nothing. Used for each rank.

use std::collections::BTreeSet;

use belljar_trace::{Direction, Event, Fact, Peer, Phase, WORLD};

use super::schedule::{Counts, GoalOperationKind, RankSchedule};
use super::sequence::{ThreadAction, sequence};
use super::threads::{Link, threads};
use crate::builder::ImportError;
use crate::builder::calls::{Functions, ImportedMessage, ImportedThread, blank, completion};
use crate::builder::layout::Layout;
use crate::builder::spool::Spool;

/// The call that ends work without a following message.
const MARK: &str = "MPI_Pcontrol";

/// A thread of a rank that makes calls.
struct Caller<'a> {
    place: ImportedThread,
    time: u64,
    rank: &'a RankSchedule,
    functions: &'a Functions,
    spool: &'a mut Spool,
}

/// Adds the calls of a rank to `spool`.
pub(super) fn calls(
    place: ImportedThread,
    rank: &RankSchedule,
    layout: &Layout,
    functions: &Functions,
    spool: &mut Spool,
    counts: &mut Counts,
) -> Result<(), ImportError> {
    let messages = rank.operations.iter();
    let elsewhere =
        messages.filter(|it| it.interface > 0 && !matches!(it.kind, GoalOperationKind::Work(_)));
    counts.interfaces += elsewhere.count() as u64;
    spool.begin_thread();
    layout.opening(functions, place, 0, |event| spool.push(event))?;
    let mut caller = Caller {
        place,
        time: 0,
        rank,
        functions,
        spool,
    };
    if let Some(actions) = sequence(rank) {
        return caller.sequence(&actions);
    }
    counts.threaded += 1;
    for (thread, links) in (0..).zip(threads(rank)) {
        caller.place.thread = thread;
        if thread > 0 {
            caller.spool.begin_thread();
        }
        links.into_iter().try_for_each(|link| caller.link(link))?;
    }
    Ok(())
}

impl Caller<'_> {
    fn sequence(&mut self, actions: &[ThreadAction]) -> Result<(), ImportError> {
        let mut called = 0;
        let mut over = BTreeSet::new();
        for (at, action) in actions.iter().enumerate() {
            match action {
                ThreadAction::Work(span) => self.time = self.time.saturating_add(*span),
                ThreadAction::Begin(number) => {
                    let next = actions.get(at + 1);
                    let blocks =
                        matches!(next, Some(ThreadAction::Wait(all)) if all.contains(number));
                    if blocks {
                        over.insert(*number);
                    }
                    let event = self.message(*number, blocks);
                    self.spool.push(&event)?;
                    called = self.time;
                }
                ThreadAction::Wait(numbers) => {
                    let left = numbers.iter().filter(|it| !over.contains(*it));
                    let left: Vec<u32> = left.copied().collect();
                    over.clear();
                    self.wait(&left)?;
                    called = self.time;
                }
            }
        }
        if self.time > called {
            let event = self.event(MARK);
            self.spool.push(&event)?;
        }
        Ok(())
    }

    /// Adds a call of a thread with conditions.
    fn link(&mut self, link: Link) -> Result<(), ImportError> {
        self.time = link.begins.saturating_add(link.scheduled.work);
        let mut event = match link.message {
            Some(number) => self.message(number, true),
            None => self.event(MARK),
        };
        event.fact = Some(Fact::Scheduled(link.scheduled));
        self.spool.push(&event)
    }

    /// Returns the call that begins a message, or sends or receives it.
    fn message(&self, number: u32, blocks: bool) -> Event {
        let GoalOperationKind::Message {
            direction,
            peer,
            tag,
            bytes,
        } = self.rank.operations[number as usize].kind
        else {
            return self.event(MARK);
        };
        let message = ImportedMessage {
            peer: peer.map_or(Peer::Any, Peer::Rank),
            tag,
            bytes,
            communicator: Some(WORLD),
        };
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
            false => event.started.push(u64::from(number)),
        }
        event
    }

    fn event(&self, name: &str) -> Event {
        let function = self.functions.number(name).unwrap_or(u16::MAX);
        let mut event = blank(self.place, function, self.time, Some(self.time));
        if name != MARK {
            event.communicator = Some(WORLD);
        }
        event
    }

    /// Adds a wait for these operations.
    fn wait(&mut self, numbers: &[u32]) -> Result<(), ImportError> {
        let name = match numbers {
            [] => return Ok(()),
            [_] => "MPI_Wait",
            _ => "MPI_Waitall",
        };
        let mut event = self.event(name);
        event.communicator = None;
        for number in numbers {
            let received = match self.rank.operations[*number as usize].kind {
                GoalOperationKind::Message {
                    direction: Direction::Receive,
                    peer: Some(peer),
                    tag: Some(tag),
                    bytes,
                } => Some(ImportedMessage {
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

/// Returns the status of a message whose sender is known.
fn known(message: ImportedMessage) -> Option<belljar_trace::Status> {
    match message.peer {
        Peer::Rank(_) => message.status(),
        _ => None,
    }
}
