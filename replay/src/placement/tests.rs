use belljar_fabric::{LinkSpec, Settings, SwitchSpec, Topology};
use belljar_program::Builder;
use belljar_sim::{Frequency, Span};
use belljar_trace::Implementation;

use super::*;
use crate::costs::Costs;
use crate::replay::NetworkModel;
use crate::replay::calibrate;

/// Only pairs of ranks whose numbers are far apart exchange messages.
fn pairs(ranks: u32) -> Program {
    let mut builder = Builder::new(ranks);
    for _ in 0..20 {
        for rank in 0..ranks {
            let other = (rank + ranks / 2) % ranks;
            let receive = builder.receive(rank, other, 1);
            let send = builder.send(rank, other, 1, 4000);
            builder.wait(rank, receive);
            builder.wait(rank, send);
            builder.call(rank, "MPI_Sendrecv", 60_000_000);
        }
    }
    builder.finish()
}

/// A tree with two hosts at each switch, and slow links between switches.
fn tree(hosts: u32) -> Topology {
    let link = |us| LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(us),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    Topology::tree(hosts, 2, link(1), link(50), switch).unwrap()
}

fn setting(hosts: u32) -> Setting {
    Setting {
        network: NetworkModel::Flow(tree(hosts), Settings::default()),
        costs: Costs::of(Implementation::Mpich),
        clocks: vec![Frequency::from_hz(2_600_000_000).unwrap()],
        hosts: (0..hosts).collect(),
        scale: 1.0,
    }
}

fn found(slots: u32, tries: u32) -> Vec<Placement> {
    let program = pairs(8);
    let setting = setting(8);
    let calibration = calibrate(&program, &setting).unwrap();
    let effort = Effort {
        slots,
        tries,
        seed: 7,
    };
    let mut tried = 0;
    let each = || tried += 1;
    let found = search(&program, &calibration, &setting, effort, each).unwrap();
    assert_eq!(tried, Method::CONSTRUCTIVE + u64::from(tries));
    for threads in [1, 2, 3, 16] {
        let mut tried = 0;
        let judge = Judge {
            program: &program,
            calibration: &calibration,
            setting: &setting,
            threads,
        };
        let again = judge.search(effort, &mut || tried += 1).unwrap();
        assert_eq!(again, found, "{threads} threads");
        assert_eq!(tried, Method::CONSTRUCTIVE + u64::from(tries));
    }
    found
}

/// True if ranks that exchange messages are at one switch.
fn are_near(placement: &Placement) -> bool {
    (0..4).all(|rank| placement.hosts[rank] / 2 == placement.hosts[rank + 4] / 2)
}

#[test]
fn partners_come_to_one_switch() {
    let placements = found(1, 0);
    let of = |method| {
        let mut all = placements.iter();
        all.find(|placement| placement.method == method).unwrap()
    };
    assert!(are_near(of(Method::Greedy)), "{:?}", of(Method::Greedy));
    assert!(
        are_near(of(Method::Bisection)),
        "{:?}",
        of(Method::Bisection)
    );
    assert!(!are_near(of(Method::Block)));
    assert!(of(Method::Greedy).total_ps < of(Method::Block).total_ps);
    assert!(of(Method::Greedy).weight_ps < of(Method::Block).weight_ps);
    assert!(are_near(&placements[0]));
}

#[test]
fn every_placement_has_a_slot_for_each() {
    for slots in [1, 2, 3] {
        for placement in found(slots, 10) {
            let mut taken = [0; 8];
            for host in &placement.hosts {
                taken[*host as usize] += 1;
            }
            assert!(taken.iter().all(|taken| *taken <= slots), "{placement:?}");
        }
    }
}

#[test]
fn a_search_repeats_and_annealing_makes_nothing_worse() {
    let placements = found(1, 30);
    assert_eq!(placements, found(1, 30));
    let best = placements.iter().map(|it| it.total_ps).min();
    let annealed = placements.iter().find(|it| it.method == Method::Annealing);
    assert_eq!(annealed.map(|it| it.total_ps), best);
}

/// The best duration of annealing with one turn after the other, as the reference.
fn annealed_by_turns(from: &Placement, effort: Effort) -> (Vec<u32>, u64) {
    let program = pairs(8);
    let setting = setting(8);
    let calibration = calibrate(&program, &setting).unwrap();
    let traffic = Traffic::of(&program);
    let latencies = Latencies::new(tree(8), &setting.network.paths().unwrap().1).unwrap();
    let ground = Ground::new(&traffic, latencies, 8, effort.slots);
    let mut random = Random::new(Seed(effort.seed), "placement", 0);
    let mut now = (from.hosts.clone(), from.total_ps);
    let mut best = now.clone();
    for turn in 0..effort.tries {
        let hosts = ground.swapped(&now.0, &mut random);
        if hosts == now.0 {
            continue;
        }
        let swapped = Setting {
            hosts: hosts.clone(),
            ..setting.clone()
        };
        let total_ps = replay(&program, &calibration, &swapped, || true)
            .unwrap()
            .total_ps;
        let worse = total_ps.saturating_sub(now.1) as f64;
        let heat = from.total_ps as f64 / 100.0 * f64::from(effort.tries - turn - 1)
            / f64::from(effort.tries);
        let chance = random.next_u64() as f64 / u64::MAX as f64;
        if worse <= 0.0 || heat > 0.0 && chance < (-worse / heat).exp() {
            now = (hosts, total_ps);
        }
        if now.1 < best.1 {
            best = now.clone();
        }
    }
    best
}

#[test]
fn annealing_is_that_of_one_turn_after_the_other() {
    for slots in [1, 2] {
        let found = found(slots, 60);
        let of = |annealed: bool| {
            let mut all = found.iter();
            all.find(|it| (it.method == Method::Annealing) == annealed)
        };
        let (annealed, best) = (of(true).unwrap(), of(false).unwrap());
        let effort = Effort {
            slots,
            tries: 60,
            seed: 7,
        };
        let expected = annealed_by_turns(best, effort);
        assert_eq!((annealed.hosts.clone(), annealed.total_ps), expected);
    }
}

#[test]
fn too_few_slots_are_refused() {
    let program = pairs(8);
    let calibration = calibrate(&program, &setting(8)).unwrap();
    let effort = Effort {
        slots: 1,
        tries: 0,
        seed: 0,
    };
    let small = Setting {
        network: NetworkModel::Flow(tree(4), Settings::default()),
        ..setting(8)
    };
    let error = search(&program, &calibration, &small, effort, || {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        "8 processes need as many slots, and the network has 4: allow more on each host, or take a larger network"
    );
}
