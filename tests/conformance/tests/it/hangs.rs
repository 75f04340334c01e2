//! Random jobs that end are not taken for stuck at any time before.

use std::path::Path;

use belljar_analysis::{HangVerdict, RankState, hang};
use belljar_archive::{TraceReader, TraceWriter};
use belljar_conformance::{Kinds, check};
use belljar_trace::{Event, TraceHeader, TraceSummary};

const SEEDS: u64 = 40;
/// Times of each job at which it is looked at.
const CUTS: u64 = 12;
/// Waiting calls are looked at as if they had lasted this much longer, in picoseconds.
const LATER_PS: u64 = 1_000_000_000_000;

/// The trace up to a time, with calls that have not returned by then.
fn cut(trace: &Path, end_ps: u64, out: &Path) {
    let mut reader = TraceReader::open(trace).expect("a trace");
    let header = reader.header().clone();
    let time = |header: &TraceHeader, event: &Event, cycles| {
        header.frequency(event.node).time_of(cycles).as_ps()
    };
    let mut writer = TraceWriter::create(out, &header, false).expect("a file");
    let mut open = Vec::new();
    for mut event in reader.by_ref() {
        if time(&header, &event, event.entry) > end_ps {
            continue;
        }
        let returned = event
            .exit
            .is_some_and(|exit| time(&header, &event, exit) <= end_ps);
        if returned {
            writer.push(event).expect("it is written");
            continue;
        }
        event.exit = None;
        event.result = None;
        event.status = None;
        event.completed.clear();
        open.push(event);
    }
    for event in open {
        writer.push(event).expect("it is written");
    }
    let summary = TraceSummary::default();
    writer.finish(&summary).expect("it is written");
}

fn last_ps(trace: &Path) -> u64 {
    let mut reader = TraceReader::open(trace).expect("a trace");
    let header = reader.header().clone();
    let times = reader.by_ref().map(|event| {
        let cycles = event.exit.unwrap_or(event.entry);
        header.frequency(event.node).time_of(cycles).as_ps()
    });
    times.max().unwrap_or(0)
}

#[test]
fn jobs_that_end_are_never_stuck() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut waiting = 0;
    for seed in 0..SEEDS {
        check(seed, &Kinds::ALL, folder.path()).expect("the trace can be read");
        let trace = folder.path().join(format!("{seed}.bjt"));
        let last = last_ps(&trace);
        for part in 1..CUTS {
            let end_ps = last / CUTS * part;
            let out = folder.path().join("cut.bjt");
            cut(&trace, end_ps, &out);
            let (found, _) = hang(&out, Some(end_ps + LATER_PS), &[], None).expect("a trace");
            let sentence = found.sentence();
            assert_eq!(
                found.verdict,
                HangVerdict::NotStuck,
                "seed {seed}, {end_ps} ps: {sentence:?}"
            );
            let in_calls = found
                .ranks
                .iter()
                .filter(|rank| rank.state == RankState::InCall);
            waiting += in_calls.filter(|rank| !rank.waits_for.is_empty()).count();
        }
    }
    assert!(waiting > 50, "only {waiting} calls waited for others");
}
