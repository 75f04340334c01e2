//! Schedules a mix of jobs on a fat tree, as `cargo xtask bench simulate` does, and prints the processor time and a checksum of the results.
//!
//! `cargo run --release -p belljar-simulate --example schedule -- SCHEDULER JOBS [HOSTS]`. Jobs have 16 to 1,024 ranks; for fewer than 10,000 hosts, as much less.
#![allow(clippy::print_stdout)] // A program of its own: it prints.

use std::error::Error;
use std::sync::Arc;

use belljar_fabric::{FatTree, LinkSpec, PartSpecs, Routes, Routing, SwitchSpec};
use belljar_sim::{Random, Seed, Span};
use belljar_simulate::{
    Block, Conservative, Distribution, Easy, Fabric, Fcfs, Job, JobTraffic, Machine, Pattern,
    Policies, Scheduler, TopologyAware, simulate,
};

const SECOND: f64 = 1e9;

/// Groups of jobs, for each ten thousand: number of jobs, ranks of each, seconds between them, seconds of each, and traffic pattern.
const GROUPS: [(u32, u32, u32, u32, Pattern); 3] = [
    (6000, 16, 5, 1000, Pattern::Stencil),
    (3000, 128, 10, 2000, Pattern::Stencil),
    (1000, 1024, 30, 2000, Pattern::Hypercube),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let scheduler: Box<dyn Scheduler + Send> = match arguments.next().as_deref() {
        Some("fcfs") => Box::new(Fcfs),
        Some("easy") => Box::new(Easy),
        Some("conservative") => Box::new(Conservative),
        _ => return Err("SCHEDULER is fcfs, easy or conservative".into()),
    };
    let count: u32 = arguments.next().ok_or("JOBS is missing")?.parse()?;
    let hosts: u32 = arguments.next().map_or(Ok(count), |it| it.parse())?;
    let jobs = jobs(count, hosts);
    let flows: usize = jobs.iter().map(|job| job.traffic.flows.len()).sum();
    let link = LinkSpec {
        bandwidth: 100_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 19,
    };
    let parts = PartSpecs {
        link,
        uplink: link,
        switch,
    };
    let topology = FatTree::of_ports(36)?.build(hosts, &parts)?;
    let routes = Routes {
        routing: Routing::DModK,
        seed: 1,
        tables: None,
    };
    let policies = Policies {
        scheduler,
        selection: Box::new(TopologyAware),
        mapping: Box::new(Block),
        router: Box::new(Fabric::new(&topology, &routes)?),
    };
    let machine = Machine {
        topology: &topology,
        slots: 1,
        snapshots: &[],
    };
    let before = taken()?;
    let simulated = simulate(machine, &jobs, policies, |_| true)?;
    let seconds = taken()? - before;
    let text = format!("{simulated:?}");
    let sum = text.bytes().fold(0_u64, |sum, byte| {
        (sum.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    println!(
        "{count} jobs, {hosts} hosts, {flows} flows: {seconds:.2} s, {:.2} us a flow, results {sum:016x}",
        seconds * 1e6 / flows as f64
    );
    Ok(())
}

fn jobs(count: u32, hosts: u32) -> Vec<Job> {
    let part = f64::from(10_000) / f64::from(hosts);
    let mut all = Vec::new();
    for (number, (jobs, ranks, between, lasts, pattern)) in (0..).zip(GROUPS) {
        let ranks = ((f64::from(ranks) / part) as u32).max(2);
        let traffic = Arc::new(JobTraffic::of(pattern, ranks, 1_000_000_000));
        let mut random = Random::new(Seed(1), "jobs", number);
        let mut arrival = 0;
        for _ in 0..jobs * count / 10_000 {
            let mean = f64::from(between) * 10_000.0 / f64::from(count) * SECOND;
            arrival += Distribution::Exponential { mean }.draw(&mut random);
            let duration = Distribution::Weibull {
                scale: f64::from(lasts) * SECOND,
                shape: 0.8,
            };
            let duration = duration.draw(&mut random);
            all.push(Job {
                name: Arc::from(format!("{pattern:?}")),
                arrival,
                ranks,
                duration,
                estimate: 2 * duration,
                priority: 0,
                traffic: Arc::clone(&traffic),
                run: None,
            });
        }
    }
    all
}

/// Processor time of this thread, which is hardly affected by other load on the machine.
fn taken() -> Result<f64, Box<dyn Error>> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = told.split(' ').next().unwrap_or_default();
    Ok(nanoseconds.parse::<f64>()? / 1e9)
}
