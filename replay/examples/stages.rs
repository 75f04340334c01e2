//! Measures the stages of a replay, from a trace's file to the outcome.
//!
//! `cargo run --release -p belljar-replay --example stages -- WIDTH HEIGHT STEPS [packet|flow|loggops]` writes the trace of a stencil, reads it, calibrates it
//! and plays it. Its ranks form a grid, and exchange halos of 8 KiB and one allreduction in each step. Run by `cargo xtask bench replay`.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

/// The networks and costs of measurements.
mod setting;

use std::time::Instant;

use belljar_analysis::generated::Stencil;
use belljar_archive::TraceWriter;
use belljar_collectives::Tables;
use belljar_program::{Algorithms, extract};
use belljar_replay::{calibrate, replay};
use belljar_sim::Frequency;
use belljar_trace::TraceSummary;
use setting::{setting, topology};

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

    let clock = Frequency::from_hz(1_000_000_000).expect("a frequency");
    let setting = setting(model, topology("fat-tree", stencil.ranks()), clock);
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
