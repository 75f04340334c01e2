//! Jobs from seeds.
//!
//! Activities are appended to all of their actors at once: a message to its sender and its receiver, a collective operation to all members. The
//! order of activities is an execution without a deadlock, as synchronous sends have receives that name them. Receives of one rank on one
//! communicator are wild in one way, so that each message is taken by as many receives as there are.

/// Communicators that a job makes first.
mod communicators;
/// Persistent operations.
mod persistent;
/// Accesses to a window.
mod windows;

use std::collections::BTreeMap;

use belljar_sim::{Random, Seed};

use crate::job::{
    Action, Actor, ActorId, Call, Collective, Communicator, CommunicatorId, Form, Job, Operation,
    OperationId, SendMode,
};
use crate::kinds::Kinds;
use crate::simulate::EAGER;
use persistent::Plans;

/// The tag of receives that are cancelled, which no message has.
const NEVER: i32 = 99;

/// How receives of one rank on one communicator are wild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discipline {
    /// By the tag: named, or from any source.
    ByTag,
    /// From a named source, with any tag.
    AnyTag,
    /// From any source, with any tag.
    Any,
}

/// The two ends of a message that is to be made.
#[derive(Clone, Copy, Debug)]
struct Ends {
    communicator: CommunicatorId,
    from: ActorId,
    to: ActorId,
}

struct Generator<'a> {
    kinds: &'a Kinds,
    random: Random,
    job: Job,
    /// By actor, operations whose requests were not waited for.
    open: Vec<Vec<OperationId>>,
    disciplines: BTreeMap<(CommunicatorId, u32), Discipline>,
    plans: Plans,
    /// Calls of all ranks on the window; 0 without one.
    meetings: usize,
    messages: u64,
    instances: usize,
}

/// The job of a seed.
pub(crate) fn job(seed: u64, kinds: &Kinds) -> Job {
    let mut generator = Generator {
        kinds,
        random: Random::new(Seed(seed), "job", 0),
        job: Job::default(),
        open: Vec::new(),
        disciplines: BTreeMap::new(),
        plans: Plans::default(),
        meetings: 0,
        messages: 0,
        instances: 0,
    };
    generator.actors();
    generator.communicators();
    generator.window();
    let activities = 8 + generator.below(40);
    for _ in 0..activities {
        generator.activity();
    }
    generator.end();
    generator.job
}

impl Generator<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound.max(1)
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn actors(&mut self) {
        self.job.ranks = 2 + self.below(5) as u32;
        for rank in 0..self.job.ranks {
            let threads = if self.kinds.threads && self.one_in(5) {
                2
            } else {
                1
            };
            for thread in 0..threads {
                let calls = Vec::new();
                self.job.actors.push(Actor {
                    rank,
                    thread,
                    calls,
                });
                self.open.push(Vec::new());
            }
        }
        let members = (0..self.job.ranks).collect();
        self.job.communicators.push(Communicator {
            members,
            making: 0,
            first: None,
        });
    }

    /// The actor of a rank's first thread.
    fn main_actor(&self, rank: u32) -> ActorId {
        let mut actors = self.job.actors.iter();
        actors
            .position(|actor| actor.rank == rank)
            .expect("each rank has an actor")
    }

    fn push(&mut self, actor: ActorId, form: Form, operations: Vec<OperationId>) {
        let late = self.one_in(6);
        let work = 200 + self.below(if late { 40_000 } else { 4000 });
        let call = Call {
            form,
            operations,
            work,
        };
        self.job.actors[actor].calls.push(call);
    }

    fn operation(
        &mut self,
        actor: ActorId,
        communicator: CommunicatorId,
        action: Action,
    ) -> OperationId {
        let operation = Operation {
            actor,
            communicator,
            action,
            persistent: None,
            partitions: None,
        };
        self.job.operations.push(operation);
        self.job.operations.len() - 1
    }

    fn activity(&mut self) {
        match self.below(20) {
            0..=2 if self.kinds.collectives => self.collective(false),
            3 if self.kinds.nonblocking_collectives => self.collective(true),
            4 if self.kinds.exchanges => self.exchange(),
            5 if self.kinds.cancels => self.cancel(),
            6 if self.kinds.failures => self.fail(),
            7 | 8 => self.plan(),
            14 if self.meetings > 0 => self.epoch(),
            9 | 10 => self.start_plan(),
            11..=13 => {
                let actor = self.below(self.job.actors.len() as u64) as ActorId;
                self.complete(actor, false);
            }
            _ => self.message(),
        }
    }

    /// Two actors of different ranks that a communicator joins.
    fn ends(&mut self) -> Option<Ends> {
        let communicator = self.below(self.job.communicators.len() as u64) as CommunicatorId;
        let [from, to] = [(); 2].map(|()| self.below(self.job.actors.len() as u64) as ActorId);
        let ranks = [from, to].map(|actor| self.job.actors[actor].rank);
        // Other threads may come before the first one has made a communicator.
        let actors = [from, to];
        let mut threads = actors.iter().map(|actor| self.job.actors[*actor].thread);
        let made = communicator == 0 || threads.all(|thread| thread == 0);
        let joined = made && self.job.communicators[communicator].joins(ranks);
        joined.then_some(Ends {
            communicator,
            from,
            to,
        })
    }

    fn discipline(&mut self, communicator: CommunicatorId, to: u32) -> Discipline {
        if let Some(own) = self.disciplines.get(&(communicator, to)) {
            return *own;
        }
        let wild = self.kinds.wildcards || self.kinds.wildcards_without_status;
        // Threads of one rank would take each other's messages.
        let threads = self.job.actors.iter().any(|actor| actor.thread > 0);
        let discipline = match self.below(6) {
            0 if wild && !threads => Discipline::AnyTag,
            1 if wild && !threads => Discipline::Any,
            _ => Discipline::ByTag,
        };
        self.disciplines.insert((communicator, to), discipline);
        discipline
    }

    /// True if receives of a rank on a communicator name their tags.
    fn is_by_tag(&mut self, communicator: CommunicatorId, to: u32) -> bool {
        self.discipline(communicator, to) == Discipline::ByTag
    }

    /// A message's two sides; whether it must be eager is said by the receive.
    fn sides(&mut self, ends: Ends) -> (OperationId, OperationId) {
        let [from, to] = [ends.from, ends.to]
            .map(|actor| (self.job.actors[actor].rank, self.job.actors[actor].thread));
        let discipline = self.discipline(ends.communicator, to.0);
        let wild = self.kinds.wildcards || self.kinds.wildcards_without_status;
        let any_source = discipline == Discipline::ByTag && wild && self.one_in(4);
        let threads = 100 * (from.1 + 2 * to.1) as i32;
        let tag = threads + self.below(3) as i32 + if any_source { 10 } else { 0 };
        let wanted = match discipline {
            Discipline::ByTag if any_source => (None, Some(tag)),
            Discipline::ByTag => (Some(from.0), Some(tag)),
            Discipline::AnyTag => (Some(from.0), None),
            Discipline::Any => (None, None),
        };
        let is_wild = wanted.0.is_none() || wanted.1.is_none();
        let status = match is_wild {
            false => self.one_in(2),
            true => !self.kinds.wildcards_without_status || self.kinds.wildcards && self.one_in(2),
        };
        let (bytes, mode) = self.size_and_mode(is_wild);
        let send = Action::Send {
            to: to.0,
            tag,
            bytes,
            mode,
        };
        let (from, tag) = wanted;
        let receive = Action::Receive {
            from,
            tag,
            room: 200_000,
            status,
        };
        (
            self.operation(ends.from, ends.communicator, send),
            self.operation(ends.to, ends.communicator, receive),
        )
    }

    /// Bytes that no other message has, and a mode.
    fn size_and_mode(&mut self, eager: bool) -> (u64, SendMode) {
        self.messages += 1;
        let large = !eager && self.one_in(5);
        let bytes = 16 * self.messages + 7 + if large { EAGER } else { 0 };
        let mode = match self.below(8) {
            0 if self.kinds.modes && !eager => SendMode::Synchronous,
            1 if self.kinds.modes => SendMode::Buffered,
            2 if self.kinds.modes => SendMode::Ready,
            _ => SendMode::Standard,
        };
        (bytes, mode)
    }

    fn message(&mut self) {
        let Some(ends) = self.ends() else { return };
        let (send, receive) = self.sides(ends);
        let nonblocking = self.kinds.nonblocking && self.one_in(2);
        self.begin(ends.from, send, nonblocking);
        let nonblocking = self.kinds.nonblocking && self.one_in(2) && self.may_pend(receive);
        match self.below(8) {
            0 if self.kinds.probes => self.push(ends.to, Form::Probed, vec![receive]),
            1 if self.kinds.probes => self.push(ends.to, Form::Matched, vec![receive]),
            _ => self.begin(ends.to, receive, nonblocking),
        }
    }

    /// True if a receive may stay open while others are posted.
    pub(crate) fn may_pend(&self, receive: OperationId) -> bool {
        let action = self.job.operations[receive].action;
        let wild = matches!(
            action,
            Action::Receive { from: None, .. } | Action::Receive { tag: None, .. }
        );
        !wild || self.kinds.pending_wildcards
    }

    /// A blocking call, or one that returns a request.
    fn begin(&mut self, actor: ActorId, operation: OperationId, nonblocking: bool) {
        match nonblocking {
            true => {
                self.push(actor, Form::Begin, vec![operation]);
                self.open[actor].push(operation);
            }
            false => self.push(actor, Form::Blocking, vec![operation]),
        }
    }

    /// Two ranks exchange messages by `MPI_Sendrecv`.
    fn exchange(&mut self) {
        let Some(ends) = self.ends() else { return };
        let (there, received) = self.sides(ends);
        let back = Ends {
            from: ends.to,
            to: ends.from,
            ..ends
        };
        let (here, got) = self.sides(back);
        self.push(ends.from, Form::Blocking, vec![there, got]);
        self.push(ends.to, Form::Blocking, vec![here, received]);
    }

    /// A collective operation of all members' first threads.
    fn collective(&mut self, nonblocking: bool) {
        let communicator = self.group();
        for (actor, action) in self.parts(communicator) {
            let operation = self.operation(actor, communicator, action);
            self.begin(actor, operation, nonblocking);
        }
    }

    /// A communicator with one group.
    fn group(&mut self) -> CommunicatorId {
        let chosen = self.below(self.job.communicators.len() as u64) as CommunicatorId;
        match self.job.communicators[chosen].first {
            None => chosen,
            Some(_) => 0,
        }
    }

    /// The parts of all members in a new collective operation.
    fn parts(&mut self, communicator: CommunicatorId) -> Vec<(ActorId, Action)> {
        let operation = Collective::ALL[self.below(Collective::ALL.len() as u64) as usize];
        let members = self.job.communicators[communicator].members.clone();
        let root = members[self.below(members.len() as u64) as usize];
        let bytes = 8 * (1 + self.below(64));
        let instance = self.instances;
        self.instances += 1;
        let action = Action::Collective {
            instance,
            operation,
            root,
            bytes,
        };
        members
            .iter()
            .map(|rank| (self.main_actor(*rank), action))
            .collect()
    }

    /// A receive that is cancelled before any message comes for it.
    fn cancel(&mut self) {
        let Some(ends) = self.ends() else { return };
        let to = self.job.actors[ends.to].rank;
        if !self.is_by_tag(ends.communicator, to) {
            return;
        }
        let from = Some(self.job.actors[ends.from].rank);
        let action = Action::Receive {
            from,
            tag: Some(NEVER),
            room: 64,
            status: true,
        };
        let operation = self.operation(ends.to, ends.communicator, action);
        self.push(ends.to, Form::Begin, vec![operation]);
        self.push(ends.to, Form::Cancel, vec![operation]);
        self.push(ends.to, Form::Wait, vec![operation]);
    }

    /// A send or receive that returns an error.
    fn fail(&mut self) {
        let Some(ends) = self.ends() else { return };
        let (bytes, mode) = self.size_and_mode(true);
        let to = self.job.actors[ends.to].rank;
        let action = match self.one_in(2) {
            true => Action::Send {
                to,
                tag: 0,
                bytes,
                mode,
            },
            false => Action::Receive {
                from: Some(to),
                tag: Some(0),
                room: 64,
                status: true,
            },
        };
        let operation = self.operation(ends.from, ends.communicator, action);
        self.push(ends.from, Form::Fail, vec![operation]);
    }

    /// Waits for some of an actor's requests, or for all.
    fn complete(&mut self, actor: ActorId, all: bool) {
        let mut open = std::mem::take(&mut self.open[actor]);
        let mut chosen = Vec::new();
        open.retain(|operation| {
            let keep = !all && self.random.next_u64().is_multiple_of(2);
            if !keep {
                chosen.push(*operation);
            }
            keep
        });
        self.open[actor] = open;
        match chosen.as_slice() {
            [] => {}
            [one] if self.one_in(3) => self.push(actor, Form::Test, vec![*one]),
            _ => self.push(actor, Form::Wait, chosen),
        }
    }

    fn end(&mut self) {
        for actor in 0..self.job.actors.len() {
            self.complete(actor, true);
        }
        self.free_plans();
        self.free_window();
    }
}
