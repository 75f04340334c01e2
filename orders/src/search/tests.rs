//! The search against a model: random programs of sends and receives, whose orders are all enumerated.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::choice::{Choice, ChoiceKind, RankId};

/// A step of a process.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Sends to a process with a tag.
    Send(usize, i32),
    /// Receives from a process, or from any, with a tag.
    Receive(Option<usize>, i32),
    /// Skips the next step if the last receive from any got a message of an odd process.
    SkipIfOdd,
}

type Program = Vec<Vec<Step>>;

/// A vector clock: the number of steps of each process before.
type Clock = Vec<usize>;

#[derive(Clone, Debug)]
struct InFlight {
    id: MessageId,
    tag: i32,
    clock: Clock,
}

/// A completed choice of the model.
#[derive(Clone, Debug)]
struct Made {
    id: ChoiceId,
    matched: MessageId,
    process: usize,
    /// Number of the process's steps with this one.
    step: usize,
    tag: i32,
    clock: Clock,
}

#[derive(Clone, Debug, Default)]
struct World {
    next: Vec<usize>,
    clocks: Vec<Clock>,
    odd: Vec<bool>,
    waiting: Vec<InFlight>,
    sent: BTreeMap<(usize, usize), u32>,
    /// All messages, in the order of their sends.
    all: Vec<InFlight>,
    taken: BTreeMap<MessageId, (usize, usize)>,
    choices: Vec<u32>,
    made: Vec<Made>,
}

fn rank(process: usize) -> RankId {
    RankId {
        job: 0,
        rank: process as u32,
    }
}

impl World {
    fn new(processes: usize) -> Self {
        Self {
            next: vec![0; processes],
            clocks: vec![vec![0; processes]; processes],
            odd: vec![false; processes],
            choices: vec![0; processes],
            ..Self::default()
        }
    }

    /// The choice of the next step of a process, if it is one.
    fn choice(&self, program: &Program, process: usize) -> Option<ChoiceId> {
        match program[process].get(self.next[process])? {
            Step::Receive(None, _) => Some(ChoiceId {
                rank: rank(process),
                kind: ChoiceKind::Receive,
                number: self.choices[process],
            }),
            _ => None,
        }
    }

    /// Messages that the next receive of a process could take: the first of each sender, in the order of their sends.
    fn fitting(&self, process: usize, from: Option<usize>, tag: i32) -> Vec<MessageId> {
        let mut senders = BTreeSet::new();
        let own = self.waiting.iter().filter(|message| {
            let sender = message.id.from.rank as usize;
            message.id.to == rank(process)
                && message.tag == tag
                && from.is_none_or(|from| from == sender)
        });
        own.filter(|message| senders.insert(message.id.from))
            .map(|message| message.id)
            .collect()
    }

    /// Executes a step; `wanted` is the message of a receive from any. False if it must wait.
    fn step(&mut self, program: &Program, process: usize, wanted: Option<MessageId>) -> bool {
        let Some(step) = program[process].get(self.next[process]).copied() else {
            return false;
        };
        match step {
            Step::Send(to, tag) => {
                self.advance(process, 1);
                let number = self.sent.entry((process, to)).or_default();
                let id = MessageId {
                    from: rank(process),
                    to: rank(to),
                    number: *number,
                };
                *number += 1;
                let clock = self.clocks[process].clone();
                let message = InFlight { id, tag, clock };
                self.waiting.push(message.clone());
                self.all.push(message);
            }
            Step::Receive(from, tag) => {
                let fitting = self.fitting(process, from, tag);
                let taken = match wanted {
                    Some(wanted) => fitting.into_iter().find(|id| *id == wanted),
                    None => fitting.first().copied(),
                };
                let Some(taken) = taken else {
                    return false;
                };
                let id = self.choice(program, process);
                self.take(process, taken);
                if let Some(id) = id {
                    self.choices[process] += 1;
                    self.odd[process] = taken.from.rank % 2 == 1;
                    let step = self.clocks[process][process];
                    let clock = self.clocks[process].clone();
                    self.made.push(Made {
                        id,
                        matched: taken,
                        process,
                        step,
                        tag,
                        clock,
                    });
                }
            }
            Step::SkipIfOdd => {
                let skip = usize::from(self.odd[process]);
                self.advance(process, 1 + skip);
            }
        }
        true
    }

    fn advance(&mut self, process: usize, steps: usize) {
        self.next[process] += steps;
        self.clocks[process][process] += 1;
    }

    fn take(&mut self, process: usize, id: MessageId) {
        let place = self.waiting.iter().position(|message| message.id == id);
        let message = self.waiting.remove(place.unwrap());
        self.advance(process, 1);
        for (own, other) in self.clocks[process].iter_mut().zip(&message.clock) {
            *own = (*own).max(*other);
        }
        let step = self.clocks[process][process];
        self.taken.insert(id, (process, step));
    }

    fn order(&self) -> Order {
        self.made
            .iter()
            .map(|made| (made.id, made.matched))
            .collect()
    }

    /// The run as a caller of the search observes it.
    fn observed(&self) -> ObservedRun {
        let choices = self.made.iter().map(|made| Choice {
            id: made.id,
            function: "MPI_Recv".to_owned(),
            entry_ps: 0,
            end_ps: 0,
            matched: made.matched,
            alternatives: self.alternatives(made),
            thread: made.process as u32,
            steps: [made.step as u32; 2],
            clock: made.clock.iter().map(|own| *own as u32).collect(),
        });
        ObservedRun {
            choices: choices.collect(),
            ..ObservedRun::default()
        }
    }

    fn alternatives(&self, made: &Made) -> Vec<MessageId> {
        let mut found: BTreeMap<RankId, Option<MessageId>> = BTreeMap::new();
        for message in &self.all {
            let is_fit = message.id.to == made.id.rank
                && message.id.from != made.matched.from
                && message.tag == made.tag;
            let taken = self.taken.get(&message.id);
            let is_earlier = taken.is_some_and(|(_, step)| *step < made.step);
            if !is_fit || is_earlier || found.contains_key(&message.id.from) {
                continue;
            }
            let is_free = message.clock[made.process] < made.step;
            found.insert(message.id.from, is_free.then_some(message.id));
        }
        found.into_values().flatten().collect()
    }
}

/// Runs a program; choices of `wanted` wait for their message, and others take the first one.
fn run(program: &Program, wanted: &Order, reverse: bool) -> World {
    let mut world = World::new(program.len());
    loop {
        let mut processes: Vec<usize> = (0..program.len()).collect();
        if reverse {
            processes.reverse();
        }
        let moved = processes.into_iter().any(|process| {
            let choice = world.choice(program, process);
            let message = choice.and_then(|id| wanted.get(&id).copied());
            world.step(program, process, message)
        });
        if !moved {
            return world;
        }
    }
}

/// All orders of a program, by all interleavings of choices; other steps commute.
fn enumerate(program: &Program, world: World, all: &mut BTreeSet<Order>) {
    let mut world = world;
    // Steps without a choice go first.
    while (0..program.len()).any(|process| {
        world.choice(program, process).is_none() && world.step(program, process, None)
    }) {}
    let mut is_end = true;
    for process in 0..program.len() {
        let Some(Step::Receive(None, tag)) = program[process].get(world.next[process]).copied()
        else {
            continue;
        };
        for message in world.fitting(process, None, tag) {
            let mut next = world.clone();
            assert!(next.step(program, process, Some(message)));
            enumerate(program, next, all);
            is_end = false;
        }
    }
    if is_end {
        all.insert(world.order());
    }
}

/// All orders that the search finds, its runs, and its missed targets. `shuffle` selects targets in another order.
fn explored(program: &Program, reverse: bool, shuffle: u64) -> (BTreeSet<Order>, usize, usize) {
    let mut search = Search::default();
    let mut orders = BTreeSet::new();
    let mut missed = 0;
    let mut runs = 1;
    let first = run(program, &Order::new(), reverse);
    orders.insert(first.order());
    search.observe(&first.observed());
    loop {
        let place = shuffle.wrapping_mul(runs as u64) % search.queued().max(1) as u64;
        search.prefer(place as usize);
        let Some(target) = search.take_target() else {
            break;
        };
        let world = run(program, &target.wanted, reverse);
        runs += 1;
        orders.insert(world.order());
        search.observe(&world.observed());
        if !search.is_observed(&target.wanted) {
            missed += 1;
            search.miss(target);
        }
        assert!(runs < 5000);
    }
    (orders, runs, missed)
}

fn step(processes: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..processes, 0..2).prop_map(|(to, tag)| Step::Send(to, tag)),
        3 => (0..2).prop_map(|tag| Step::Receive(None, tag)),
        1 => (0..processes, 0..2).prop_map(|(from, tag)| Step::Receive(Some(from), tag)),
        1 => Just(Step::SkipIfOdd),
    ]
}

/// Programs of any steps, and of receivers with senders to all of them.
fn program() -> impl Strategy<Value = Program> {
    let any = (2..5_usize).prop_flat_map(|processes| {
        let own = prop::collection::vec(step(processes), 0..5);
        prop::collection::vec(own, processes)
    });
    let receiver = prop_oneof![
        4 => Just(Step::Receive(None, 0)),
        1 => (0..4_usize, 0..2).prop_map(|(to, tag)| Step::Send(to, tag)),
        1 => Just(Step::SkipIfOdd),
    ];
    let sender = prop_oneof![
        5 => (0..2_usize, Just(0)).prop_map(|(to, tag)| Step::Send(to, tag)),
        1 => Just(Step::Receive(None, 0)),
    ];
    let receivers = prop::collection::vec(prop::collection::vec(receiver, 1..4), 2);
    let senders = prop::collection::vec(prop::collection::vec(sender, 1..4), 2);
    let crowded =
        (receivers, senders).prop_map(|(receivers, senders)| [receivers, senders].concat());
    prop_oneof![any, crowded]
}

#[test]
fn three_workers_have_six_orders_in_six_runs() {
    let worker = vec![Step::Send(0, 0)];
    let main = vec![Step::Receive(None, 0); 3];
    let program = vec![main, worker.clone(), worker.clone(), worker];
    let (orders, runs, missed) = explored(&program, false, 0);
    assert_eq!((orders.len(), runs, missed), (6, 6, 0));
}

#[test]
fn independent_receivers_have_the_product_of_their_orders() {
    let both = vec![Step::Send(0, 0), Step::Send(1, 0)];
    let main = vec![Step::Receive(None, 0); 2];
    let program = vec![main.clone(), main, both.clone(), both];
    let (orders, runs, missed) = explored(&program, false, 0);
    assert_eq!((orders.len(), runs, missed), (4, 4, 0));
}

#[test]
fn a_message_that_depends_on_another_choice_is_found() {
    // Process 2 sends to 0 only if it first got the message of process 4.
    let program = vec![
        vec![Step::Receive(None, 0)],
        vec![Step::Send(0, 0)],
        vec![Step::Receive(None, 0), Step::SkipIfOdd, Step::Send(0, 0)],
        vec![Step::Send(2, 0)],
        vec![Step::Send(2, 0)],
    ];
    let (orders, _, missed) = explored(&program, false, 0);
    let mut all = BTreeSet::new();
    enumerate(&program, World::new(program.len()), &mut all);
    assert_eq!((orders, missed), (all, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn the_search_finds_all_orders(program in program(), reverse: bool, shuffle: u64) {
        let mut all = BTreeSet::new();
        enumerate(&program, World::new(program.len()), &mut all);
        let (orders, runs, missed) = explored(&program, reverse, shuffle);
        prop_assert_eq!(&orders, &all);
        prop_assert!(runs <= all.len() + missed, "{} runs for {} orders, {} missed", runs, all.len(), missed);
    }
}
