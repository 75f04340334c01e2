//! Pending operations: without a partner, or without a call that completed them.
//!
//! Operations are removed when their partners are known and a call completes them. Kept by
//! `HangCollector`.

use std::collections::{BTreeMap, BTreeSet};

use belljar_job::{
    Channel, Communicators, Fact, MeetingId, Member, Operation, OperationId, Origin, ProcessKey,
    ReceiveSelector,
};
use belljar_mpi::Operation as CollectiveOperation;
use belljar_trace::Event;

use super::{JobRank, OneSided};

/// An operation without a partner, or one that no call has completed.
#[derive(Clone, Debug)]
pub(super) struct PendingOperation {
    pub(super) process: ProcessKey,
    pub(super) member: Member,
    /// The event that began it.
    pub(super) event: u64,
    pub(super) what: PendingKind,
    /// Its partners are known, so that it will complete.
    pub(super) is_matched: bool,
    pub(super) is_completed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum PendingKind {
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
        shape: PartShape,
    },
}

/// The features of a part in a collective operation that all parts must share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PartShape {
    /// `None` if the trace does not name the operation.
    family: Option<CollectiveFamily>,
    /// The root, if there is one and the trace has it.
    root: Option<Member>,
}

/// Collective operations whose parts no implementation combines with those of another family. Within a family, some do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CollectiveFamily {
    Barrier,
    Broadcast,
    Reduction,
    Gather,
    Scatter,
    AllToAll,
    Scan,
    Neighbors,
}

impl PartShape {
    fn of(operation: Option<CollectiveOperation>, root: Option<Member>) -> Self {
        use CollectiveOperation as Kind;
        let family = match operation {
            Some(Kind::Barrier) => Some(CollectiveFamily::Barrier),
            Some(Kind::Broadcast) => Some(CollectiveFamily::Broadcast),
            Some(
                Kind::Reduce | Kind::Allreduce | Kind::ReduceScatter | Kind::ReduceScatterBlock,
            ) => Some(CollectiveFamily::Reduction),
            Some(Kind::Gather | Kind::Gatherv | Kind::Allgather | Kind::Allgatherv) => {
                Some(CollectiveFamily::Gather)
            }
            Some(Kind::Scatter | Kind::Scatterv) => Some(CollectiveFamily::Scatter),
            Some(Kind::Alltoall | Kind::Alltoallv | Kind::Alltoallw) => {
                Some(CollectiveFamily::AllToAll)
            }
            Some(Kind::Scan | Kind::Exscan) => Some(CollectiveFamily::Scan),
            Some(
                Kind::NeighborAllgather
                | Kind::NeighborAllgatherv
                | Kind::NeighborAlltoall
                | Kind::NeighborAlltoallv
                | Kind::NeighborAlltoallw,
            ) => Some(CollectiveFamily::Neighbors),
            None => None,
        };
        Self { family, root }
    }

    /// True if parts of these shapes may belong to one operation.
    pub(super) fn fits(&self, other: &Self) -> bool {
        let differ = |both: Option<(CollectiveFamily, CollectiveFamily)>| {
            both.is_some_and(|(own, other)| own != other)
        };
        let roots = self.root.zip(other.root);
        !differ(self.family.zip(other.family)) && roots.is_none_or(|(own, other)| own == other)
    }
}

/// Members that a process needs in any implementation before it can leave a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartNeeds {
    All,
    Root(Member),
    Nobody,
}

/// Pending operations of all processes.
pub(super) struct PendingOperations<'a> {
    pub(super) communicators: &'a Communicators,
    pub(super) all: BTreeMap<OperationId, PendingOperation>,
    /// Members that have reached a meeting, until all have with parts that fit.
    pub(super) arrived: BTreeMap<MeetingId, BTreeMap<Member, PartShape>>,
    /// True if parts of a meeting did not fit.
    pub(super) has_mismatches: bool,
    /// Processes with operations that the trace does not explain: they are never stuck.
    pub(super) doubtful: BTreeSet<ProcessKey>,
}

impl<'a> PendingOperations<'a> {
    pub(super) fn new(communicators: &'a Communicators) -> Self {
        Self {
            communicators,
            all: BTreeMap::new(),
            arrived: BTreeMap::new(),
            has_mismatches: false,
            doubtful: BTreeSet::new(),
        }
    }

    /// Adds a fact of the event with this number.
    pub(super) fn take(&mut self, event: &Event, number: u64, fact: &Fact) {
        match fact {
            Fact::Begun {
                operation,
                origin,
                what,
            } => self.begin(event, number, *operation, *origin, *what),
            Fact::Matched { send, receive } => self.match_both(*send, *receive),
            Fact::Met { meeting, parts, .. } => {
                if self.is_mismatched(*meeting) {
                    return;
                }
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
            Fact::Lost { operation, .. } => self.lose(*operation),
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

    /// Adds the last facts. A lost operation makes its process doubtful.
    pub(super) fn end(&mut self, facts: &[Fact]) {
        for fact in facts {
            match fact {
                Fact::Matched { send, receive } => self.match_both(*send, *receive),
                Fact::Lost { operation, .. } => self.lose(*operation),
                _ => {}
            }
        }
    }

    /// True if a part of a meeting does not fit another one.
    pub(super) fn is_mismatched(&self, meeting: MeetingId) -> bool {
        let mut shapes: Vec<&PartShape> = Vec::new();
        for shape in self.arrived.get(&meeting).into_iter().flatten() {
            if !shapes.contains(&shape.1) {
                shapes.push(shape.1);
            }
        }
        let fit = |one: &&PartShape| shapes.iter().all(|other| one.fits(other));
        !shapes.iter().all(fit)
    }

    /// True if a process's call, event `number`, is a part of a mismatched collective operation.
    pub(super) fn is_mismatched_call(&self, process: ProcessKey, number: u64) -> bool {
        let mut own = self.all.values().filter(|pending| {
            pending.process == process && pending.event == number && !pending.is_completed
        });
        own.any(|pending| match pending.what {
            PendingKind::Part { meeting, .. } => self.is_mismatched(meeting),
            _ => false,
        })
    }

    fn match_both(&mut self, send: OperationId, receive: OperationId) {
        for operation in [send, receive] {
            self.settle(operation, |pending| pending.is_matched = true);
        }
    }

    fn lose(&mut self, operation: OperationId) {
        if let Some(pending) = self.all.remove(&operation) {
            self.doubtful.insert(pending.process);
        }
    }

    /// Changes an operation, and forgets it when it is matched and complete.
    fn settle(&mut self, operation: OperationId, change: impl FnOnce(&mut PendingOperation)) {
        let Some(pending) = self.all.get_mut(&operation) else {
            return;
        };
        change(pending);
        if pending.is_matched && pending.is_completed {
            self.all.remove(&operation);
        }
    }

    fn begin(
        &mut self,
        event: &Event,
        event_number: u64,
        operation: OperationId,
        origin: Origin,
        what: Operation,
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
                let shape = PartShape::of(operation, root_of(self.communicators, event, origin));
                let arrived = self.arrived.entry(meeting).or_default();
                let first = arrived.values().next();
                self.has_mismatches |= first.is_some_and(|first| !first.fits(&shape));
                arrived.insert(member, shape);
                PendingKind::Part {
                    meeting,
                    number,
                    needs: part_needs(self.communicators, event, origin, operation, member),
                    shape,
                }
            }
            Operation::Meeting { meeting, number } => {
                let shape = PartShape::default();
                let arrived = self.arrived.entry(meeting).or_default();
                arrived.insert(member, shape);
                PendingKind::Part {
                    meeting,
                    number: Some(number),
                    needs: PartNeeds::All,
                    shape,
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
            event: event_number,
            what,
            is_matched: false,
            is_completed: false,
        };
        self.all.insert(operation, pending);
    }

    /// Messages with one side: sends, or receives.
    pub(super) fn one_sided(&self, sends: bool) -> Vec<OneSided> {
        let mut counts: BTreeMap<(Option<JobRank>, JobRank, Option<i32>), u64> = BTreeMap::new();
        for pending in self.all.values().filter(|pending| !pending.is_matched) {
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

pub(super) fn named(member: Member) -> JobRank {
    JobRank {
        job: member.job,
        rank: member.rank,
    }
}

/// The root of a part in a collective operation, if it has one.
fn root_of(communicators: &Communicators, event: &Event, origin: Origin) -> Option<Member> {
    let Origin::Collective(index) = origin else {
        return None;
    };
    let collective = event.collectives.get(index)?;
    let process = (event.node, event.process);
    communicators.peer(process, collective.communicator?, collective.root?)
}

/// The members that a process's part in a collective operation needs (MPI-4.0, 6.1).
pub(crate) fn part_needs(
    communicators: &Communicators,
    event: &Event,
    origin: Origin,
    operation: Option<CollectiveOperation>,
    member: Member,
) -> PartNeeds {
    use CollectiveOperation as Kind;
    if !matches!(origin, Origin::Collective(_)) {
        return PartNeeds::Nobody;
    }
    let root = root_of(communicators, event, origin);
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
        (Some(Kind::Reduce | Kind::Gather | Kind::Gatherv), Some(root)) => match root == member {
            true => PartNeeds::All,
            false => PartNeeds::Nobody,
        },
        _ => PartNeeds::Nobody,
    }
}
