use std::sync::Arc;

use belljar_fabric::{Routes, Routing, Topology};
use belljar_sim::{Random, Seed, decode, encode};
use proptest::prelude::*;

use super::*;
use crate::job::{Job, JobTraffic, Pattern};
use crate::mapping::Cyclic;
use crate::measures::Measures;
use crate::routing::{Fabric, Greedy, Router};
use crate::scheduler::{Conservative, Easy, Fcfs, Scheduler};
use crate::selection::{Anywhere, Linear, Selection};
use crate::shapes::two_levels;
use crate::simulation::{AsLong, Machine, Policies, Simulated, SimulationStep};

const SECOND: Nanos = 1_000_000_000;

/// Returns policies with a scheduler, a selection and a router by number.
fn policies(kind: usize) -> Policies {
    let topology = two_levels();
    let routes = Routes {
        routing: Routing::Adaptive,
        seed: 1,
        tables: None,
    };
    let scheduler: Box<dyn Scheduler + Send> = match kind % 3 {
        0 => Box::new(Fcfs),
        1 => Box::new(Easy),
        _ => Box::new(Conservative),
    };
    let selection: Box<dyn Selection + Send> = match kind % 2 {
        0 => Box::new(Anywhere(Random::new(Seed(3), "test", 0))),
        _ => Box::new(Linear),
    };
    let router: Box<dyn Router + Send> = match kind % 5 {
        0 => Box::new(Greedy::new(&topology, 1).unwrap()),
        _ => Box::new(Fabric::new(&topology, &routes).unwrap()),
    };
    Policies {
        scheduler,
        selection,
        mapping: Box::new(Cyclic),
        router,
    }
}

/// Creates jobs by arrival, ranks, length and priority.
fn jobs(of: &[(u64, u32, u64, i64)]) -> Vec<Job> {
    let job = |(arrival, ranks, lasts, priority): &(u64, u32, u64, i64)| Job {
        name: Arc::from("job"),
        arrival: arrival * SECOND,
        ranks: *ranks,
        duration: lasts * SECOND,
        estimate: lasts * SECOND * 3 / 2,
        priority: *priority,
        run: None,
        traffic: Arc::new(JobTraffic::of(Pattern::AllToAll, *ranks, 1_000_000_007)),
    };
    of.iter().map(job).collect()
}

fn machine<'a>(topology: &'a Topology, snapshots: &'a [Nanos]) -> Machine<'a> {
    Machine {
        topology,
        slots: 2,
        snapshots,
    }
}

/// Simulates in parts of this many steps, saving and restoring the state.
fn in_parts(machine: Machine<'_>, jobs: &[Job], kind: usize, parts: &[usize]) -> Simulated {
    let mut bytes: Option<Vec<u8>> = None;
    for part in parts.iter().copied().chain([usize::MAX]) {
        let mut simulation = Simulation::new(machine, jobs, policies(kind)).unwrap();
        if let Some(bytes) = &bytes {
            simulation.restore(decode(bytes).unwrap()).unwrap();
        }
        let mut progress = AsLong::of(&simulation);
        let mut left = part;
        while left > 0 {
            if simulation.step(&mut progress) == SimulationStep::Over {
                return simulation.finish();
            }
            left -= 1;
        }
        bytes = Some(encode(&simulation.save()).unwrap());
    }
    unreachable!("the last part has no end");
}

proptest! {
    #[test]
    fn broken_off_anywhere_it_ends_the_same(
        of in prop::collection::vec((0_u64..30, 1_u32..17, 0_u64..12, 0_i64..3), 1..25),
        kind in 0_usize..30,
        parts in prop::collection::vec(0_usize..12, 1..6),
    ) {
        let topology = two_levels();
        let snapshots = [0, 5 * SECOND, 11 * SECOND, 1_000 * SECOND];
        let machine = machine(&topology, &snapshots);
        let jobs = jobs(&of);
        let whole = in_parts(machine, &jobs, kind, &[]);
        let parts = in_parts(machine, &jobs, kind, &parts);
        prop_assert_eq!(&whole, &parts);
        prop_assert_eq!(Measures::of(&whole, &jobs, 8).left, 0);
    }

    #[test]
    fn any_bytes_are_refused_or_played(
        at in 0_usize..4_000,
        with in any::<u8>(),
        steps in 0_usize..20,
        kind in 0_usize..30,
    ) {
        let topology = two_levels();
        let snapshots = [5 * SECOND];
        let machine = machine(&topology, &snapshots);
        let jobs = jobs(&[(0, 6, 10, 0), (1, 16, 4, 1), (1, 3, 2, 0), (4, 8, 3, 2), (9, 1, 9, 0)]);
        let mut simulation = Simulation::new(machine, &jobs, policies(kind)).unwrap();
        let mut progress = AsLong::of(&simulation);
        for _ in 0..steps {
            simulation.step(&mut progress);
        }
        let mut bytes = encode(&simulation.save()).unwrap();
        let length = bytes.len();
        bytes[at % length] = with;
        let Ok(state) = decode::<MixState>(&bytes) else {
            return Ok(());
        };
        let mut damaged = Simulation::new(machine, &jobs, policies(kind)).unwrap();
        if damaged.restore(state).is_ok() {
            let mut progress = AsLong::of(&damaged);
            while damaged.step(&mut progress) != SimulationStep::Over {}
            Measures::of(&damaged.finish(), &jobs, 8);
        }
    }
}

#[test]
fn states_of_other_simulations_are_refused() {
    let topology = two_levels();
    let machine = machine(&topology, &[]);
    let these = jobs(&[(0, 16, 10, 0), (1, 4, 4, 1), (1, 3, 2, 0)]);
    let mut simulation = Simulation::new(machine, &these, policies(0)).unwrap();
    let mut progress = AsLong::of(&simulation);
    simulation.step(&mut progress);
    simulation.step(&mut progress);
    let state = simulation.save();
    let refused = |jobs: &[Job], kind: usize, change: &dyn Fn(&mut MixState)| {
        let mut state = state.clone();
        change(&mut state);
        let mut other = Simulation::new(machine, jobs, policies(kind)).unwrap();
        other.restore(state).is_err()
    };
    assert!(!refused(&these, 0, &|_| ()));
    // Fewer jobs; one that arrived before it was submitted; a selection without state.
    assert!(refused(&these[..2], 0, &|_| ()));
    let later = jobs(&[(0, 16, 10, 0), (2, 4, 4, 1), (1, 3, 2, 0)]);
    assert!(refused(&later, 0, &|_| ()));
    assert!(refused(&these, 1, &|_| ()));
    // A queue in another order or with a duplicate, an invalid host, a link with a higher load.
    assert!(refused(&these, 0, &|state| state.waiting.reverse()));
    assert!(refused(&these, 0, &|state| state.waiting[1] = state.waiting[0]));
    assert!(refused(&these, 0, &|state| state.jobs[0].hosts[0] = 8));
    assert!(refused(&these, 0, &|state| state.running[0].1.clear()));
    assert!(refused(&these, 0, &|state| state.end = 0));
}
