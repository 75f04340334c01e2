//! Execution of a job by MPI's rules.
//!
//! Actors, and messages under way, take turns in the order of time. Messages of a pair of ranks arrive in the order of their sending; a receive gets
//! the first that it takes, and a message goes to the first receive that takes it (MPI-4.0, 3.5). Standard sends of few bytes are eager.

/// Messages, receives and their matching.
pub(crate) mod matching;
/// Parts in collective operations.
pub(crate) mod meeting;

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
const POLL: u64 = 2500;

/// A call as it was executed.
#[derive(Clone, Debug)]
pub(crate) struct Executed {
    pub(crate) actor: ActorId,
    /// Its index among the actor's calls in the job.
    pub(crate) call: usize,
    pub(crate) entry: u64,
    pub(crate) exit: u64,
    /// False for a poll that found its operation not over.
    pub(crate) found: bool,
    /// The operations whose requests it completes.
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

/// An actor under way.
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
    /// Entries by rank: no two threads of a rank enter calls at one time, which readers do not tell apart.
    entries: BTreeSet<(u32, u64)>,
    out: Execution,
}

/// Executes `job`, with times that follow from `seed`.
///
/// # Panics
/// When the job comes to a deadlock.
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
    let stuck = simulation.actors.iter().zip(&job.actors);
    let mut stuck = stuck.filter(|(progress, actor)| progress.next < actor.calls.len());
    assert!(stuck.next().is_none(), "seed {seed} makes a deadlock");
    let mut out = simulation.out;
    out.calls.sort_by_key(|call| (call.entry, call.actor));
    out
}

impl Simulation<'_> {
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

    /// When an actor can enter its next call, or leave the one it is in.
    fn ready(&self, actor: ActorId) -> Option<u64> {
        let progress = &self.actors[actor];
        let call = self.job.actors[actor].calls.get(progress.next)?;
        let Some(since) = progress.inside else {
            return Some(self.free_entry(actor, progress.clock + call.work));
        };
        if call.form.polls() {
            return Some(since);
        }
        let probes = matches!(call.form, Form::Probed | Form::Matched);
        if probes && !progress.probed {
            return Some(since.max(self.mailboxes.probe(self.job, call.operations[0])?));
        }
        match call.form {
            Form::Begin
            | Form::Prepare
            | Form::Start
            | Form::Ready(_)
            | Form::Cancel
            | Form::Free
            | Form::Fail => Some(since),
            Form::Window(window) if window.awaits().is_some() => {
                let given = self.meetings.signalled(window.awaits()?);
                given.map(|at| since.max(at))
            }
            Form::Communicator(..) | Form::Window(_) => match meeting_of(self.job, call) {
                Some(meeting) => self
                    .meetings
                    .made(self.job, meeting)
                    .map(|at| since.max(at)),
                None => Some(since),
            },
            Form::Each(_) => {
                let ends = progress.left.iter().filter_map(|it| self.over[*it]);
                ends.min().map(|end| end.max(since))
            }
            _ => {
                let ends = call
                    .operations
                    .iter()
                    .map(|operation| self.over[*operation]);
                ends.map(|end| end.map(|end| end.max(since)))
                    .try_fold(since, |last, end| Some(last.max(end?)))
            }
        }
    }

    /// The first time from this one on at which no call of the actor's rank was entered.
    fn free_entry(&self, actor: ActorId, from: u64) -> u64 {
        let rank = self.job.actors[actor].rank;
        let mut times = from..;
        times
            .find(|at| !self.entries.contains(&(rank, *at)))
            .unwrap_or(from)
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
            Action::Send { bytes, mode, .. } => self.send(operation, (bytes, mode), at),
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

    fn send(&mut self, operation: OperationId, (bytes, mode): (u64, SendMode), at: u64) {
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
            self.send(operation, (bytes, mode), at);
        }
    }

    /// A message and a receive have met at this time.
    fn matched(&mut self, send: OperationId, receive: OperationId, at: u64) {
        self.out.pairs.insert(send, receive);
        self.over[receive] = Some(at + 80);
        let end = &mut self.over[send];
        *end = end.or(Some(at + 1200));
    }

    /// The operations whose requests a call completes that returns now.
    fn completed(&self, actor: ActorId, at: u64, found: bool) -> Vec<OperationId> {
        let progress = &self.actors[actor];
        let call = &self.job.actors[actor].calls[progress.next];
        match call.form {
            Form::Wait => call.operations.clone(),
            Form::Test if found => call.operations.clone(),
            Form::Each(each) => {
                let left = progress.left.iter().copied();
                let over = left.filter(|it| self.is_over(*it, at));
                over.take(if each.is_one() { 1 } else { usize::MAX })
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn is_over(&self, operation: OperationId, at: u64) -> bool {
        self.over[operation].is_some_and(|end| end <= at)
    }

    /// False for a poll at this time that finds nothing.
    fn finds(&self, actor: ActorId, call: &Call, at: u64) -> bool {
        let over = |operation: &OperationId| self.is_over(*operation, at);
        match call.form {
            Form::Test => call.operations.iter().all(over),
            Form::Each(each) if each.polls() => self.actors[actor].left.iter().any(over),
            _ => true,
        }
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
            exit,
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
