//! Persistent operations: prepared once, started when all of their earlier starts were waited for.
//!
//! A request is started again only after its earlier start has completed, as MPI demands. Called by the generator.

use super::Generator;
use crate::job::{Action, ActorId, Form, Operation, OperationId, SendMode};

/// The tag of the first prepared message that is partitioned.
const FIRST_TAG: i32 = 1000;

/// A persistent request: the operation that it starts, as prepared.
#[derive(Clone, Copy, Debug)]
struct Plan {
    actor: ActorId,
    /// The operation that the preparing call describes.
    template: OperationId,
}

/// Persistent requests that are started together: both sides of a message, or all parts of a collective operation.
#[derive(Clone, Debug)]
struct Together(Vec<Plan>);

/// All persistent requests of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Plans {
    all: Vec<Together>,
}

impl Generator<'_> {
    /// Prepares a message or a collective operation.
    pub(super) fn plan(&mut self) {
        let collective = self.kinds.persistent_collectives && self.one_in(3);
        let operations = match collective {
            true => {
                let communicator = self.group();
                let parts = self.parts(communicator);
                let operations = parts
                    .into_iter()
                    .map(|(actor, action)| self.operation(actor, communicator, action));
                operations.collect()
            }
            false if self.kinds.partitioned && self.one_in(3) => match self.partitioned() {
                Some(sides) => sides,
                None => return,
            },
            false if self.kinds.persistent => {
                let Some(ends) = self.ends() else { return };
                let (send, receive) = self.sides(ends);
                if !self.may_pend(receive) {
                    return;
                }
                if !self.kinds.persistent_modes {
                    self.make_standard(send);
                }
                vec![send, receive]
            }
            false => return,
        };
        self.prepare(operations);
    }

    /// Prepares operations that are to be started together.
    pub(super) fn prepare(&mut self, operations: Vec<OperationId>) {
        let plans = operations.iter().map(|template| Plan {
            actor: self.job.operations[*template].actor,
            template: *template,
        });
        let plans: Vec<Plan> = plans.collect();
        for plan in &plans {
            self.push(plan.actor, Form::Prepare, vec![plan.template]);
        }
        self.plans.all.push(Together(plans));
    }

    /// The two sides of a partitioned message, with a tag of their own: such sides match in the order of their preparation.
    fn partitioned(&mut self) -> Option<Vec<OperationId>> {
        let ends = self.ends()?;
        let [from, to] = [ends.from, ends.to].map(|actor| self.job.actors[actor].rank);
        if !self.is_by_tag(ends.communicator, to) {
            return None;
        }
        let tag = FIRST_TAG + self.plans.all.len() as i32;
        let (bytes, _) = self.size_and_mode(true);
        let mode = SendMode::Standard;
        let partitions = [7, 5, 3].into_iter().find(|count| bytes % count == 0);
        let send = Action::Send {
            to,
            tag,
            bytes,
            mode,
        };
        let receive = Action::Receive {
            from: Some(from),
            tag: Some(tag),
            room: bytes,
            status: self.one_in(2),
        };
        let send = self.operation(ends.from, ends.communicator, send);
        let receive = self.operation(ends.to, ends.communicator, receive);
        self.job.operations[send].partitions = Some(partitions.unwrap_or(1));
        self.job.operations[receive].partitions = Some(1);
        Some(vec![send, receive])
    }

    /// Makes the partitions of messages ready that a call has started, the last one first.
    fn make_ready(&mut self, actor: ActorId, begun: &[OperationId]) {
        for operation in begun {
            let of = self.job.operations[*operation];
            if let (Action::Send { .. }, Some(partitions)) = (of.action, of.partitions) {
                for partition in (0..partitions).rev() {
                    self.push(actor, Form::Ready(partition), vec![*operation]);
                }
            }
        }
    }

    /// Starts one of the prepared messages or operations, or two that the same actors prepared.
    pub(super) fn start_plan(&mut self) {
        let count = self.plans.all.len() as u64;
        if count == 0 {
            return;
        }
        let chosen = self.below(count) as usize;
        let actors =
            |together: &Together| together.0.iter().map(|plan| plan.actor).collect::<Vec<_>>();
        let own = actors(&self.plans.all[chosen]);
        let all = self.plans.all.iter().enumerate();
        let other = all.filter(|(number, together)| *number != chosen && actors(together) == own);
        let other = other.map(|(number, _)| number).next();
        let with = other.filter(|_| self.one_in(2));
        let together: Vec<Together> = [Some(chosen), with]
            .into_iter()
            .flatten()
            .map(|it| self.plans.all[it].clone())
            .collect();
        for (place, actor) in own.iter().enumerate() {
            let plans: Vec<Plan> = together.iter().map(|it| it.0[place]).collect();
            self.finish(*actor, &plans);
        }
        let instances: Vec<Option<usize>> = together.iter().map(|it| self.instance(it)).collect();
        for (place, actor) in own.iter().enumerate() {
            let mut begun = Vec::new();
            for (together, instance) in together.iter().zip(&instances) {
                begun.push(self.started(together.0[place], *instance));
            }
            self.push(*actor, Form::Start, begun.clone());
            self.make_ready(*actor, &begun);
            self.open[*actor].extend(begun);
        }
    }

    /// A new number for a start of a collective operation.
    fn instance(&mut self, together: &Together) -> Option<usize> {
        let template = self.job.operations[together.0[0].template];
        matches!(template.action, Action::Collective { .. }).then(|| {
            self.instances += 1;
            self.instances - 1
        })
    }

    /// The operation of a start.
    fn started(&mut self, plan: Plan, new: Option<usize>) -> OperationId {
        let mut action = self.job.operations[plan.template].action;
        if let (Action::Collective { instance, .. }, Some(new)) = (&mut action, new) {
            *instance = new;
        }
        let operation = Operation {
            action,
            persistent: Some(plan.template),
            ..self.job.operations[plan.template]
        };
        self.job.operations.push(operation);
        self.job.operations.len() - 1
    }

    /// Waits for earlier starts of these.
    fn finish(&mut self, actor: ActorId, plans: &[Plan]) {
        let active = self.open[actor].iter().any(|operation| {
            let of = self.job.operations[*operation].persistent;
            plans.iter().any(|plan| of == Some(plan.template))
        });
        if active {
            self.complete(actor, true);
        }
    }

    /// Frees all persistent requests.
    pub(super) fn free_plans(&mut self) {
        for together in std::mem::take(&mut self.plans.all) {
            for plan in together.0 {
                self.push(plan.actor, Form::Free, vec![plan.template]);
            }
        }
    }
}
