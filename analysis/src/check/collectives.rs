//! Order and arguments of collective operations.
//!
//! All members of a communicator call its collective operations in the same order (MPI-4.0, 6.1). The first member that
//! reaches a turn determines its operation, root, operator and data; later members are compared with it. After a difference in
//! the order no further turn of the communicator is compared. Called for each fact, and at the end.

/// Data that must be the same at all members.
mod data;
/// Data among neighbours in a grid.
mod neighbors;
/// Pieces of operations with a count for each member.
mod pieces;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use belljar_job::{Communicators, Fact, Member, Operation, Origin, ProcessKey, WindowId};
use belljar_mpi::{CallKind, Meeting, Phase};
use belljar_trace::{Collective, Event, Peer};

use super::finding::{FindingKind, Findings};
use super::signature::types::TypeTable;
use crate::causes::hang::JobRank;

/// Limit on turns that some members have not reached.
const MOST_TURNS: usize = 1 << 18;
/// Most members that a member's pieces are compared with.
const MOST_COMPARED: usize = 256;

/// The calls whose order is compared: those of a communicator, or of one of its windows.
type Sequence = (u32, Option<u32>);

/// Knowledge about members and their data.
#[derive(Clone, Copy)]
pub(super) struct TurnContext<'a> {
    pub(super) communicators: &'a Communicators,
    pub(super) types: &'a TypeTable,
}

/// A member's part in a turn.
#[derive(Clone, Debug)]
struct TurnPart {
    call: Rc<Event>,
    label: String,
    collective: Option<Collective>,
    member: Member,
    communicator: u32,
}

/// Turns of all communicators.
#[derive(Debug, Default)]
pub(super) struct CollectiveTurns {
    /// The next turn of each process.
    next: BTreeMap<(Sequence, ProcessKey), u64>,
    turns: BTreeMap<(Sequence, u64), Vec<TurnPart>>,
    /// Sequences whose order differs.
    differing: BTreeSet<Sequence>,
    /// True if turns were dropped.
    pub(super) is_crowded: bool,
}

/// The name by which calls of one turn agree: blocking and nonblocking forms differ, and large-count forms do not.
fn label(call: &Event, collective: Option<&Collective>) -> String {
    let name = call.name();
    match (call.meaning().kind, collective) {
        (
            CallKind::Start,
            Some(Collective {
                operation: Some(operation),
                ..
            }),
        ) => {
            format!("the start of a persistent {operation:?}")
        }
        _ => name.strip_suffix("_c").unwrap_or(name).to_owned(),
    }
}

impl CollectiveTurns {
    /// Takes a fact of a call.
    pub(super) fn take(
        &mut self,
        call: &Rc<Event>,
        window: Option<WindowId>,
        fact: &Fact,
        context: &TurnContext<'_>,
        findings: &mut Findings,
    ) {
        let communicators = context.communicators;
        let Some((number, part)) = part_of(call, fact, communicators) else {
            return;
        };
        let process = (call.node, call.process);
        let Some(identity) = communicators.identity(process, number) else {
            return;
        };
        let window = match call.meaning().meeting {
            Meeting::Window => window.map(|window| window.sequence),
            _ => None,
        };
        let size = size(communicators, process, number);
        self.come((identity, window), process, size, part, context, findings);
    }

    fn come(
        &mut self,
        sequence: Sequence,
        process: ProcessKey,
        size: u64,
        part: TurnPart,
        context: &TurnContext<'_>,
        findings: &mut Findings,
    ) {
        let next = self.next.entry((sequence, process)).or_default();
        let turn = *next;
        *next += 1;
        if self.differing.contains(&sequence) {
            return;
        }
        let parts = self.turns.entry((sequence, turn)).or_default();
        let first = parts.first().cloned();
        let is_intra = context
            .communicators
            .remote_members(process, part.communicator)
            .is_none();
        let alike = parts.iter().filter(|earlier| earlier.label == part.label);
        for earlier in alike.filter(|_| is_intra).take(MOST_COMPARED) {
            pieces::compare(earlier, &part, context, findings);
            neighbors::compare(earlier, &part, context, findings);
        }
        parts.push(part.clone());
        if parts.len() as u64 >= size {
            self.turns.remove(&(sequence, turn));
        }
        if let Some(first) = first {
            if first.label != part.label {
                self.differing.insert(sequence);
                self.turns.retain(|(of, _), _| *of != sequence);
                let text = format!(
                    "rank {} calls {} where rank {} calls {}",
                    first.call.rank, first.label, part.call.rank, part.label
                );
                findings.add(FindingKind::CallOrder, &[&first.call, &part.call], text);
                return;
            }
            if is_intra {
                compare(&first, &part, context, findings);
            }
        }
        if self.turns.len() > MOST_TURNS {
            self.turns.clear();
            self.differing.insert(sequence);
            self.is_crowded = true;
        }
    }

    /// Compares calls of members that cannot go on, after the last event.
    pub(super) fn finish(
        &self,
        stuck: &BTreeSet<JobRank>,
        communicators: &Communicators,
        findings: &mut Findings,
    ) {
        let is_stopped = |part: &TurnPart| {
            let Member { job, rank } = part.member;
            part.call.exit.is_none() || stuck.contains(&JobRank { job, rank })
        };
        let open = self.turns.iter();
        let open =
            open.flat_map(|((sequence, _), parts)| parts.iter().map(move |part| (sequence, part)));
        let open: Vec<(&Sequence, &TurnPart)> = open
            .filter(|(_, part)| is_stopped(part) && part.collective.is_some())
            .take(MOST_TURNS.min(4096))
            .collect();
        for (place, (sequence, part)) in open.iter().enumerate() {
            let other = open[place + 1..].iter().find(|(other, own)| {
                other.0 != sequence.0
                    && own.label == part.label
                    && own.member != part.member
                    && is_member(communicators, part, own.member)
                    && is_member(communicators, own, part.member)
            });
            if let Some((_, other)) = other {
                let text = format!(
                    "rank {} and rank {} call {} on different communicators",
                    part.call.rank, other.call.rank, part.label
                );
                let calls = [&part.call, &other.call];
                findings.add(FindingKind::CommunicatorMismatch, &calls, text);
            }
        }
    }
}

/// The part in a turn that a fact begins, with its communicator by the process's own number.
fn part_of(
    call: &Rc<Event>,
    fact: &Fact,
    communicators: &Communicators,
) -> Option<(u32, TurnPart)> {
    let Fact::Begun { origin, what, .. } = fact else {
        return None;
    };
    let (number, collective) = match (what, origin) {
        (Operation::Collective { .. }, Origin::Collective(index)) => {
            let collective = call.collectives.get(*index)?;
            (collective.communicator?, Some(collective.clone()))
        }
        (Operation::Meeting { number, .. }, _) if is_ordered(call) => (*number, None),
        _ => return None,
    };
    let part = TurnPart {
        label: label(call, collective.as_ref()),
        call: Rc::clone(call),
        collective,
        member: Member {
            job: communicators.job((call.node, call.process))?,
            rank: call.rank,
        },
        communicator: number,
    };
    Some((number, part))
}

/// True for calls that all members of a communicator or window make in the same order, other than collective operations.
fn is_ordered(call: &Event) -> bool {
    match call.meaning().kind {
        CallKind::Init | CallKind::Free(belljar_mpi::Object::Communicator) => false,
        _ => matches!(
            call.meaning().meeting,
            Meeting::World | Meeting::Communicator | Meeting::Window
        ),
    }
}

fn size(communicators: &Communicators, process: ProcessKey, number: u32) -> u64 {
    let members = communicators.members(process, number);
    let remote = communicators.remote_members(process, number);
    let sides = [members, remote].into_iter().flatten();
    sides.map(|side| u64::from(side.len())).sum()
}

fn is_member(communicators: &Communicators, part: &TurnPart, other: Member) -> bool {
    let process = (part.call.node, part.call.process);
    let members = communicators.members(process, part.communicator);
    members.is_some_and(|members| members.iter().any(|member| member == other))
}

/// Compares the arguments of two members.
fn compare(first: &TurnPart, part: &TurnPart, context: &TurnContext<'_>, findings: &mut Findings) {
    let Some((one, other)) = first.collective.as_ref().zip(part.collective.as_ref()) else {
        return;
    };
    let calls = [&first.call, &part.call];
    if let (Some(Peer::Rank(a)), Some(Peer::Rank(b))) = (one.root, other.root)
        && a != b
    {
        let text = format!(
            "{}: root {a} at rank {}, and root {b} at rank {}",
            part.label, first.call.rank, part.call.rank
        );
        findings.add(FindingKind::RootMismatch, &calls, text);
        return;
    }
    if let Some(operators) = data::operators(first, part) {
        let text = format!("{}: {operators}", part.label);
        findings.add(FindingKind::OperatorMismatch, &calls, text);
    }
    let is_blocking =
        |call: &Event| call.meaning().phase == Phase::Done || call.meaning().phase == Phase::Begun;
    if is_blocking(&part.call) && !part.call.arguments.is_empty() {
        data::compare(first, part, context, findings);
    }
}
