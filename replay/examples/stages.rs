//! Measures the stages of a replay, from a trace's file to the outcome.
//!
//! `cargo run --release -p belljar-replay --example stages -- WIDTH HEIGHT STEPS [packet|flow|loggops]` writes the trace of a stencil, reads it, calibrates it
//! and plays it. Its ranks form a grid, and exchange halos of 8 KiB and one allreduction in each step. Run by `cargo xtask bench replay`.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::time::Instant;

use belljar_analysis::generated::Stencil;
use belljar_archive::TraceWriter;
use belljar_collectives::Tables;
use belljar_fabric::{FatTree, LinkSpec, PartSpecs, Routing, Settings, SwitchSpec};
use belljar_networks::Parameters;
use belljar_program::{Algorithms, extract};
use belljar_replay::{Costs, NetworkModel, Setting, calibrate, replay};
use belljar_sim::{Frequency, Span};
use belljar_trace::{Implementation, TraceSummary};

fn setting(model: &str, hosts: u32) -> Setting {
    let link = LinkSpec {
        bandwidth: 100_000_000_000,
        latency: Span::from_ns(500),
    };
    let parts = PartSpecs {
        link,
        uplink: link,
        switch: SwitchSpec {
            latency: Span::from_ns(300),
            queue_bytes: 1 << 22,
        },
    };
    let tree = FatTree::for_hosts(hosts).expect("room");
    let topology = tree.build(hosts, &parts).expect("a fat tree");
    let routed = Settings {
        routing: Routing::DModK,
        ..Settings::default()
    };
    let network = match model {
        "packet" => NetworkModel::Packet(topology, routed),
        "flow" => NetworkModel::Flow(topology, routed),
        _ => NetworkModel::LogGops(
            hosts,
            Parameters {
                latency: Span::from_us(3),
                gap: Span::ZERO,
                bandwidth: link.bandwidth,
            },
        ),
    };
    Setting {
        network,
        costs: Costs::of(Implementation::Mpich),
        clocks: vec![Frequency::from_hz(1_000_000_000).expect("a frequency")],
        hosts: (0..hosts).collect(),
        scale: 1.0,
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u32| {
        let word = words.get(at).and_then(|word| word.parse().ok());
        word.unwrap_or(default)
    };
    let stencil = Stencil {
        width: number(0, 32),
        height: number(1, 32),
        steps: number(2, 100).into(),
        rounds: 1,
        report: 0,
    };
    let model = words.get(3).map_or("loggops", String::as_str);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.bjt");
    let mut writer = TraceWriter::create(&path, &stencil.header(), false).expect("a file");
    for event in stencil.events() {
        writer.push(event).expect("room");
    }
    let summary = TraceSummary {
        nodes: Vec::new(),
        ending: String::new(),
    };
    writer.finish(&summary).expect("room");

    let setting = setting(model, stencil.ranks());
    let tables = Tables::open_mpi();
    let began = Instant::now();
    let (program, _) = extract(&path, Algorithms::By(&tables)).expect("a trace");
    let read = began.elapsed().as_secs_f64();
    let calibration = calibrate(&program, &setting).expect("a setting that fits");
    let calibrated = began.elapsed().as_secs_f64();
    let outcome = replay(&program, &calibration, &setting, || true).expect("a setting that fits");
    let took = began.elapsed().as_secs_f64();
    println!(
        "{model}: {} ranks, {} messages in {took:.4} s: {:.3} million messages a second; {} ps; read {read:.3} s, calibrated {:.3} s, played {:.3} s",
        stencil.ranks(),
        outcome.messages,
        outcome.messages as f64 / took / 1e6,
        outcome.total_ps,
        calibrated - read,
        took - calibrated
    );
}
