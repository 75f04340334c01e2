//! The matching of a simulated job, as readers are compared with it.
//!
//! A call is identified by its rank, its thread and its entry, which no two calls share. Made once for each seed; used by all comparisons.

/// Dependencies of ranks on each other.
mod dependencies;
/// Calls that never return.
mod endless;
/// Bytes of collective operations.
mod traffic;

use std::collections::{BTreeMap, BTreeSet};

use crate::job::{Access, Action, Collective, Form, Job, Operation, OperationId, Topology};
use crate::kinds::Kinds;
use crate::simulate::matching::takes;
use crate::simulate::{Execution, meeting_of, rank_of};
use dependencies::Dependency;

/// A call, by its rank, its thread and its entry in cycles.
pub(crate) type CallKey = (u32, u32, u64);

/// The matching of a job.
#[derive(Debug)]
pub(crate) struct Truth {
    job: Job,
    execution: Execution,
    /// The operations that each call begins, in their order.
    pub(crate) begun: BTreeMap<CallKey, Vec<OperationId>>,
    /// The operations that each call completes by their requests.
    pub(crate) completed: BTreeMap<CallKey, Vec<OperationId>>,
    /// The send that each receive got.
    pub(crate) sends: BTreeMap<OperationId, OperationId>,
    /// The calls that never return.
    unfinished: BTreeSet<CallKey>,
    dependencies: BTreeSet<Dependency>,
}

/// A part in a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub(crate) instance: usize,
    pub(crate) call: CallKey,
}

impl Truth {
    pub(crate) fn of(job: &Job, execution: &Execution, kinds: &Kinds) -> Self {
        let mut begun: BTreeMap<CallKey, Vec<OperationId>> = BTreeMap::new();
        let mut completed = BTreeMap::new();
        let mut unfinished = BTreeSet::new();
        for executed in &execution.calls {
            let actor = &job.actors[executed.actor];
            let call = &actor.calls[executed.call];
            let begins = match call.form {
                Form::Blocking | Form::Begin | Form::Start => true,
                Form::Probed | Form::Matched => !executed.probe,
                _ => false,
            };
            let key = (actor.rank, actor.thread, executed.entry);
            if executed.exit.is_none() {
                unfinished.insert(key);
            }
            if begins {
                begun.insert(key, call.operations.clone());
            } else if !executed.completed.is_empty() {
                completed.insert(key, executed.completed.clone());
            }
        }
        let mut truth = Self {
            sends: execution
                .pairs
                .iter()
                .map(|(send, receive)| (*receive, *send))
                .collect(),
            job: job.clone(),
            execution: execution.clone(),
            begun,
            completed,
            unfinished,
            dependencies: BTreeSet::new(),
        };
        truth.dependencies = truth.all_dependencies(kinds);
        truth
    }

    pub(crate) fn action(&self, operation: OperationId) -> Action {
        self.job.operations[operation].action
    }

    pub(crate) fn is_send(&self, operation: OperationId) -> bool {
        matches!(self.action(operation), Action::Send { .. })
    }

    pub(crate) fn is_receive(&self, operation: OperationId) -> bool {
        matches!(self.action(operation), Action::Receive { .. })
    }

    pub(crate) fn rank(&self, operation: OperationId) -> u32 {
        rank_of(&self.job, &self.job.operations[operation])
    }

    /// The destination of a send; the own rank for other operations.
    pub(crate) fn target(&self, send: OperationId) -> u32 {
        match self.action(send) {
            Action::Send { to, .. } => to,
            _ => self.rank(send),
        }
    }

    /// The number of partitions of a side of a partitioned message.
    pub(crate) fn partitions(&self, side: OperationId) -> Option<u64> {
        self.job.operations[side].partitions
    }

    /// Bytes of a send; 0 of other operations.
    pub(crate) fn bytes(&self, operation: OperationId) -> u64 {
        match self.action(operation) {
            Action::Send { bytes, .. } => bytes,
            _ => 0,
        }
    }

    /// All messages: send and receive.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (OperationId, OperationId)> {
        self.execution
            .pairs
            .iter()
            .map(|(send, receive)| (*send, *receive))
    }

    /// True if the trace leaves open who got a message: a receive with a wildcard and without a status could have.
    pub(crate) fn is_open(&self, send: OperationId) -> bool {
        let operations = 0..self.job.operations.len();
        let mut begun = operations.filter(|operation| self.execution.begun[*operation].is_some());
        begun.any(|receive| self.is_open_receive(receive) && takes(&self.job, receive, send))
    }

    /// True for a receive without a status that has a wildcard, or that may have been cancelled.
    fn is_open_receive(&self, receive: OperationId) -> bool {
        let Action::Receive {
            from, tag, status, ..
        } = self.action(receive)
        else {
            return false;
        };
        let wild = from.is_none() || tag.is_none();
        (wild || self.may_be_cancelled(receive)) && !status && !self.asked_together(receive)
    }

    /// True for a receive with a request, of a process that cancels receives.
    fn may_be_cancelled(&self, receive: OperationId) -> bool {
        let own = &self.job.actors[self.job.operations[receive].actor];
        let mut siblings = self
            .job
            .actors
            .iter()
            .filter(|actor| actor.rank == own.rank);
        let has_request = own.calls.iter().any(|call| {
            matches!(call.form, Form::Wait | Form::Test | Form::Each(_))
                && call.operations.contains(&receive)
        });
        let cancels = |actor: &crate::job::Actor| {
            let mut calls = actor.calls.iter();
            calls.any(|call| matches!(call.form, Form::Cancel))
        };
        has_request && siblings.any(cancels)
    }

    /// True if the call that completes a receive requests the statuses of others, and so its own.
    fn asked_together(&self, receive: OperationId) -> bool {
        let calls = self.job.actors[self.job.operations[receive].actor]
            .calls
            .iter();
        let mut completing = calls.filter(|call| {
            matches!(call.form, Form::Wait | Form::Test | Form::Each(_))
                && call.operations.contains(&receive)
        });
        completing.any(|call| {
            let mut actions = call
                .operations
                .iter()
                .map(|operation| self.action(*operation));
            actions.any(Action::asks_for_status)
        })
    }

    /// For a poll that found nothing, the operations that the next poll of the same requests completed that found some.
    pub(crate) fn polled_for(&self, poll: CallKey) -> Vec<OperationId> {
        let mut calls = self.execution.calls.iter();
        let own = calls.find(|it| {
            let actor = &self.job.actors[it.actor];
            !it.found && (actor.rank, actor.thread, it.entry) == poll
        });
        // The rest of the calls, which are in the order of entries.
        let mut later =
            calls.filter(|it| own.is_some_and(|own| (it.actor, it.call) == (own.actor, own.call)));
        let found = later.find(|it| it.found);
        found.map_or_else(Vec::new, |found| found.completed.clone())
    }

    /// The parts in all collective operations.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (call, operations) in &self.begun {
            for operation in operations {
                if let Action::Collective { instance, .. } = self.action(*operation) {
                    parts.push(Part {
                        instance,
                        call: *call,
                    });
                }
            }
        }
        parts.sort_unstable();
        parts
    }

    /// True for an operation of neighbours in a graph: the trace has their numbers and not their ranks.
    pub(crate) fn is_among_unknown(&self, of: usize) -> bool {
        let mut operations = self.job.operations.iter();
        operations.any(|operation| {
            operation.instance() == Some(of) && self.has_unknown_neighbors(operation)
        })
    }

    fn has_unknown_neighbors(&self, operation: &Operation) -> bool {
        let communicator = &self.job.communicators[operation.communicator];
        operation.is_of_neighbors() && matches!(communicator.topology, Some(Topology::Graph(_)))
    }

    /// False for a part in an operation whose partners the trace lacks.
    pub(crate) fn is_told(&self, operation: OperationId) -> bool {
        !self.has_unknown_neighbors(&self.job.operations[operation])
    }

    /// The same as [`collectives`](Self::collectives) without operations of neighbours in a graph.
    pub(crate) fn known_collectives(&self, call: CallKey) -> Vec<Collective> {
        let operations = self.begun.get(&call).into_iter().flatten();
        let operations = operations.map(|operation| &self.job.operations[*operation]);
        let known = operations.filter(|operation| !self.has_unknown_neighbors(operation));
        let kinds = known.filter_map(|operation| match operation.action {
            Action::Collective { operation, .. } => Some(operation),
            _ => None,
        });
        kinds.collect()
    }

    /// The operation of each part that a call begins.
    pub(crate) fn collectives(&self, call: CallKey) -> Vec<Collective> {
        let operations = self.begun.get(&call).into_iter().flatten();
        let kinds = operations.filter_map(|operation| match self.action(*operation) {
            Action::Collective { operation, .. } => Some(operation),
            _ => None,
        });
        kinds.collect()
    }

    /// The sends that a call begins, and the receives.
    pub(crate) fn sides(&self, call: CallKey) -> (Vec<OperationId>, Vec<OperationId>) {
        let operations = self.begun.get(&call).into_iter().flatten().copied();
        let messages = operations.filter(|it| self.is_send(*it) || self.is_receive(*it));
        messages.partition(|operation| self.is_send(*operation))
    }

    /// Calls that receive one message and wait for it, with the receives.
    pub(crate) fn blocking_receives(&self) -> Vec<(CallKey, OperationId)> {
        let mut receives = Vec::new();
        for executed in &self.execution.calls {
            let actor = &self.job.actors[executed.actor];
            let call = &actor.calls[executed.call];
            if let (Form::Blocking, [receive]) = (call.form, call.operations.as_slice())
                && self.is_receive(*receive)
            {
                receives.push(((actor.rank, actor.thread, executed.entry), *receive));
            }
        }
        receives
    }

    /// The calls besides collective operations that wait for all ranks, each with the last entry of its meeting.
    pub(crate) fn meetings(&self) -> Vec<(CallKey, u64)> {
        let mut together: BTreeMap<usize, Vec<CallKey>> = BTreeMap::new();
        for executed in &self.execution.calls {
            let actor = &self.job.actors[executed.actor];
            if let Some(meeting) = meeting_of(&self.job, &actor.calls[executed.call]) {
                let key = (actor.rank, actor.thread, executed.entry);
                together.entry(meeting).or_default().push(key);
            }
        }
        let meetings = together.values().flat_map(|calls| {
            let last = calls.iter().map(|key| key.2).max().unwrap_or(0);
            calls.iter().map(move |key| (*key, last))
        });
        meetings.collect()
    }

    /// The accesses that a call makes: the target, bytes that go there, and bytes that come from there.
    pub(crate) fn accesses(&self, call: CallKey) -> Vec<(u32, u64, u64)> {
        let operations = self.begun.get(&call).into_iter().flatten();
        let accesses = operations.filter_map(|operation| match self.action(*operation) {
            Action::Access {
                access: Access::Get,
                target,
                bytes,
            } => Some((target, 0, bytes)),
            Action::Access { target, bytes, .. } => Some((target, bytes, 0)),
            _ => None,
        });
        accesses.collect()
    }

    /// When a receive or send was begun, in cycles.
    pub(crate) fn begun_at(&self, operation: OperationId) -> u64 {
        self.execution.begun[operation].unwrap_or(0)
    }

    /// A short name of a pair, for messages.
    pub(crate) fn named(&self, send: OperationId) -> String {
        format!(
            "send #{send} of rank {} ({} B)",
            self.rank(send),
            self.bytes(send)
        )
    }
}
