//! Waiting in collective operations and other meetings.
//!
//! A meeting is evaluated when all of its processes have arrived: only then are the late ones known. Used by the
//! collector for each part that begins, and for each meeting.

use belljar_job::{MeetingPart, Member, OperationId};
use belljar_mpi::{CallKind, Meaning, Operation};
use belljar_trace::{Collective, Event, Peer, Who};

use super::super::WaitKind;
use super::super::calls::Cause;
use super::super::delays::ThreadKey;
use super::super::dependency::{Dependency, DependencyNode, Needed};
use super::partial::Partial;
use super::{Origin, Role, WaitCollector};

/// The dependences between the processes of a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependence {
    /// Each process on all.
    All(WaitKind),
    /// Each process on this one.
    OnRoot(Option<Member>),
    /// This process on all.
    OfRoot(Option<Member>),
    /// Each process on lower ranks.
    OnLower,
    /// This process alone, on some of the others.
    Own(Partial),
}

impl Dependence {
    /// Returns the dependences in a meeting that is not a collective operation.
    pub(super) fn of(meaning: &Meaning) -> Self {
        Self::All(match meaning.kind {
            CallKind::MakeCommunicator(_) | CallKind::Make(_) => WaitKind::AllToAll,
            _ => WaitKind::Barrier,
        })
    }
}

impl WaitCollector<'_> {
    /// Returns the dependences in the collective operation at `origin`.
    pub(super) fn dependence(&mut self, event: &Event, origin: Origin) -> Dependence {
        let Origin::Collective(index) = origin else {
            return Dependence::Own(Partial::Nobody);
        };
        let collective = &event.collectives[index];
        if let Some(partial) = self.partial(event, collective) {
            return Dependence::Own(partial);
        }
        let process = (event.node, event.process);
        let moves = |who| collective.sent.who == who || collective.received.who == who;
        let root = collective.root.map(|root| match root {
            Peer::Rank(rank) => {
                let number = collective.communicator;
                let members = number.and_then(|it| self.communicators.members(process, it));
                members.and_then(|members| members.get(rank))
            }
            _ => None,
        });
        match root {
            _ if collective.operation.is_some_and(Operation::is_prefix) => Dependence::OnLower,
            None => Dependence::All(kind(collective)),
            Some(root) if collective.received.who == Who::Root => Dependence::OfRoot(root),
            Some(root) if moves(Who::Root) => Dependence::OnRoot(root),
            Some(_) => Dependence::Own(Partial::Nobody),
        }
    }

    /// Handles a meeting at which all processes have arrived.
    pub(super) fn gathered(&mut self, meeting: &[MeetingPart]) {
        let mut parts: Vec<Came> = Vec::new();
        for MeetingPart { rank, operation } in meeting {
            if let Some(part) = self.parts.get(operation)
                && let Role::Collective(dependence) | Role::Meeting(dependence) = part.role
            {
                parts.push(Came {
                    rank: *rank,
                    operation: *operation,
                    member: part.member,
                    thread: part.thread,
                    at: part.posted,
                    dependence,
                });
            }
        }
        // The process that arrived first describes the meeting.
        let Some(dependence) = parts.first().map(|came| came.dependence) else {
            return;
        };
        parts.sort_by_key(|came| came.rank);
        if matches!(dependence, Dependence::Own(_)) {
            self.gathered_partly(&parts);
            return;
        }
        let needed = self.needed(dependence, &parts);
        let late = late(dependence, &parts);
        if let (Dependence::All(_), Some(last)) = (dependence, late) {
            self.meet(&parts, last.at);
        }
        let mut before: Option<Came> = None;
        for (came, needed) in parts.iter().zip(needed) {
            let cause = cause(dependence, came, late, before);
            if before.is_none_or(|before| before.at < came.at) {
                before = Some(*came);
            }
            self.resolve(came.operation, (cause, needed));
        }
    }

    /// Records the meeting of all these parts, with the last of them at this time.
    fn meet(&mut self, parts: &[Came], at: u64) {
        for came in parts {
            if let Some(part) = self.parts.get_mut(&came.operation) {
                part.met = Some((self.met, at));
            }
        }
        self.met += 1;
    }

    /// Returns the dependence of each part.
    fn needed(&mut self, dependence: Dependence, parts: &[Came]) -> Vec<Option<Needed>> {
        let none = vec![None; parts.len()];
        if self.calls.dependencies.is_none() {
            return none;
        }
        let last = |but: Option<Member>| {
            let others = parts.iter().filter(|came| Some(came.member) != but);
            others.max_by_key(|came| came.at).copied()
        };
        match dependence {
            Dependence::All(_) => {
                let needed = last(None).map(|last| self.meeting(parts, last));
                vec![needed; parts.len()]
            }
            Dependence::OnRoot(root) => {
                let root = parts.iter().find(|came| Some(came.member) == root);
                let needed = root.map(|root| root.needed(DependencyNode::process(root.member)));
                let own = |came: &Came| needed.filter(|needed| needed.by != came.member);
                parts.iter().map(own).collect()
            }
            Dependence::OfRoot(root) => {
                let others = parts.iter().filter(|came| Some(came.member) != root);
                let others: Vec<Came> = others.copied().collect();
                let needed = last(root).map(|last| self.meeting(&others, last));
                let own = |came: &Came| needed.filter(|_| Some(came.member) == root);
                parts.iter().map(own).collect()
            }
            Dependence::OnLower => self.scan(parts),
            Dependence::Own(_) => none,
        }
    }

    /// Returns the dependence on a meeting of all these parts, with the last of them.
    pub(super) fn meeting(&mut self, parts: &[Came], last: Came) -> Needed {
        let meeting = DependencyNode::meeting(self.meetings);
        self.meetings += 1;
        let each = parts.iter().map(|came| {
            Dependency::on(
                meeting,
                last.at,
                DependencyNode::process(came.member),
                came.at,
                1,
            )
        });
        self.calls
            .dependencies
            .iter_mut()
            .for_each(|all| all.extend(each.clone()));
        last.needed(meeting)
    }

    /// In a scan a part depends on lower ranks: a meeting for each rank depends on the meeting before.
    fn scan(&mut self, parts: &[Came]) -> Vec<Option<Needed>> {
        let mut needed = Vec::new();
        let mut before: Option<(Needed, Came)> = None;
        for (came, left) in parts.iter().zip((1..=parts.len() as u32).rev()) {
            needed.push(before.map(|(needed, _)| needed));
            let meeting = DependencyNode::meeting(self.meetings);
            self.meetings += 1;
            let lower = before
                .map(|(_, last)| last)
                .filter(|last| last.at > came.at);
            let last = lower.unwrap_or(*came);
            let own = Dependency::on(
                meeting,
                last.at,
                DependencyNode::process(came.member),
                came.at,
                left,
            );
            let lower = before
                .map(|(needed, _)| Dependency::on(meeting, last.at, needed.on, needed.at, left));
            if let Some(all) = &mut self.calls.dependencies {
                all.push(own);
                all.extend(lower);
            }
            before = Some((last.needed(meeting), last));
        }
        needed
    }
}

/// A part in a meeting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    rank: u32,
    pub(super) operation: OperationId,
    pub(super) member: Member,
    pub(super) thread: ThreadKey,
    /// The entry of its call, in picoseconds.
    pub(super) at: u64,
    pub(super) dependence: Dependence,
}

impl Came {
    pub(super) fn needed(&self, on: DependencyNode) -> Needed {
        Needed {
            on,
            at: self.at,
            by: self.member,
        }
    }
}

/// Returns the kind of waits in a collective operation in which each process depends on all.
pub(super) fn kind(collective: &Collective) -> WaitKind {
    match collective.operation {
        Some(Operation::Barrier) => WaitKind::Barrier,
        _ => WaitKind::AllToAll,
    }
}

/// Returns the part that the others wait for, if it is the same for all.
fn late(dependence: Dependence, parts: &[Came]) -> Option<Came> {
    match dependence {
        Dependence::All(_) => parts.iter().max_by_key(|came| came.at),
        Dependence::OnRoot(root) => parts.iter().find(|came| Some(came.member) == root),
        Dependence::OfRoot(root) => {
            let others = parts.iter().filter(|came| Some(came.member) != root);
            others.max_by_key(|came| came.at)
        }
        Dependence::OnLower | Dependence::Own(_) => None,
    }
    .copied()
}

/// Returns the cause of a part's wait: the part `late`, or in a scan the last part of a lower rank, `before`.
fn cause(
    dependence: Dependence,
    own: &Came,
    late: Option<Came>,
    before: Option<Came>,
) -> Option<Cause> {
    let (kind, by) = match dependence {
        Dependence::All(kind) => (kind, late),
        Dependence::OnRoot(_) => (WaitKind::LateBroadcast, late),
        Dependence::OfRoot(root) => (
            WaitKind::EarlyReduce,
            late.filter(|_| Some(own.member) == root),
        ),
        Dependence::OnLower => (WaitKind::EarlyScan, before),
        Dependence::Own(_) => return None,
    };
    let by = by.filter(|by| by.member != own.member)?;
    Some(Cause {
        at: by.at,
        kind,
        by: by.member,
        thread: by.thread,
    })
}
