use std::sync::Arc;

use belljar_fabric::{Routes, Routing};

use super::*;
use crate::job::{JobTraffic, Pattern, RankFlow};
use crate::mapping::Block;
use crate::measures::{JobMeasures, Measures};
use crate::routing::Fabric;
use crate::scheduler::{Easy, Fcfs};
use crate::selection::{Contiguous, Linear};
use crate::shapes::two_levels;

const SECOND: Nanos = 1_000_000_000;

/// A job of this many ranks that arrives and runs for these times, in seconds, and sends 1 Gb/s from each rank around a
/// ring.
fn job(arrival: u64, ranks: u32, seconds: u64) -> Job {
    Job {
        name: Arc::from("ring"),
        arrival: arrival * SECOND,
        ranks,
        duration: seconds * SECOND,
        estimate: seconds * SECOND,
        priority: 0,
        run: None,
        traffic: Arc::new(JobTraffic::of(Pattern::Ring, ranks, 1_000_000_000)),
    }
}

fn policies(scheduler: impl Scheduler + Send + 'static) -> Policies {
    let routes = Routes {
        routing: Routing::DModK,
        seed: 1,
        tables: None,
    };
    Policies {
        scheduler: Box::new(scheduler),
        selection: Box::new(Linear),
        mapping: Box::new(Block),
        router: Box::new(Fabric::new(&two_levels(), &routes).unwrap()),
    }
}

fn simulated(jobs: &[Job], policies: Policies, snapshots: &[Nanos]) -> Simulated {
    let topology = two_levels();
    let machine = Machine {
        topology: &topology,
        slots: 1,
        snapshots,
    };
    simulate(machine, jobs, policies, |_| true).unwrap()
}

fn starts(of: &Simulated) -> Vec<Nanos> {
    let starts = of.jobs.iter().map(|job| job.start.unwrap() / SECOND);
    starts.collect()
}

#[test]
fn jobs_wait_for_hosts_and_for_those_before_them() {
    // Eight hosts: the second has to wait for the first, the third waits with FCFS but not with EASY.
    let jobs = [job(0, 6, 10), job(1, 4, 10), job(2, 2, 5)];
    assert_eq!(starts(&simulated(&jobs, policies(Fcfs), &[])), [0, 10, 10]);
    let easy = simulated(&jobs, policies(Easy), &[]);
    assert_eq!(starts(&easy), [0, 10, 2]);
    assert_eq!(easy.jobs[2].hosts, [6, 7]);
    assert_eq!(easy.jobs[1].hosts, [0, 1, 2, 3]);
    assert_eq!(easy.end, 20 * SECOND);
    let measures = Measures::of(&easy, &jobs, 8);
    assert_eq!((measures.ended, measures.left), (3, 0));
    // 60, 40 and 10 host seconds of 160; waits of 0, 9 and 0 seconds.
    assert!((measures.utilisation - 110.0 / 160.0).abs() < 1e-12);
    assert_eq!((measures.mean_wait_s, measures.longest_wait_s), (3.0, 9.0));
    let second = JobMeasures::of(&easy, 1, &jobs).unwrap();
    assert_eq!((second.slowdown, second.bounded), (1.9, 1.9));
    // Five seconds count as ten, and the result is never less than one.
    assert_eq!(JobMeasures::of(&easy, 2, &jobs).unwrap().bounded, 1.0);
}

#[test]
fn higher_priority_is_first() {
    let mut jobs = [job(0, 8, 10), job(1, 8, 10), job(2, 8, 10)];
    jobs[2].priority = 5;
    assert_eq!(starts(&simulated(&jobs, policies(Fcfs), &[])), [0, 20, 10]);
}

#[test]
fn links_carry_what_jobs_send_while_they_run() {
    let mut jobs = [job(0, 2, 10), job(5, 2, 10)];
    // The second sends across: from host 2 to a host of the other switch.
    jobs[1].ranks = 6;
    jobs[1].traffic = Arc::new(JobTraffic {
        flows: vec![RankFlow {
            from: 0,
            to: 5,
            rate: 3_000_000_000,
        }],
    });
    let times = [SECOND, 7 * SECOND, 12 * SECOND, 20 * SECOND];
    let of = simulated(&jobs, policies(Fcfs), &times);
    let sums: Vec<u64> = of
        .snapshots
        .iter()
        .map(|(_, loads)| loads.iter().sum())
        .collect();
    // A ring of two below one switch: two flows over two links each. The other uses four.
    let giga = 1_000_000_000;
    assert_eq!(sums, [4 * giga, 16 * giga, 12 * giga, 0]);
    let maxima: Vec<u64> = of.loads.iter().map(|load| load.maximum / giga).collect();
    assert_eq!(maxima, [1, 3, 3, 0]);
    let measures = Measures::of(&of, &jobs, 8);
    assert!((measures.highest_share - 0.3).abs() < 1e-12);
    let links = of.links.len() as f64;
    // 4 Gb/s for 10 s and 12 Gb/s for 10 s, in 15 s.
    let mean = (40.0 + 120.0) * giga as f64 / 15.0 / links;
    assert!((measures.mean_load / mean - 1.0).abs() < 1e-9);
    let by_links: f64 = of.links.iter().map(|link| link.mean).sum::<f64>() / links;
    assert!((by_links / mean - 1.0).abs() < 1e-9);
}

#[test]
fn a_policy_without_hosts_to_give_has_the_job_wait() {
    // Hosts 0, 1 and 4 to 6 are taken at 2, so that the three free ones are not consecutive.
    let jobs = [job(0, 2, 3), job(0, 2, 2), job(0, 3, 4), job(2, 3, 1)];
    let contiguous = Policies {
        selection: Box::new(Contiguous),
        ..policies(Fcfs)
    };
    let of = simulated(&jobs, contiguous, &[]);
    assert_eq!(of.jobs[2].hosts, [4, 5, 6]);
    assert_eq!(starts(&of), [0, 0, 0, 3]);
    assert_eq!(of.jobs[3].hosts, [0, 1, 2]);
}

#[test]
fn jobs_that_cannot_run_are_refused() {
    let topology = two_levels();
    let machine = Machine {
        topology: &topology,
        slots: 2,
        snapshots: &[],
    };
    let run = |jobs: &[Job]| simulate(machine, jobs, policies(Fcfs), |_| true);
    assert!(run(&[job(0, 16, 1)]).is_ok());
    let error = run(&[job(0, 1, 1), job(0, 17, 1)]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("job 1 (ring) needs 9 hosts, and the network has 8")
    );
    assert!(run(&[job(0, 0, 1)]).is_err());
}

#[test]
fn it_ends_when_told_to() {
    let topology = two_levels();
    let machine = Machine {
        topology: &topology,
        slots: 1,
        snapshots: &[],
    };
    let jobs = [job(0, 2, 10), job(20, 2, 10)];
    let of = simulate(machine, &jobs, policies(Fcfs), |now| now < 10 * SECOND).unwrap();
    assert_eq!(of.jobs[0].end, Some(10 * SECOND));
    assert_eq!(of.jobs[1].start, None);
    assert_eq!(Measures::of(&of, &jobs, 8).left, 1);
}
