//! Measures the speed of jobs in the background: `cargo run --release -p belljar-replay --example background -- JOB COPIES
//! MILLISECONDS`.
//!
//! Plays this many copies of a job, as prepared by `belljar run`, on one fat tree, for this much virtual time.
#![allow(clippy::print_stdout, clippy::disallowed_methods, missing_docs)]

use std::sync::Arc;
use std::time::Instant;

use belljar_fabric::{Fabric, FatTree, LinkSpec, PartSpecs, Settings, SwitchSpec};
use belljar_replay::{Background, BackgroundSetting, PreparedJob};
use belljar_sim::{Span, Time};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, file, copies, ms] = &arguments[..] else {
        return Err("JOB COPIES MILLISECONDS".into());
    };
    let (copies, ms): (u32, u64) = (copies.parse()?, ms.parse()?);
    let job = Arc::new(PreparedJob::from_bytes(&std::fs::read(file)?)?);
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    let parts = PartSpecs {
        link,
        uplink: link,
        switch,
    };
    let hosts = copies * job.hosts();
    let tree = FatTree::for_hosts(hosts)?;
    let topology = tree.build(hosts, &parts)?;
    let settings = Settings::default();
    let mut fabric = Fabric::with_settings(topology.clone(), &settings)?;
    let of = |copy: u32| BackgroundSetting {
        hosts: (copy * job.hosts()..(copy + 1) * job.hosts()).collect(),
        start: Time::ZERO,
        scale: 1.0,
        times: None,
    };
    let jobs = (0..copies)
        .map(|copy| Background::new(job.clone(), &of(copy), &topology, &settings.routes()));
    let mut jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    let (step, end) = (Span::from_us(1), Time::ZERO + Span::from_ms(ms));
    let (mut now, mut sent) = (Time::ZERO, Vec::new());
    while now < end {
        now += step;
        for job in &mut jobs {
            job.advance(now, &mut sent);
        }
        for own in sent.drain(..) {
            fabric.send_background(own.time, own.host, own.sequence, own.frame);
        }
        for delivery in fabric.advance(now) {
            let copy = (delivery.host / job.hosts()) as usize;
            jobs[copy].hand_in(delivery.time, delivery.host, delivery.frame);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let frames: u64 = jobs.iter().map(|job| job.figures().frames).sum();
    println!(
        "{frames} frames in {seconds:.2} s: {:.0} ns each",
        seconds * 1e9 / frames as f64
    );
    Ok(())
}
