//! Costs of analyses: calls a second and peak memory, on a generated trace.
//!
//! `analyses ANALYSIS [CALLS [RANKS]]` generates a trace of about this many calls (100 million) of this many ranks (1,000), call by call, and analyses it. The rate
//! includes the generation, whose own rate `none` shows; for an analysis that reads a trace twice, it is generated twice. `path`, `sites`, `diff`, and `stat`, `graph`
//! and `loops` with the prefix `read-` or, without times, `count-`, read the trace from a file. The file is written before time and memory are measured; `write` shows
//! the cost of writing. A fourth argument names a file to keep, for the next analysis of as many calls.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it tells how long the host took"
)]

/// Analyses of a trace file.
mod file;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use belljar_analysis::generated::Stencil;
use belljar_analysis::{
    Detail, FlowCollector, GraphsOf, LoopFinder, StatCollector, TrafficCollector, TrafficOf,
    WaitCollector,
};
use belljar_collectives::Tables;
use belljar_job::Collector;

/// The algorithms of the program's collective operations.
const TABLES: &[u8] = br#"{
    "collective=allreduce": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
    "collective=reduce": {"algorithm=MPIR_Reduce_intra_binomial": {}}
}"#;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let analysis = arguments.next().unwrap_or_else(|| "graph".to_owned());
    let mut number = |otherwise: u64| {
        let text = arguments.next();
        text.map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (calls, ranks) = (number(100_000_000), number(1000) as u32);
    let mut stencil = Stencil {
        width: ranks.isqrt().max(1),
        height: (ranks / ranks.isqrt().max(1)).max(1),
        steps: 100,
        rounds: 5,
        report: 10,
    };
    stencil.steps = (calls * 100 / stencil.calls()).max(1);
    let path = arguments.next().map(PathBuf::from);
    let reads = file::ANALYSES.contains(&analysis.as_str());
    let kept = path.clone().unwrap_or_else(temporary);
    if reads && !kept.exists() {
        file::write(stencil, &kept).expect("the host stores a trace");
        // The peak memory is counted from here on (proc_pid_clear_refs(5)).
        fs::write("/proc/self/clear_refs", "5").expect("Linux");
    }
    let before = Instant::now();
    let told = match (reads, analysis.as_str()) {
        (true, _) => file::analysed(&analysis, &kept).expect("a trace"),
        (_, "write") => written(stencil, &kept),
        _ => analysed(&analysis, stencil),
    };
    let seconds = before.elapsed().as_secs_f64();
    let calls = stencil.calls();
    println!(
        "{analysis}: {calls} calls of {} ranks in {seconds:.1} s, {:.2} million calls/s, at most {}; {told}",
        stencil.ranks(),
        calls as f64 / seconds / 1e6,
        memory()
    );
    if path.is_none() {
        // Most analyses have no such file.
        let _ = fs::remove_file(kept);
    }
}

fn temporary() -> PathBuf {
    std::env::temp_dir().join(format!("analyses-{}.bjt", std::process::id()))
}

fn written(stencil: Stencil, path: &PathBuf) -> String {
    file::write(stencil, path).expect("the host stores a trace");
    let length = fs::metadata(path).map_or(0, |it| it.len());
    format!("{length} bytes")
}

fn analysed(analysis: &str, stencil: Stencil) -> String {
    let header = stencil.header();
    let events = || stencil.events();
    let communicators = || {
        let mut collector = Collector::new();
        for event in events() {
            collector.observe(&event, &header);
        }
        collector.resolve()
    };
    match analysis {
        "none" => format!("{} calls made", events().count()),
        "graph" => {
            let mut communicators = Collector::new();
            let mut flows = FlowCollector::new(Detail::Peer);
            for event in events() {
                communicators.observe(&event, &header);
                flows.observe(&event);
            }
            let graphs = flows.finish(&header, &communicators.resolve(), GraphsOf::Classes, true);
            format!("{} graphs", graphs.graphs.len())
        }
        "loops" => {
            let mut communicators = Collector::new();
            let mut finder = LoopFinder::new(Detail::Peer, false);
            for event in events() {
                communicators.observe(&event, &header);
                finder.observe(&event);
            }
            let communicators = communicators.resolve();
            let mut measure = finder.measure(&communicators);
            events().for_each(|event| measure.observe(&event));
            let loops = measure.finish(&header, &communicators);
            format!("{} classes", loops.classes.len())
        }
        "stat" => {
            let communicators = communicators();
            let mut collector = StatCollector::new(&header, &communicators);
            events().for_each(|event| collector.observe(&event));
            format!("{} functions", collector.finish(None).functions.len())
        }
        "wait" => {
            let communicators = communicators();
            let mut collector = WaitCollector::new(&header, &communicators);
            events().for_each(|event| collector.observe(&event, true));
            format!("{} messages", collector.finish().messages)
        }
        "matrix" | "messages" => {
            let communicators = communicators();
            let tables = Tables::parse(TABLES).expect("tables");
            let tables = (analysis == "messages").then_some(&tables);
            let of = TrafficOf::default();
            let mut collector = TrafficCollector::new(&header, &communicators, of, tables);
            events().for_each(|event| collector.observe(&event, true));
            format!("{} pairs", collector.finish().pairs.len())
        }
        other => {
            panic!(
                "{other} is no analysis: none, graph, loops, stat, wait, matrix, messages, write, path, sites, diff, or read- or count- and stat, graph or loops"
            )
        }
    }
}

/// Returns the peak memory of the process.
fn memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.map_or_else(
        || "an unknown amount of memory".to_owned(),
        |kilobytes| format!("{} MiB", kilobytes / 1024),
    )
}
