//! Waiting in collective operations.
//!
//! An operation is looked at when all of its processes have come to it, and not before: who came late is known then. Called by
//! the collector for each part that a process has in one.

use belljar_trace::{Collective, Event, Peer, Phase, Who};

use super::super::WaitKind;
use super::super::calls::Cause;
use super::{Part, WaitCollector};
use crate::communicators::{Member, ProcessKey};
use crate::matching::Operation;

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
    parts: Vec<(u32, Operation)>,
}

impl WaitCollector<'_> {
    /// A process's part in a collective operation.
    pub(super) fn collective(
        &mut self,
        event: &Event,
        member: Member,
        collective: &Collective,
    ) -> Option<Operation> {
        if collective.phase == Phase::Prepared {
            return None;
        }
        let process = (event.node, event.process);
        let number = collective.communicator?;
        let identity = self.communicators.identity(process, number);
        let place = self.communicators.rank(process, number);
        let (Some(identity), Some(rank)) = (identity, place) else {
            self.unresolved += 1;
            return None;
        };
        let begun = self.begun.entry((identity, process)).or_default();
        let turn = *begun;
        *begun += 1;
        let part = self.part(event, member);
        let members = self.communicators.members(process, number);
        let remote = self.communicators.remote_members(process, number);
        let sides = [members, remote].into_iter().flatten();
        let size = sides.map(|side| side.len()).sum();
        let dependence = match remote {
            Some(_) => Dependence::Other,
            None => self.dependence(event, process, number, collective),
        };
        let gathering = self.gatherings.entry((identity, turn));
        let gathering = gathering.or_insert(Gathering {
            dependence,
            size,
            parts: Vec::new(),
        });
        gathering.parts.push((rank, part));
        if gathering.parts.len() >= gathering.size as usize
            && let Some(gathering) = self.gatherings.remove(&(identity, turn))
        {
            self.collectives += 1;
            self.gathered(&gathering);
        }
        Some(part)
    }

    /// What depends on whom.
    fn dependence(
        &self,
        event: &Event,
        process: ProcessKey,
        number: u32,
        collective: &Collective,
    ) -> Dependence {
        let name = event.name().to_ascii_lowercase();
        let moves = |who| collective.sent.who == who || collective.received.who == who;
        let nothing = collective.sent.bytes == Some(0) && collective.received.bytes == Some(0);
        let root = collective.root.map(|root| match root {
            Peer::Rank(rank) => {
                let members = self.communicators.members(process, number);
                members.and_then(|members| members.get(rank))
            }
            _ => None,
        });
        match root {
            _ if name.contains("neighbor") => Dependence::Other,
            _ if name.contains("scan") => Dependence::OnLower,
            None if name.contains("barrier") || (name.contains("start") && nothing) => {
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
        let mut parts: Vec<(u32, Operation, Part)> = Vec::new();
        for (rank, operation) in &gathering.parts {
            if let Some(part) = self.parts.get(operation) {
                parts.push((*rank, *operation, *part));
            }
        }
        parts.sort_by_key(|(rank, ..)| *rank);
        let cause = |kind, by: &Part| Cause {
            at: by.posted,
            kind,
            by: by.member,
        };
        let later = |one: &(u32, Operation, Part)| one.2.posted;
        let root_of = |root| parts.iter().find(|(.., part)| Some(part.member) == root);
        let mut lower: Option<Cause> = None;
        let mut causes = Vec::new();
        for (_, operation, part) in &parts {
            let found = match gathering.dependence {
                Dependence::All(kind) => {
                    let last = parts.iter().max_by_key(|one| later(one));
                    last.map(|(.., last)| cause(kind, last))
                }
                Dependence::OnRoot(root) => {
                    root_of(root).map(|(.., root)| cause(WaitKind::LateBroadcast, root))
                }
                Dependence::OfRoot(root) if Some(part.member) == root => {
                    let others = parts.iter().filter(|(.., one)| one.member != part.member);
                    let first = others.min_by_key(|one| later(one));
                    first.map(|(.., first)| cause(WaitKind::EarlyReduce, first))
                }
                Dependence::OnLower => {
                    let before = lower;
                    let own = cause(WaitKind::EarlyScan, part);
                    if lower.is_none_or(|lower| lower.at < own.at) {
                        lower = Some(own);
                    }
                    before
                }
                Dependence::OfRoot(_) | Dependence::Other => None,
            };
            causes.push((*operation, found.filter(|found| found.by != part.member)));
        }
        for (operation, cause) in causes {
            self.resolve(operation, cause);
        }
    }
}
