//! Operations that no call has completed, and the last call of each process.
//!
//! Memory holds these alone: operations are removed when their partners are known and a call completes them. Called by
//! [`hang`](super::hang()) for each event.

use std::collections::{BTreeMap, BTreeSet};

use belljar_job::{
    Channel, Communicators, Fact, MeetingId, Member, Operation, OperationId, Operations, Origin,
    ProcessKey, ReceiveSelector,
};
use belljar_mpi::{CallKind, Completes, Operation as CollectiveOperation};
use belljar_trace::{Event, Peer, TraceHeader};

use super::stuck::{Needs, Waiters};
use super::{Hang, HungRank, JobRank, OneSided, RankState};
use crate::argument_words;
use crate::dump::frames::FrameNames;

/// The time that a call takes at least before its rank may be stuck, in picoseconds.
const LEAST_WAIT_PS: u64 = 1_000_000_000;
/// Most senders of a receive from any, and most missing members of a meeting, that are considered.
const MOST_SENDERS: usize = 4096;
const MOST_MISSING: usize = 64;

/// An operation without a partner, or one that no call has completed.
#[derive(Clone, Debug)]
struct PendingOperation {
    process: ProcessKey,
    member: Member,
    /// The event that began it.
    event: u64,
    what: PendingKind,
    /// Its partners are known, so that it will complete.
    is_matched: bool,
    is_completed: bool,
}

#[derive(Clone, Copy, Debug)]
enum PendingKind {
    Send(Channel),
    Receive {
        wanted: ReceiveSelector,
        /// The communicator, by the process's own number.
        number: Option<u32>,
    },
    Part {
        meeting: MeetingId,
        number: Option<u32>,
        needs: PartNeeds,
    },
}

/// The members without which a process cannot leave a meeting, whatever the library does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartNeeds {
    All,
    Root(Member),
    Nobody,
}

/// The last call of a thread.
#[derive(Clone, Debug)]
struct LastCall {
    number: u64,
    event: Event,
}

/// Collects [`Hang`] from all events of a trace, in trace order.
pub(super) struct HangCollector<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    operations: Operations<&'a Communicators>,
    facts: Vec<Fact>,
    number: u64,
    end_ps: u64,
    pending: BTreeMap<OperationId, PendingOperation>,
    /// Members that have reached a meeting.
    arrived: BTreeMap<MeetingId, BTreeSet<Member>>,
    last: BTreeMap<ProcessKey, BTreeMap<u32, LastCall>>,
    /// Processes with operations that the trace does not explain: they are never stuck.
    doubtful: BTreeSet<ProcessKey>,
}

impl<'a> HangCollector<'a> {
    pub(super) fn new(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        Self {
            header,
            communicators,
            operations: Operations::new(header, communicators),
            facts: Vec::new(),
            number: 0,
            end_ps: 0,
            pending: BTreeMap::new(),
            arrived: BTreeMap::new(),
            last: BTreeMap::new(),
            doubtful: BTreeSet::new(),
        }
    }

    /// Adds an event.
    pub(super) fn observe(&mut self, event: &Event) {
        let time = self.time(event, event.exit.unwrap_or(event.entry));
        self.end_ps = self.end_ps.max(time);
        if event.depth > 0 {
            return;
        }
        let mut facts = std::mem::take(&mut self.facts);
        self.operations.observe(event, &mut facts);
        for fact in facts.drain(..) {
            self.fact(event, &fact);
        }
        self.facts = facts;
        let last = LastCall {
            number: self.number,
            event: event.clone(),
        };
        let threads = self.last.entry((event.node, event.process)).or_default();
        threads.insert(event.thread, last);
        self.number += 1;
    }

    fn fact(&mut self, event: &Event, fact: &Fact) {
        match fact {
            Fact::Begun {
                operation,
                origin,
                what,
            } => self.begin(event, *operation, (*origin, *what)),
            Fact::Matched { send, receive } => {
                for operation in [send, receive] {
                    self.settle(*operation, |pending| pending.is_matched = true);
                }
            }
            Fact::Met { meeting, parts, .. } => {
                self.arrived.remove(meeting);
                for part in parts {
                    self.settle(part.operation, |pending| pending.is_matched = true);
                }
            }
            Fact::Completed {
                operation,
                cancelled,
                ..
            } => self.settle(*operation, |pending| {
                pending.is_completed = true;
                // A receive or a part has its partners, known or not, when it is complete.
                let is_send = matches!(pending.what, PendingKind::Send(_));
                pending.is_matched |= !is_send || *cancelled;
            }),
            Fact::Lost { operation, .. } => {
                if let Some(pending) = self.pending.remove(operation) {
                    self.doubtful.insert(pending.process);
                }
            }
            Fact::Unmapped { .. } | Fact::Unknown { .. } => {
                self.doubtful.insert((event.node, event.process));
            }
            Fact::Named { .. }
            | Fact::Located { .. }
            | Fact::Ready { .. }
            | Fact::Arrived { .. }
            | Fact::Probed { .. } => {}
        }
    }

    /// Changes an operation, and forgets it when it is matched and complete.
    fn settle(&mut self, operation: OperationId, change: impl FnOnce(&mut PendingOperation)) {
        let Some(pending) = self.pending.get_mut(&operation) else {
            return;
        };
        change(pending);
        if pending.is_matched && pending.is_completed {
            self.pending.remove(&operation);
        }
    }

    fn begin(
        &mut self,
        event: &Event,
        operation: OperationId,
        (origin, what): (Origin, Operation),
    ) {
        let process = (event.node, event.process);
        let Some(job) = self.communicators.job(process) else {
            return;
        };
        let rank = event.rank;
        let member = Member { job, rank };
        let number = match origin {
            Origin::Transfer(index) => event.transfers.get(index).and_then(|it| it.communicator),
            Origin::Collective(index) => {
                event.collectives.get(index).and_then(|it| it.communicator)
            }
            Origin::Call => event.communicator,
        };
        let what = match what {
            Operation::Send { channel, .. } => PendingKind::Send(channel),
            Operation::Receive { wanted, .. } => PendingKind::Receive { wanted, number },
            Operation::Collective { meeting, operation } => {
                self.arrived.entry(meeting).or_default().insert(member);
                PendingKind::Part {
                    meeting,
                    number,
                    needs: self.part_needs(event, (origin, operation), member),
                }
            }
            Operation::Meeting { meeting, number } => {
                self.arrived.entry(meeting).or_default().insert(member);
                PendingKind::Part {
                    meeting,
                    number: Some(number),
                    needs: PartNeeds::All,
                }
            }
            // One-sided operations wait for libraries, locks and epochs.
            _ => {
                self.doubtful.insert(process);
                return;
            }
        };
        let pending = PendingOperation {
            process,
            member,
            event: self.number,
            what,
            is_matched: false,
            is_completed: false,
        };
        self.pending.insert(operation, pending);
    }

    /// The members that a process's part in a collective operation needs (MPI-4.0, 6.1).
    fn part_needs(
        &self,
        event: &Event,
        (origin, operation): (Origin, Option<CollectiveOperation>),
        member: Member,
    ) -> PartNeeds {
        use CollectiveOperation as Kind;
        let Origin::Collective(index) = origin else {
            return PartNeeds::Nobody;
        };
        let collective = event.collectives.get(index);
        let root = collective.and_then(|it| {
            let process = (event.node, event.process);
            self.communicators.peer(process, it.communicator?, it.root?)
        });
        match (operation, root) {
            (
                Some(
                    Kind::Barrier
                    | Kind::Allreduce
                    | Kind::Allgather
                    | Kind::Allgatherv
                    | Kind::Alltoall
                    | Kind::Alltoallv
                    | Kind::Alltoallw
                    | Kind::ReduceScatter
                    | Kind::ReduceScatterBlock,
                ),
                _,
            ) => PartNeeds::All,
            (Some(Kind::Broadcast | Kind::Scatter | Kind::Scatterv), Some(root)) => {
                match root == member {
                    true => PartNeeds::Nobody,
                    false => PartNeeds::Root(root),
                }
            }
            (Some(Kind::Reduce | Kind::Gather | Kind::Gatherv), Some(root)) => {
                match root == member {
                    true => PartNeeds::All,
                    false => PartNeeds::Nobody,
                }
            }
            _ => PartNeeds::Nobody,
        }
    }

    fn time(&self, event: &Event, cycles: u64) -> u64 {
        self.header.frequency(event.node).time_of(cycles).as_ps()
    }

    /// The result, with the run's end if it is later than the last call.
    pub(super) fn finish(mut self, end_ps: Option<u64>, names: Option<FrameNames<'_>>) -> Hang {
        self.end_ps = self.end_ps.max(end_ps.unwrap_or(0));
        let mut facts = Vec::new();
        self.operations.end(&mut facts);
        for fact in &facts {
            if let Fact::Matched { send, receive } = fact {
                for operation in [send, receive] {
                    self.settle(*operation, |pending| pending.is_matched = true);
                }
            }
        }
        let mut waiters = Waiters::default();
        for (process, threads) in &self.last {
            let Some(job) = self.communicators.job(*process) else {
                continue;
            };
            let Some(last) = threads.values().max_by_key(|last| last.number) else {
                continue;
            };
            let rank = last.event.rank;
            let of = JobRank { job, rank };
            match self.state(threads) {
                RankState::Ended => waiters.end(of),
                // A shorter call may be about to return.
                RankState::InCall
                    if self.time(&last.event, last.event.entry) + LEAST_WAIT_PS <= self.end_ps =>
                {
                    if let Some(needs) = self.needs(*process, last) {
                        waiters.wait(of, needs);
                    }
                }
                RankState::InCall | RankState::Outside => {}
            }
        }
        let (verdict, chain) = waiters.verdict();
        Hang {
            verdict,
            chain,
            end_ps: self.end_ps,
            ranks: self.ranks(&waiters, names),
            unreceived: self.one_sided(true),
            unsent: self.one_sided(false),
        }
    }

    /// Where a process is. A process of several threads is in a call if all of them are.
    fn state(&self, threads: &BTreeMap<u32, LastCall>) -> RankState {
        let finalized = threads.values().any(|last| {
            last.event.meaning().kind == CallKind::Finalize && last.event.exit.is_some()
        });
        match threads.values().all(|last| last.event.exit.is_none()) {
            _ if finalized => RankState::Ended,
            true => RankState::InCall,
            false => RankState::Outside,
        }
    }

    /// What the call of a process needs; `None` if it may return as things are.
    fn needs(&self, process: ProcessKey, last: &LastCall) -> Option<Needs> {
        let threads = self.last.get(&process).map_or(0, BTreeMap::len);
        if threads != 1 || self.doubtful.contains(&process) {
            return None;
        }
        match last.event.meaning().kind {
            CallKind::Complete(completes) => self.of_requests(process, &last.event, completes),
            CallKind::Probe | CallKind::ProbeMatched => self.of_probe(process, &last.event),
            _ => {
                let own = self.open_of(process);
                let own = own.filter(|pending| pending.event == last.number);
                self.needs_of(own)
            }
        }
    }

    /// What is needed for all of these operations; `None` if it is nothing or unknown.
    fn needs_of<'p>(
        &self,
        operations: impl Iterator<Item = &'p PendingOperation>,
    ) -> Option<Needs> {
        let mut all = Vec::new();
        for pending in operations.filter(|pending| !pending.is_matched) {
            all.extend(self.partners(pending)?);
        }
        (!all.is_empty()).then_some(Needs { all })
    }

    /// Operations of a process that no call has completed.
    fn open_of(&self, process: ProcessKey) -> impl Iterator<Item = &PendingOperation> {
        let pending = self.pending.values();
        pending.filter(move |pending| pending.process == process && !pending.is_completed)
    }

    /// A call that completes requests: the trace has no requests of a call that did not return.
    fn of_requests(
        &self,
        process: ProcessKey,
        event: &Event,
        completes: Completes,
    ) -> Option<Needs> {
        let open: Vec<_> = self.open_of(process).collect();
        let asked = argument(event, "count");
        if completes == Completes::All && asked.is_some_and(|count| count >= open.len() as u64) {
            return self.needs_of(open.into_iter());
        }
        if open.is_empty() || open.iter().any(|pending| pending.is_matched) {
            return None;
        }
        let mut any = Vec::new();
        for pending in open {
            any.extend(self.partners(pending)?.into_iter().flatten());
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
        let has_message = self.pending.values().any(|pending| {
            let of = |channel: Channel| channel.from == from && channel.to.rank == event.rank;
            !pending.is_matched && matches!(pending.what, PendingKind::Send(channel) if of(channel))
        });
        (!has_message).then(|| Needs {
            all: vec![vec![named(from)]],
        })
    }

    /// Groups of processes, of each of which an operation needs one; `None` if it may complete without them.
    fn partners(&self, pending: &PendingOperation) -> Option<Vec<Vec<JobRank>>> {
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
            } => {
                let arrived = self.arrived.get(&meeting)?;
                let missing = self.others(pending, number).filter(|member| {
                    let is_needed = match needs {
                        PartNeeds::All => true,
                        PartNeeds::Root(root) => root == *member,
                        PartNeeds::Nobody => false,
                    };
                    is_needed && !arrived.contains(member)
                });
                let missing = missing.take(MOST_MISSING);
                let missing: Vec<_> = missing.map(|member| vec![named(member)]).collect();
                (!missing.is_empty()).then_some(missing)
            }
        }
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

    /// All processes, with what they wait for.
    fn ranks(&self, waiters: &Waiters, mut names: Option<FrameNames<'_>>) -> Vec<HungRank> {
        let mut ranks = Vec::new();
        for (process, threads) in &self.last {
            let Some(job) = self.communicators.job(*process) else {
                continue;
            };
            let Some(last) = threads.values().max_by_key(|last| last.number) else {
                continue;
            };
            let event = &last.event;
            let rank = event.rank;
            let of = JobRank { job, rank };
            let since_ps = self.time(event, event.exit.unwrap_or(event.entry));
            let (waits_for, any) = waiters.partners(of);
            ranks.push(HungRank {
                of,
                node: event.node,
                state: self.state(threads),
                function: event.name(),
                arguments: argument_words(event),
                since_ps,
                for_ps: self.end_ps.saturating_sub(since_ps),
                waits_for,
                any,
                stuck: waiters.is_stuck(of),
                site: names
                    .as_mut()
                    .map_or_else(Vec::new, |names| names.frames(&event.site)),
            });
        }
        ranks.sort_by_key(|rank| rank.of);
        ranks
    }

    /// Messages with one side: sends, or receives.
    fn one_sided(&self, sends: bool) -> Vec<OneSided> {
        let mut counts: BTreeMap<(Option<JobRank>, JobRank, Option<i32>), u64> = BTreeMap::new();
        for pending in self.pending.values().filter(|pending| !pending.is_matched) {
            let key = match pending.what {
                PendingKind::Send(channel) if sends => (
                    Some(named(channel.from)),
                    named(channel.to),
                    Some(channel.tag),
                ),
                PendingKind::Receive { wanted, .. } if !sends => {
                    (wanted.from.map(named), named(pending.member), wanted.tag)
                }
                _ => continue,
            };
            *counts.entry(key).or_default() += 1;
        }
        let counts = counts.into_iter();
        let one = counts.map(|((from, to, tag), count)| OneSided {
            from,
            to,
            tag,
            count,
        });
        one.collect()
    }
}

fn named(member: Member) -> JobRank {
    JobRank {
        job: member.job,
        rank: member.rank,
    }
}

/// The value of an argument, by its name.
fn argument(event: &Event, name: &str) -> Option<u64> {
    let parameters = event.description().parameters.iter();
    let place = parameters.zip(&event.arguments);
    let mut found = place.filter(|(parameter, _)| parameter.name == name);
    found.next().map(|(_, word)| *word)
}
