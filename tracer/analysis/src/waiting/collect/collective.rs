//! Waiting in collective operations.
//!
//! An operation is looked at when all of its processes have come to it, and not before: who came late is known then. Called by
//! the collector for each part that a process has in one.

use belljar_mpi::{CallKind, Operation};
use belljar_trace::{Collective, Event, Peer, Phase, Who};

use super::super::WaitKind;
use super::super::calls::Cause;
use super::super::dependency::{Dependency, Needed, Point};
use super::WaitCollector;
use crate::communicators::{Member, ProcessKey};
use crate::matching::Operation as OperationNumber;

/// What depends on whom in a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dependence {
    /// All on all.
    All(WaitKind),
    /// All on this one.
    OnRoot(Option<Member>),
    /// This one on all.
    OfRoot(Option<Member>),
    /// Each on those of lower ranks.
    OnLower,
    /// On a part of them that is not looked at.
    Other,
}

/// A collective operation, as far as its processes came to it: their ranks, and their parts.
#[derive(Debug)]
pub(super) struct Gathering {
    dependence: Dependence,
    size: u32,
    parts: Vec<(u32, OperationNumber)>,
}

/// Operations of one kind, whose turns on a communicator are counted together: collective operations, or calls of one
/// function that meet without being one. A trace that lacks the calls of one kind still has the turns of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turns {
    /// Collective operations.
    Operations,
    /// Calls of this base function.
    Meetings(&'static str),
}

impl WaitCollector<'_> {
    /// A process's part in a collective operation.
    pub(super) fn collective(
        &mut self,
        event: &Event,
        member: Member,
        collective: &Collective,
    ) -> Option<OperationNumber> {
        if collective.phase == Phase::Prepared {
            return None;
        }
        let number = collective.communicator?;
        let process = (event.node, event.process);
        let dependence = self.dependence(process, number, collective);
        self.come(event, member, (Turns::Operations, number), dependence)
    }

    /// A process comes to a call that is no collective operation and that others have to come to, too.
    pub(super) fn meet(&mut self, event: &Event, member: Member) -> Option<OperationNumber> {
        let meaning = event.meaning();
        let process = (event.node, event.process);
        let number = self.windows.meeting(event)?;
        // Both begin a job.
        let (base, kind) = match meaning.kind {
            CallKind::Init => ("Init", WaitKind::Barrier),
            CallKind::MakeCommunicator(_) | CallKind::Make(_) => (meaning.base, WaitKind::AllToAll),
            _ => (meaning.base, WaitKind::Barrier),
        };
        self.communicators.identity(process, number)?;
        let part = self.come(
            event,
            member,
            (Turns::Meetings(base), number),
            Dependence::All(kind),
        )?;
        if let Some(own) = self.parts.get_mut(&part) {
            own.meets = true;
        }
        Some(part)
    }

    /// A process comes to its next operation of a kind on a communicator, by its own number.
    fn come(
        &mut self,
        event: &Event,
        member: Member,
        (turns, number): (Turns, u32),
        dependence: Dependence,
    ) -> Option<OperationNumber> {
        let process = (event.node, event.process);
        let identity = self.communicators.identity(process, number);
        let place = self.communicators.rank(process, number);
        let (Some(identity), Some(rank)) = (identity, place) else {
            self.unresolved += 1;
            return None;
        };
        let begun = self.begun.entry((identity, turns, process)).or_default();
        let turn = *begun;
        *begun += 1;
        let part = self.part(event, member);
        let members = self.communicators.members(process, number);
        let remote = self.communicators.remote_members(process, number);
        let sides = [members, remote].into_iter().flatten();
        let size = sides.map(|side| side.len()).sum();
        let gathering = self.gatherings.entry((identity, turns, turn));
        let gathering = gathering.or_insert(Gathering {
            // Between two groups, a collective operation's dependences are not followed.
            dependence: match (turns, remote) {
                (Turns::Operations, Some(_)) => Dependence::Other,
                _ => dependence,
            },
            size,
            parts: Vec::new(),
        });
        gathering.parts.push((rank, part));
        if gathering.parts.len() >= gathering.size as usize
            && let Some(gathering) = self.gatherings.remove(&(identity, turns, turn))
        {
            self.collectives += u64::from(turns == Turns::Operations);
            self.gathered(&gathering);
        }
        Some(part)
    }

    /// What depends on whom.
    fn dependence(&self, process: ProcessKey, number: u32, collective: &Collective) -> Dependence {
        let moves = |who| collective.sent.who == who || collective.received.who == who;
        let root = collective.root.map(|root| match root {
            Peer::Rank(rank) => {
                let members = self.communicators.members(process, number);
                members.and_then(|members| members.get(rank))
            }
            _ => None,
        });
        match root {
            _ if collective.operation.is_some_and(Operation::is_neighborhood) => Dependence::Other,
            _ if collective.operation.is_some_and(Operation::is_prefix) => Dependence::OnLower,
            None if collective.operation == Some(Operation::Barrier) => {
                Dependence::All(WaitKind::Barrier)
            }
            None => Dependence::All(WaitKind::AllToAll),
            Some(root) if collective.received.who == Who::Root => Dependence::OfRoot(root),
            Some(root) if moves(Who::Root) => Dependence::OnRoot(root),
            Some(_) => Dependence::Other,
        }
    }

    /// All processes have come to a collective operation.
    fn gathered(&mut self, gathering: &Gathering) {
        let mut parts: Vec<Came> = Vec::new();
        for (rank, operation) in &gathering.parts {
            if let Some(part) = self.parts.get(operation) {
                parts.push(Came {
                    rank: *rank,
                    operation: *operation,
                    member: part.member,
                    at: part.posted,
                });
            }
        }
        parts.sort_by_key(|came| came.rank);
        let needed = self.needed(gathering.dependence, &parts);
        let late = late(gathering.dependence, &parts);
        let mut before: Option<Came> = None;
        for (came, needed) in parts.iter().zip(needed) {
            let cause = cause(gathering.dependence, came, late, before);
            if before.is_none_or(|before| before.at < came.at) {
                before = Some(*came);
            }
            self.resolve(came.operation, (cause, needed));
        }
    }

    /// Whom each of those that came depends on.
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
                let needed = root.map(|root| root.needed(Point::process(root.member)));
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
            Dependence::Other => none,
        }
    }

    /// A meeting that all of these are needed for, the last of whom came so.
    fn meeting(&mut self, parts: &[Came], last: Came) -> Needed {
        let meeting = Point::meeting(self.meetings);
        self.meetings += 1;
        let each = parts
            .iter()
            .map(|came| Dependency::on(meeting, last.at, Point::process(came.member), came.at, 1));
        self.calls
            .dependencies
            .iter_mut()
            .for_each(|all| all.extend(each.clone()));
        last.needed(meeting)
    }

    /// In a scan each needs those of lower ranks: a meeting for each rank, which needs the meeting before.
    fn scan(&mut self, parts: &[Came]) -> Vec<Option<Needed>> {
        let mut needed = Vec::new();
        let mut before: Option<(Needed, Came)> = None;
        for (came, left) in parts.iter().zip((1..=parts.len() as u32).rev()) {
            needed.push(before.map(|(needed, _)| needed));
            let meeting = Point::meeting(self.meetings);
            self.meetings += 1;
            let lower = before
                .map(|(_, last)| last)
                .filter(|last| last.at > came.at);
            let last = lower.unwrap_or(*came);
            let own = Dependency::on(meeting, last.at, Point::process(came.member), came.at, left);
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

/// A process that came to a collective operation.
#[derive(Clone, Copy, Debug)]
struct Came {
    rank: u32,
    operation: OperationNumber,
    member: Member,
    /// When, in picoseconds.
    at: u64,
}

impl Came {
    fn needed(&self, on: Point) -> Needed {
        Needed {
            on,
            at: self.at,
            by: self.member,
        }
    }
}

/// Who makes others wait in an operation, if it is one for all that wait.
fn late(dependence: Dependence, parts: &[Came]) -> Option<Came> {
    match dependence {
        Dependence::All(_) => parts.iter().max_by_key(|came| came.at),
        Dependence::OnRoot(root) => parts.iter().find(|came| Some(came.member) == root),
        Dependence::OfRoot(root) => {
            let others = parts.iter().filter(|came| Some(came.member) != root);
            others.max_by_key(|came| came.at)
        }
        Dependence::OnLower | Dependence::Other => None,
    }
    .copied()
}

/// Why one of those that came waits: for `late`, or in a scan for the last of lower ranks, `before`.
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
        Dependence::Other => return None,
    };
    let by = by.filter(|by| by.member != own.member)?;
    Some(Cause {
        at: by.at,
        kind,
        by: by.member,
    })
}
