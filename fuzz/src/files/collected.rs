//! Selective collection of iterations: saved states of the collector, and the file that lists omitted iterations.
//!
//! The first byte selects one of both. A restored state continues with the calls of a small trace; a file is stored next to
//! that trace while statistics are computed. Called by name from `lib.rs`.

use std::path::Path;
use std::sync::LazyLock;

use belljar_analysis::{Filter, counts, statistics};
use belljar_archive::TraceReader;
use belljar_thinning::{COLLECTED_FILE, Collected, Collector};
use belljar_trace::{Event, TRACE_FILE};

const TRACE: &[u8] = include_bytes!("../../../trace/archive/tests/golden/version-13.bjt");

/// Number of repetitions of the trace's calls.
const TIMES: usize = 12;

/// A folder with the trace, and its calls.
fn calls() -> Vec<Event> {
    let folder = with_trace();
    let reader = TraceReader::open(&folder.path().join(TRACE_FILE));
    reader.expect("a sound trace").collect()
}

fn with_trace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("the host has a folder for files");
    let written = std::fs::write(folder.path().join(TRACE_FILE), TRACE);
    written.expect("the host stores a file");
    folder
}

static CALLS: LazyLock<Vec<Event>> = LazyLock::new(calls);

fn feed(collector: &mut Collector, calls: impl Iterator<Item = Event>) -> u64 {
    let mut kept = 0;
    for call in calls {
        let mut next = |_| {
            kept += 1;
            Ok::<_, ()>(())
        };
        let taken = collector.take(call, &mut next);
        taken.expect("counting does not fail");
    }
    kept
}

/// Continues from such a state, or reads such a file.
pub(crate) fn target(data: &[u8]) {
    match data.split_first() {
        Some((kind, rest)) if kind & 1 == 0 => load(rest),
        Some((_, rest)) => read(rest),
        None => {}
    }
}

fn load(saved: &[u8]) {
    let Ok(mut collector) = Collector::load(saved) else {
        return;
    };
    feed(&mut collector, CALLS.iter().cloned());
    let collected = collector.collected();
    let _ = (
        collected.calls(),
        collected.iterations(),
        collected.transitions(),
    );
    let again = collector.save().map(|saved| Collector::load(&saved));
    assert!(!matches!(again, Ok(Err(_))), "what was saved is not loaded");
}

fn read(text: &[u8]) {
    let Ok(collected) = Collected::parse(text) else {
        return;
    };
    let (kept, all) = collected.iterations();
    assert!(kept <= all, "more iterations than all");
    let folder = with_trace();
    let written = std::fs::write(folder.path().join(COLLECTED_FILE), text);
    written.expect("the host stores a file");
    tell(&folder.path().join(TRACE_FILE));
}

/// Computes statistics of the trace with omitted iterations, for all ranks and for one.
fn tell(trace: &Path) {
    let one = Filter {
        ranks: vec![0],
        ..Filter::default()
    };
    for filter in [Filter::default(), one] {
        for found in [statistics(trace, &filter), counts(trace, &filter)] {
            let (found, _) = found.expect("a sound trace");
            let mut out = Vec::new();
            let told = found
                .write(&mut out)
                .and_then(|()| found.write_json(&mut out));
            told.expect("memory takes everything");
        }
    }
}

/// States before, during and after the search for the loop, and the file of the last one.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut collector = Collector::new(2);
    let mut seeds = Vec::new();
    let mut save = |collector: &Collector| {
        let saved = collector.save().expect("a small state");
        seeds.push([&[0], &saved[..]].concat());
    };
    save(&collector);
    for _ in 0..TIMES {
        feed(&mut collector, CALLS.iter().cloned());
        save(&collector);
    }
    seeds.push([&[1], collector.collected().text().as_bytes()].concat());
    seeds
}
