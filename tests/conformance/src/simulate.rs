//! Execution of a job by MPI's rules.
//!
//! Actors, and messages in flight, are processed in the order of time. Messages of a pair of ranks arrive in the order of their
//! sending; a receive gets the first that it takes, and a message goes to the first receive that takes it (MPI-4.0, 3.5).
//! Standard sends of few bytes are eager.

/// Messages, receives and their matching.
pub(crate) mod matching;
/// Parts in collective operations.
pub(crate) mod meeting;
/// Calls that can be left.
mod readiness;

use std::collections::{BTreeMap, BTreeSet};

use belljar_sim::{Random, Seed};

use crate::job::{Action, ActorId, Call, Form, Job, Operation, OperationId, SendMode};
use matching::Mailboxes;
use meeting::Meetings;

/// Cycles of a call that waits for nothing.
const CALL: u64 = 150;
/// Sends of more bytes wait for their receive.
pub(crate) const EAGER: u64 = 60_000;
/// Cycles from one poll to the next.
const POLL: u64 = 900;

/// A call as it was executed.
#[derive(Clone, Debug)]
pub(crate) struct Executed {
    pub(crate) actor: ActorId,
    /// Its index among the actor's calls in the job.
    pub(crate) call: usize,
    pub(crate) entry: u64,
    /// `None` for a call that never returns.
    pub(crate) exit: Option<u64>,
    /// False for a poll that found its operation not over.
    pub(crate) found: bool,
    /// The operations whose requests the call completes.
    pub(crate) completed: Vec<OperationId>,
    /// For a call that prepares another one (a probe), that it does.
    pub(crate) probe: bool,
}

/// A job as it was executed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Execution {
    /// In the order of entries.
    pub(crate) calls: Vec<Executed>,
    /// By operation, when it was begun.
    pub(crate) begun: Vec<Option<u64>>,
    /// Sends and their receives.
    pub(crate) pairs: BTreeMap<OperationId, OperationId>,
    /// Receives that were cancelled.
    pub(crate) cancelled: BTreeSet<OperationId>,
}

impl Execution {
    /// The send that a receive got.
    pub(crate) fn send_of(&self, receive: OperationId) -> Option<OperationId> {
        let mut pairs = self.pairs.iter();
        pairs
            .find(|(_, own)| **own == receive)
            .map(|(send, _)| *send)
    }
}

/// The progress of an actor.
#[derive(Clone, Debug, Default)]
struct Progress {
    clock: u64,
    next: usize,
    /// The call that it is in: since when, and from when on operations count.
    inside: Option<u64>,
    probed: bool,
    /// Operations that its call has yet to complete, one after another.
    left: Vec<OperationId>,
}

struct Simulation<'a> {
    job: &'a Job,
    random: Random,
    actors: Vec<Progress>,
    mailboxes: Mailboxes,
    meetings: Meetings,
    /// Ready partitions of each message.
    ready: BTreeMap<OperationId, u64>,
    /// By operation, when it is over, once that is known.
    over: Vec<Option<u64>>,
    /// Entries by rank: no two threads of a rank enter calls at the same time, as readers could not distinguish them.
    entries: BTreeSet<(u32, u64)>,
    out: Execution,
}

/// Executes `job`, with times that follow from `seed`.
///
/// # Panics
/// If a job that is not cut off has a deadlock.
pub(crate) fn execute(job: &Job, seed: u64) -> Execution {
    let mut simulation = Simulation {
        job,
        random: Random::new(Seed(seed), "times", 0),
        actors: vec![
            Progress {
                clock: 10_000,
                ..Progress::default()
            };
            job.actors.len()
        ],
        mailboxes: Mailboxes::new(job.ranks),
        meetings: Meetings::default(),
        ready: BTreeMap::new(),
        over: vec![None; job.operations.len()],
        entries: BTreeSet::new(),
        out: Execution {
            begun: vec![None; job.operations.len()],
            ..Execution::default()
        },
    };
    while simulation.step() {}
    simulation.cut(seed);
    let mut out = simulation.out;
    out.calls.sort_by_key(|call| (call.entry, call.actor));
    out
}

impl Simulation<'_> {
    /// Adds the calls that never return.
    fn cut(&mut self, seed: u64) {
        for (actor, (progress, own)) in self.actors.iter().zip(&self.job.actors).enumerate() {
            if progress.next >= own.calls.len() {
                continue;
            }
            assert!(self.job.is_cut, "seed {seed} makes a deadlock");
            self.out.calls.extend(progress.inside.map(|entry| Executed {
                actor,
                call: progress.next,
                entry,
                exit: None,
                found: false,
                completed: Vec::new(),
                probe: false,
            }));
        }
    }

    /// Executes the next moment: a message arrives, or an actor enters or leaves a call. False at the end.
    fn step(&mut self) -> bool {
        let arrival = self.mailboxes.next_arrival();
        let actor = (0..self.actors.len()).filter_map(|actor| Some((self.ready(actor)?, actor)));
        let actor = actor.min();
        match (arrival, actor) {
            (Some(at), actor) if actor.is_none_or(|(other, _)| at <= other) => {
                if let Some((send, receive)) = self.mailboxes.arrive(self.job) {
                    self.matched(send, receive, at);
                }
            }
            (_, Some((at, actor))) => self.turn(actor, at),
            _ => return false,
        }
        true
    }

    /// Has an actor enter or leave a call at this time.
    fn turn(&mut self, actor: ActorId, at: u64) {
        match self.actors[actor].inside {
            None => self.enter(actor, at),
            Some(since) => self.leave(actor, since, at),
        }
    }

    fn enter(&mut self, actor: ActorId, at: u64) {
        let call = self.job.actors[actor].calls[self.actors[actor].next].clone();
        self.actors[actor].inside = Some(at);
        self.entries.insert((self.job.actors[actor].rank, at));
        match call.form {
            Form::Each(_) => self.actors[actor].left = call.operations,
            Form::Blocking | Form::Begin | Form::Start => self.begin_all(&call.operations, at),
            Form::Cancel => {
                for operation in call.operations {
                    if self.mailboxes.cancel(self.job, operation) {
                        self.over[operation] = Some(at);
                        self.out.cancelled.insert(operation);
                    }
                }
            }
            Form::Ready(_) => self.partition(call.operations[0], at),
            Form::Communicator(..) | Form::Window(_) => {
                let signal = match call.form {
                    Form::Window(window) => window.signals(),
                    _ => None,
                };
                if let Some(number) = meeting_of(self.job, &call).or(signal) {
                    self.meetings.come_to(number, at);
                }
            }
            _ => {}
        }
    }

    fn begin_all(&mut self, operations: &[OperationId], at: u64) {
        for operation in operations {
            self.begin(*operation, at);
        }
    }

    fn begin(&mut self, operation: OperationId, at: u64) {
        let job = self.job;
        self.out.begun[operation] = Some(at);
        match job.operations[operation].action {
            // Its last partition sends it.
            Action::Send { .. } if job.operations[operation].partitions.is_some() => {}
            Action::Send { bytes, mode, .. } => self.send(operation, bytes, mode, at),
            Action::Receive { .. } => {
                if let Some(send) = self.mailboxes.post(job, operation) {
                    self.matched(send, operation, at);
                }
            }
            Action::Access { .. } | Action::Nothing { .. } => {
                self.over[operation] = Some(at + CALL / 2)
            }
            Action::Collective { instance, .. } => {
                for (operation, end) in self.meetings.join(job, instance, operation, at) {
                    self.over[operation] = Some(end);
                }
            }
        }
    }

    fn send(&mut self, operation: OperationId, bytes: u64, mode: SendMode, at: u64) {
        if is_eager(mode, bytes) {
            self.over[operation] = Some(at + CALL / 2);
        }
        let latency = 1000 + self.random.next_u64() % 3000 + bytes / 16;
        self.mailboxes.send(self.job, operation, at + latency);
    }

    /// A partition is ready.
    fn partition(&mut self, operation: OperationId, at: u64) {
        let ready = self.ready.entry(operation).or_default();
        *ready += 1;
        let of = &self.job.operations[operation];
        if let Action::Send { bytes, mode, .. } = of.action
            && of.partitions == Some(*ready)
        {
            self.send(operation, bytes, mode, at);
        }
    }

    /// A message and a receive have met at this time.
    fn matched(&mut self, send: OperationId, receive: OperationId, at: u64) {
        self.out.pairs.insert(send, receive);
        self.over[receive] = Some(at + 80);
        let end = &mut self.over[send];
        *end = end.or(Some(at + 1200));
    }

    fn leave(&mut self, actor: ActorId, since: u64, at: u64) {
        let number = self.actors[actor].next;
        let call = &self.job.actors[actor].calls[number];
        let exit = at + CALL + self.random.next_u64() % 50;
        let probes =
            matches!(call.form, Form::Probed | Form::Matched) && !self.actors[actor].probed;
        let found = self.finds(actor, call, since);
        let form = call.form;
        let completed = self.completed(actor, at, found);
        self.actors[actor].left.retain(|it| !completed.contains(it));
        self.out.calls.push(Executed {
            actor,
            call: number,
            entry: since,
            exit: Some(exit),
            found,
            completed,
            probe: probes,
        });
        let call = &self.job.actors[actor].calls[number];
        let operations = call.operations.clone();
        let next = self.free_entry(actor, exit + if probes { 100 } else { POLL });
        let progress = &mut self.actors[actor];
        if probes {
            progress.probed = true;
            progress.inside = Some(next);
            self.entries.insert((self.job.actors[actor].rank, next));
            self.begin_all(&operations, next);
            return;
        }
        if !found || matches!(form, Form::Each(_)) && !progress.left.is_empty() {
            progress.inside = Some(next);
            self.entries.insert((self.job.actors[actor].rank, next));
            return;
        }
        progress.probed = false;
        progress.inside = None;
        progress.clock = exit;
        progress.next += 1;
    }
}

/// True if a send of this mode and size does not wait for its receive.
pub(crate) fn is_eager(mode: SendMode, bytes: u64) -> bool {
    match mode {
        SendMode::Buffered => true,
        SendMode::Synchronous => false,
        SendMode::Standard | SendMode::Ready => bytes <= EAGER,
    }
}

/// The number of a call that waits for all ranks.
pub(crate) fn meeting_of(job: &Job, call: &Call) -> Option<usize> {
    match call.form {
        Form::Communicator(made, _) => Some(job.communicators[made].making),
        Form::Window(window) => window.meeting(),
        _ => None,
    }
}

/// The rank of an operation's actor.
pub(crate) fn rank_of(job: &Job, operation: &Operation) -> u32 {
    job.actors[operation.actor].rank
}
