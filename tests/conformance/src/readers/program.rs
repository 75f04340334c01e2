//! Channels of `belljar_program`: the `n`th message that is sent is the `n`th that is received.
//!
//! An operation is identified by its rank, its thread and the entry of its call. Called by the comparison of a trace.

use std::collections::{BTreeMap, BTreeSet};

use belljar_mpi::{CallKind, Epoch, Object, meaning};
use belljar_program::{Call, ChannelId, Operation, Participation, Program, Thread};

use super::completions::Completions;
use super::{Difference, Differences, is};
use crate::job::{Action, OperationId, SendMode};
use crate::truth::{CallKey, Truth};

/// Picoseconds of a cycle.
const CYCLE: u64 = 1000;

/// The program's operations, as those of the truth.
struct Found<'a> {
    truth: &'a Truth,
    sends: BTreeMap<ChannelId, Vec<OperationId>>,
    receives: BTreeMap<ChannelId, Vec<OperationId>>,
    /// By collective operation of the program, its parts.
    parts: BTreeMap<u32, Vec<CallKey>>,
    /// True if the program counts guessed matches.
    guessed: bool,
    differences: Differences,
}

pub(super) fn check(truth: &Truth, program: &Program) -> Vec<Difference> {
    let mut found = Found {
        truth,
        sends: BTreeMap::new(),
        receives: BTreeMap::new(),
        parts: BTreeMap::new(),
        guessed: program.unknown.guessed > 0,
        differences: Differences::new("program"),
    };
    for thread in &program.threads {
        let rank = program.processes[thread.process as usize].rank;
        found.thread(program, rank, thread);
    }
    found.messages();
    found.collectives(program);
    found.differences.all
}

impl Found<'_> {
    fn thread(&mut self, program: &Program, rank: u32, thread: &Thread) {
        let mut operations = thread.operations.iter();
        let mut completions = Completions::new(self.truth, program);
        let mut accessed = BTreeSet::new();
        for (call, (entry, _)) in thread.calls.iter().zip(thread.traced()) {
            let key = (rank, thread.thread, entry / CYCLE);
            let own: Vec<Operation> = operations
                .by_ref()
                .take(call.operations as usize)
                .copied()
                .collect();
            let messages = messages_of(program, &own);
            self.call(key, &messages);
            completions.take(key, &own, &mut self.differences);
            self.accesses(program, key, &own);
            self.flushes(call, key, &own, &mut accessed);
            self.kinds(program, key, &own);
            self.partitions(program, key, &own);
        }
    }

    fn call(&mut self, key: CallKey, operations: &[Operation]) {
        let (sends, receives) = self.truth.sides(key);
        let (mut sends, mut receives) = (sends.into_iter(), receives.into_iter());
        for operation in operations {
            match *operation {
                Operation::Send { channel, .. } | Operation::SendPartitioned { channel, .. } => {
                    match sends.next() {
                        Some(send) => self.sends.entry(channel).or_default().push(send),
                        None => self
                            .differences
                            .push(format!("{key:?} sends a message that it does not send")),
                    }
                }
                Operation::Receive { channel, .. } => match receives.next() {
                    Some(receive) => self.receives.entry(channel).or_default().push(receive),
                    None => self.differences.push(format!(
                        "{key:?} receives a message that it does not receive"
                    )),
                },
                // In the place of a receive.
                Operation::Nothing { .. } => {
                    let receive = receives.next();
                    let open = receive.is_none_or(|receive| self.may_lack(receive));
                    self.differences
                        .unless(open, || format!("receive {receive:?} is nothing"));
                }
                Operation::Collective { collective, .. } => {
                    self.parts.entry(collective).or_default().push(key)
                }
                _ => {}
            }
        }
        for side in sends.chain(receives) {
            self.differences.unless(self.may_lack(side), || {
                format!("operation #{side} is missing")
            });
        }
    }

    /// Calls that make partitions of each message ready.
    fn partitions(&mut self, program: &Program, key: CallKey, operations: &[Operation]) {
        let mut sends = self.truth.sides(key).0;
        sends.retain(|send| self.truth.partitions(*send).is_some());
        let found = operations.iter().filter_map(|operation| match operation {
            Operation::SendPartitioned { message, .. } => {
                program.partitioned.get(*message as usize)
            }
            _ => None,
        });
        let found: Vec<Option<u64>> = found.map(|count| Some(u64::from(*count))).collect();
        let expected: Vec<Option<u64>> = sends
            .iter()
            .map(|send| self.truth.partitions(*send))
            .collect();
        self.differences.unless(found == expected, || {
            format!("{key:?} sends the partitions {found:?} instead of {expected:?}")
        });
    }

    /// Modes of sends, and kinds of collective operations.
    fn kinds(&mut self, program: &Program, key: CallKey, operations: &[Operation]) {
        let mut sends = self.truth.sides(key).0;
        sends.retain(|send| self.truth.partitions(*send).is_none());
        let modes = operations.iter().filter_map(|operation| match operation {
            Operation::Send { mode, .. } => Some(*mode),
            _ => None,
        });
        for (found, send) in modes.zip(sends) {
            let expected = self.truth.action(send);
            self.differences.unless(has_mode(expected, found), || {
                format!("send #{send} is {found:?} instead of {expected:?}")
            });
        }
        let parts = operations.iter().filter_map(|operation| match operation {
            Operation::Collective { part, .. } => program.parts.get(*part as usize),
            _ => None,
        });
        let parts: Vec<&Participation> = parts.collect();
        let mut expected = self.truth.collectives(key);
        if parts.len() < expected.len() {
            expected = self.truth.known_collectives(key);
        }
        for (part, expected) in parts.into_iter().zip(expected) {
            if let Participation::Library { call, .. } = part {
                let found = call.operation;
                self.differences.unless(is(expected, found), || {
                    format!("{key:?} is {found:?} instead of {expected:?}")
                });
            }
        }
    }

    /// Accesses to windows.
    fn accesses(&mut self, program: &Program, key: CallKey, operations: &[Operation]) {
        let mut found = Vec::new();
        for operation in operations {
            if let Operation::Access {
                channel,
                sent,
                received,
                ..
            } = *operation
            {
                let target = program.channels[channel as usize].to;
                found.push((program.processes[target as usize].rank, sent, received));
            }
        }
        let expected = self.truth.accesses(key);
        self.differences.unless(found == expected, || {
            format!("{key:?} accesses {found:?} instead of {expected:?}")
        });
    }

    /// Flushes of a call: all targets that were accessed, if it completes accesses there. Epochs of a job that name a target access no other.
    fn flushes(
        &mut self,
        call: &Call,
        key: CallKey,
        operations: &[Operation],
        accessed: &mut BTreeSet<ChannelId>,
    ) {
        let mut found = BTreeSet::new();
        for operation in operations {
            match *operation {
                Operation::Access { channel, .. } => accessed.insert(channel),
                Operation::Flush { channel } => found.insert(channel),
                _ => false,
            };
        }
        let meaning = meaning(call.function);
        let completes = meaning.kind == CallKind::Free(Object::Window)
            || meaning.epoch().is_some_and(Epoch::ends_accesses_at_targets);
        let expected = match completes {
            true => std::mem::take(accessed),
            false => BTreeSet::new(),
        };
        self.differences.unless(found == expected, || {
            format!("{key:?} flushes {found:?} instead of {expected:?}")
        });
    }

    /// True if the program may lack a side of a message.
    fn may_lack(&self, side: OperationId) -> bool {
        if self.truth.is_send(side) {
            return self.truth.is_open(side);
        }
        let send = self.truth.sends.get(&side);
        send.is_none_or(|send| self.truth.is_open(*send))
    }

    fn messages(&mut self) {
        let truth = self.truth;
        for (channel, receives) in &self.receives {
            let sends = self.sends.get(channel).map_or(&[][..], Vec::as_slice);
            for (place, receive) in receives.iter().enumerate() {
                let expected = truth.sends.get(receive);
                let found = sends.get(place);
                // The program counts guessed matches.
                let open = (found.is_none() || self.guessed)
                    && expected.is_some_and(|send| truth.is_open(*send));
                self.differences.unless(found == expected || open, || {
                    format!("receive #{receive} got send {found:?} instead of {expected:?}")
                });
            }
        }
        for (channel, sends) in &self.sends {
            let received = self.receives.get(channel).map_or(0, Vec::len);
            for send in sends.iter().skip(received) {
                let lone = truth.lone_sides()[0].contains(send);
                self.differences.unless(lone || truth.is_open(*send), || {
                    format!("{} has no receive", truth.named(*send))
                });
            }
        }
    }

    fn collectives(&mut self, program: &Program) {
        let mut expected: BTreeMap<usize, Vec<CallKey>> = BTreeMap::new();
        let parts = self.truth.parts().into_iter();
        // A program has the calls that returned, and counts the others.
        for part in parts.filter(|part| self.truth.returned(part.call)) {
            expected.entry(part.instance).or_default().push(part.call);
        }
        for parts in self.parts.values_mut() {
            parts.sort_unstable();
        }
        let mut found: Vec<&Vec<CallKey>> = self.parts.values().collect();
        let unfinished = (program.unknown.unfinished, self.truth.unfinished());
        self.differences.unless(unfinished.0 == unfinished.1, || {
            format!("(found, expected) calls never return: {unfinished:?}")
        });
        let mut unknown = 0;
        let unknown_last = |(instance, _): &(usize, _)| self.truth.is_among_unknown(*instance);
        let mut expected: Vec<(usize, Vec<CallKey>)> = expected.into_iter().collect();
        // One call may begin several.
        expected.sort_by_key(unknown_last);
        for (instance, parts) in expected {
            let place = found.iter().position(|own| **own == parts);
            let has = place.map(|place| found.swap_remove(place)).is_some();
            let open = self.truth.is_among_unknown(instance);
            unknown += if open && !has { parts.len() as u64 } else { 0 };
            self.differences.unless(has || open, || {
                format!("operation {instance} lacks {parts:?}")
            });
        }
        let counted = program.unknown.collectives;
        self.differences.unless(counted == unknown, || {
            format!("{counted} parts in collective operations are unknown instead of {unknown}")
        });
    }
}

/// The operations without messages that begin and end epochs on windows, which have negative tags.
fn messages_of(program: &Program, operations: &[Operation]) -> Vec<Operation> {
    let mut own = operations.to_vec();
    own.retain(|operation| !is_of_epochs(program, operation));
    own
}

/// True for an operation without a message that begins or ends an epoch on a window.
pub(super) fn is_of_epochs(program: &Program, operation: &Operation) -> bool {
    match operation {
        Operation::Send { channel, .. } | Operation::Receive { channel, .. } => {
            program.channels[*channel as usize].tag < 0
        }
        _ => false,
    }
}

/// True if a send has this mode.
fn has_mode(send: Action, found: belljar_mpi::SendMode) -> bool {
    let Action::Send { mode, .. } = send else {
        return false;
    };
    let expected = match mode {
        SendMode::Standard => belljar_mpi::SendMode::Standard,
        SendMode::Buffered => belljar_mpi::SendMode::Buffered,
        SendMode::Synchronous => belljar_mpi::SendMode::Synchronous,
        SendMode::Ready => belljar_mpi::SendMode::Ready,
    };
    found == expected
}
