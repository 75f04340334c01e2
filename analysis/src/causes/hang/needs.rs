//! Needs of calls that did not return: other processes.
//!
//! If a trace has several explanations of a call, the call has the needs of the weakest one. Called by
//! `HangCollector` at the end of a trace.

use belljar_job::{Channel, Member, ProcessKey};
use belljar_mpi::{CallKind, Completes};
use belljar_trace::{Event, Peer};

use super::JobRank;
use super::pending::{
    PartNeeds, PartShape, PendingKind, PendingOperation, PendingOperations, named,
};
use super::stuck::Needs;

/// Most senders of a receive from any, and most missing members of a meeting, that are considered.
const MOST_SENDERS: usize = 4096;
const MOST_MISSING: usize = 64;

impl PendingOperations<'_> {
    /// Returns the needs of a process in its last call, which did not return; `None` if the call may return by itself. With
    /// `lasts_long`, a call that needs no other member would have returned, unless its operation is mismatched.
    pub(super) fn needs(
        &self,
        process: ProcessKey,
        number: u64,
        event: &Event,
        lasts_long: bool,
    ) -> Option<Needs> {
        if self.doubtful.contains(&process) {
            return None;
        }
        match event.meaning().kind {
            CallKind::Complete(completes) => {
                self.of_requests(process, event, completes, lasts_long)
            }
            CallKind::Probe | CallKind::ProbeMatched => self.of_probe(process, event),
            _ => {
                let own = self.open_of(process);
                let own = own.filter(|pending| pending.event == number);
                self.needs_of(own, lasts_long)
            }
        }
    }

    /// Returns the needs of all of these operations; `None` if there are none, or they are unknown.
    fn needs_of<'p>(
        &self,
        operations: impl Iterator<Item = &'p PendingOperation>,
        lasts_long: bool,
    ) -> Option<Needs> {
        let mut all = Vec::new();
        for pending in operations.filter(|pending| !pending.is_matched) {
            all.extend(self.partners(pending, lasts_long)?);
        }
        (!all.is_empty()).then_some(Needs { all })
    }

    /// Operations of a process that no call has completed.
    fn open_of(&self, process: ProcessKey) -> impl Iterator<Item = &PendingOperation> {
        let pending = self.all.values();
        pending.filter(move |pending| pending.process == process && !pending.is_completed)
    }

    /// A call that completes requests: the trace has no requests of a call that did not return.
    fn of_requests(
        &self,
        process: ProcessKey,
        event: &Event,
        completes: Completes,
        lasts_long: bool,
    ) -> Option<Needs> {
        let open: Vec<_> = self.open_of(process).collect();
        let asked = argument(event, "count");
        if completes == Completes::All && asked.is_some_and(|count| count >= open.len() as u64) {
            return self.needs_of(open.into_iter(), lasts_long);
        }
        if open.is_empty() || open.iter().any(|pending| pending.is_matched) {
            return None;
        }
        let mut any = Vec::new();
        for pending in open {
            any.extend(self.partners(pending, lasts_long)?.into_iter().flatten());
        }
        Some(Needs { all: vec![any] })
    }

    fn of_probe(&self, process: ProcessKey, event: &Event) -> Option<Needs> {
        let number = event.communicator?;
        let source = argument(event, "source")? as i64;
        if source < 0 {
            return None;
        }
        let peer = Peer::Rank(u32::try_from(source).ok()?);
        let from = self.communicators.peer(process, number, peer)?;
        let has_message = self.all.values().any(|pending| {
            let of = |channel: Channel| channel.from == from && channel.to.rank == event.rank;
            !pending.is_matched && matches!(pending.what, PendingKind::Send(channel) if of(channel))
        });
        (!has_message).then(|| Needs {
            all: vec![vec![named(from)]],
        })
    }

    /// Returns groups of processes; the operation needs one process of each. `None` if it may complete without them.
    fn partners(&self, pending: &PendingOperation, lasts_long: bool) -> Option<Vec<Vec<JobRank>>> {
        match pending.what {
            PendingKind::Send(channel) => Some(vec![vec![named(channel.to)]]),
            PendingKind::Receive { wanted, number } => {
                let group = match wanted.from {
                    Some(from) => vec![named(from)],
                    None => self.others(pending, number).map(named).collect(),
                };
                (!group.is_empty() && group.len() <= MOST_SENDERS).then(|| vec![group])
            }
            PendingKind::Part {
                meeting,
                number,
                needs,
                shape,
            } => {
                let arrived = self.arrived.get(&meeting)?;
                if lasts_long && needs == PartNeeds::Nobody && self.is_mismatched(meeting) {
                    // The library waits for a member.
                    let others: Vec<_> = self.others(pending, number).map(named).collect();
                    let is_known = !others.is_empty() && others.len() <= MOST_SENDERS;
                    return is_known.then(|| vec![others]);
                }
                let missing = self.others(pending, number).filter(|member| {
                    let is_needed = match needs {
                        PartNeeds::All => true,
                        PartNeeds::Root(root) => root == *member,
                        PartNeeds::Nobody => false,
                    };
                    // A member with another operation has not reached this one.
                    is_needed
                        && !arrived.get(member).is_some_and(|other| shape.fits(other))
                        && !self.is_in_another_turn(pending, number, &shape, *member)
                });
                let missing = missing.take(MOST_MISSING);
                let missing: Vec<_> = missing.map(|member| vec![named(member)]).collect();
                (!missing.is_empty()).then_some(missing)
            }
        }
    }

    /// True if a member is in a later or earlier operation of the communicator whose part fits: libraries complete both.
    fn is_in_another_turn(
        &self,
        pending: &PendingOperation,
        number: Option<u32>,
        shape: &PartShape,
        member: Member,
    ) -> bool {
        if !self.has_mismatches {
            return false;
        }
        let identity = |process, number: Option<u32>| {
            number.and_then(|number| self.communicators.identity(process, number))
        };
        let own = identity(pending.process, number);
        let mut others = self.all.values().filter(|other| other.member == member);
        others.any(|other| match other.what {
            PendingKind::Part {
                number,
                shape: theirs,
                ..
            } => {
                !other.is_completed
                    && own.is_some()
                    && identity(other.process, number) == own
                    && shape.fits(&theirs)
            }
            _ => false,
        })
    }

    /// The other members of a communicator.
    fn others(
        &self,
        pending: &PendingOperation,
        number: Option<u32>,
    ) -> impl Iterator<Item = Member> {
        let own = pending.member;
        let sides = number.map(|number| {
            let members = self.communicators.members(pending.process, number);
            let remote = self.communicators.remote_members(pending.process, number);
            [members, remote]
        });
        let sides = sides.into_iter().flatten().flatten();
        let all = sides.flat_map(|side| side.iter());
        all.filter(move |member| *member != own)
    }
}

/// The value of an argument, by its name.
fn argument(event: &Event, name: &str) -> Option<u64> {
    let parameters = event.description().parameters.iter();
    let place = parameters.zip(&event.arguments);
    let mut found = place.filter(|(parameter, _)| parameter.name == name);
    found.next().map(|(_, word)| *word)
}
