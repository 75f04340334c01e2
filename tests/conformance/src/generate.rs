//! Jobs from seeds.
//!
//! Activities are appended to all of their actors at once: a message to its sender and its receiver, a collective operation to all members. The
//! order of activities is an execution without a deadlock, as synchronous sends have receives that name them. Receives of one rank on one
//! communicator are wild in one way, so that each message is taken by as many receives as there are.

/// Messages without another rank.
mod alone;
/// Communicators that a job makes first.
mod communicators;
/// Calls that never return.
mod endless;
/// Messages.
mod messages;
/// Persistent operations.
mod persistent;
/// Accesses to a window.
mod windows;

use std::collections::BTreeMap;

use belljar_sim::{Random, Seed};

use crate::job::{
    Action, Actor, ActorId, Call, Collective, Communicator, CommunicatorId, Each, Form, Job,
    Operation, OperationId,
};
use crate::kinds::Kinds;
use messages::Discipline;
use persistent::Plans;

struct Generator<'a> {
    kinds: &'a Kinds,
    random: Random,
    job: Job,
    /// Operations of each actor whose requests were not waited for.
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
    generator.job.folded = kinds.folded_polls && generator.one_in(2);
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
        self.job.open_mpi = self.kinds.open_mpi && self.one_in(3);
        self.job.nodes = self.nodes();
        let members = (0..self.job.ranks).collect();
        self.job.communicators.push(Communicator {
            members,
            making: 0,
            first: None,
            own: false,
            topology: None,
        });
    }

    /// The node of each rank: separate nodes, or shared ones by blocks or in cyclic order.
    fn nodes(&mut self) -> Vec<u32> {
        let ranks = 0..self.job.ranks;
        match self.below(4) {
            0 if self.kinds.shared_nodes => ranks.map(|rank| rank / 2).collect(),
            1 if self.kinds.shared_nodes => ranks.map(|rank| rank % 2).collect(),
            _ => ranks.collect(),
        }
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
        match self.below(24) {
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
            15 if self.kinds.own_messages => self.own_message(),
            16 if self.kinds.null_peers => self.null_peer(),
            _ => self.message(),
        }
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
        let Communicator { first, own, .. } = self.job.communicators[chosen];
        let between = first.is_some() && !self.kinds.collectives_between;
        match between || own {
            true => 0,
            false => chosen,
        }
    }

    /// The parts of all members in a new collective operation.
    fn parts(&mut self, communicator: CommunicatorId) -> Vec<(ActorId, Action)> {
        let neighbors = self.job.communicators[communicator].topology.is_some() && self.one_in(2);
        let operations = match self.job.communicators[communicator].first {
            Some(_) => &Collective::BETWEEN[..],
            None if neighbors => &Collective::NEIGHBORS,
            None => &Collective::ALL,
        };
        let operation = operations[self.below(operations.len() as u64) as usize];
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
            [_, _, ..] if self.one_in(3) => {
                let form = self.completing();
                self.push(actor, form, chosen);
            }
            _ => self.push(actor, Form::Wait, chosen),
        }
    }

    /// A call that completes several requests, or some of them.
    fn completing(&mut self) -> Form {
        match self.below(5) {
            0 if self.kinds.polls => Form::Test,
            1 if self.kinds.polls => Form::Each(Each::Testany),
            2 if self.kinds.polls => Form::Each(Each::Testsome),
            3 => Form::Each(Each::Waitany),
            _ => Form::Each(Each::Waitsome),
        }
    }

    fn end(&mut self) {
        for actor in 0..self.job.actors.len() {
            self.complete(actor, true);
        }
        self.free_plans();
        self.free_window();
        match self.below(8) {
            0 | 1 if self.kinds.unfinished_messages => self.cut_message(),
            2 if self.kinds.unfinished_collectives => self.cut_collective(),
            _ => {}
        }
    }
}
