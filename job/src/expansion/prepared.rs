//! Persistent collective operations: finds the call that prepared a started one.
//!
//! A start has the amounts, root and communicator of the started operation, but not the function that prepared it. It is found
//! among the process's earlier calls with the same arguments. If these would have different messages, the result is unknown.
//! Called for each event of a trace.

use std::collections::{BTreeMap, BTreeSet};

use belljar_mpi::{Base, Operation};
use belljar_trace::{Collective, Event, Phase};

use super::is_built_in;
use super::passed;
use crate::communicators::ProcessKey;

/// Limit on different calls that are kept of a process.
const MOST_OF_PROCESS: usize = 1 << 10;

/// Limit on calls that are kept of all processes.
const MOST: usize = 1 << 16;

/// Limit on request numbers that are kept of all processes.
const MOST_NUMBERS: usize = 1 << 20;

/// A process's persistent request, by its number.
type PreparedRequest = (ProcessKey, u32);

/// Properties that distinguish calls with equal amounts.
type Difference = (Operation, [Option<u64>; 4], Option<u64>);

/// Calls that prepared collective operations.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    calls: BTreeMap<ProcessKey, Vec<(Difference, Event)>>,
    /// Indices among a process's calls, by the number of the request that was prepared.
    numbers: BTreeMap<PreparedRequest, usize>,
    kept: usize,
    /// Processes that prepared more than the limit.
    full: BTreeSet<ProcessKey>,
}

impl Prepared {
    /// Keeps the event if it prepares a collective operation.
    pub(crate) fn learn(&mut self, event: &Event) {
        let [collective] = event.collectives.as_slice() else {
            return;
        };
        let Some(called) = event.meaning().collective() else {
            return;
        };
        if collective.phase != Phase::Prepared {
            return;
        }
        let process = (event.node, event.process);
        let difference = difference(event, called);
        let calls = self.calls.entry(process).or_default();
        let same = |(other, kept): &(Difference, Event)| {
            *other == difference && kept.collectives == event.collectives
        };
        let number = event.details.0.as_ref();
        let number = number.and_then(|details| details.persistent.first().copied());
        let known = calls.iter().position(same);
        if known.is_none() && (calls.len() >= MOST_OF_PROCESS || self.kept >= MOST) {
            self.full.insert(process);
            return;
        }
        let at = known.unwrap_or(calls.len());
        if known.is_none() {
            self.kept += 1;
            calls.push((difference, event.clone()));
        }
        if let Some(number) = number.filter(|_| self.numbers.len() < MOST_NUMBERS) {
            self.numbers.insert((process, number), at);
        }
    }

    /// The call of the starting event's process that prepared this operation; `None` if there is none, or several differ.
    pub(crate) fn of(&self, start: &Event, started: &Collective) -> Option<&Event> {
        let process = (start.node, start.process);
        if let Some(number) = request_of(start, started) {
            let at = self.numbers.get(&(process, number))?;
            let (_, event) = self.calls.get(&process)?.get(*at)?;
            return Some(event);
        }
        if self.full.contains(&process) {
            return None;
        }
        let calls = self.calls.get(&process)?;
        let mut calls = calls.iter().filter(|(_, event)| {
            let mut collectives = event.collectives.iter();
            collectives.any(|prepared| is_same(prepared, started))
        });
        let (difference, event) = calls.next()?;
        calls.all(|(other, _)| other == difference).then_some(event)
    }
}

/// The number of the persistent request that this operation of a start belongs to; `None` in traces without such numbers.
fn request_of(start: &Event, started: &Collective) -> Option<u32> {
    let numbers = &start.details.0.as_ref()?.persistent;
    let position = start.collectives.iter();
    let position = position
        .zip(start.transfers.len()..)
        .find(|(own, _)| std::ptr::eq(*own, started));
    numbers.get(position?.1).copied()
}

/// True if they are equal except for their phase.
fn is_same(prepared: &Collective, started: &Collective) -> bool {
    (prepared.communicator, &prepared.root) == (started.communicator, &started.root)
        && (&prepared.sent, &prepared.received) == (&started.sent, &started.received)
}

fn difference(event: &Event, called: Operation) -> Difference {
    let word = |name| passed::word(event, name);
    let in_place = word("sendbuf").map(|it| event.implementation.in_place(it).into());
    let counts = [word("sendcount"), word("recvcount"), word("count")];
    let [sent, received, count] = counts;
    let parameters = event.description().parameters;
    let op = parameters.iter().position(|it| it.base == Base::Op);
    let op = op.and_then(|index| event.arguments.get(index)).copied();
    // MPI's predefined reductions have the same messages.
    let op = op.filter(|op| !is_built_in(event.implementation, *op));
    (called, [sent, received, count, in_place], op)
}
