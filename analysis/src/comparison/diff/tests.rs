//! Traces of ranks with equal calls, with equal calls at other times, and with different calls.

use std::path::PathBuf;

use belljar_archive::TraceWriter;
use belljar_trace::TraceSummary;

use super::{Both, FrameNames, TraceDiff, diff};
use crate::ranks::{ANY, BUFFER, BYTE, Ranks, Trace, WORLD};
use belljar_tracer::scripted::int;

/// Two ranks: one computes for some time, reads the clock a number of times, and sends a message with the tag.
fn program(computes: u64, asks: u64, tag: u32) -> Trace {
    let mut ranks = Ranks::new(2);
    ranks.call(0, 1000, 2000, "MPI_Barrier", &[WORLD]);
    ranks.call(1, 1200, 2000, "MPI_Barrier", &[WORLD]);
    let mut now = 2000 + computes;
    for _ in 0..asks {
        ranks.call(0, now, now + 200, "MPI_Wtime", &[]);
        now += 300;
    }
    ranks.send(0, (now, now + 500), 1, tag);
    ranks.receive(1, (2100, now + 1500), ANY, 0, tag);
    ranks.trace()
}

fn file(folder: &tempfile::TempDir, name: &str, trace: &Trace) -> PathBuf {
    let path = folder.path().join(name);
    let mut writer = TraceWriter::create(&path, &trace.header, false).unwrap();
    for event in &trace.events {
        writer.push(event.clone()).unwrap();
    }
    writer.finish(&TraceSummary::default()).unwrap();
    path
}

fn compared(a: &Trace, b: &Trace) -> TraceDiff {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (file(&folder, "a", a), file(&folder, "b", b));
    diff(&a, &b, false, unnamed()).unwrap().0
}

fn unnamed<'f>() -> [FrameNames<'f>; 2] {
    [(); 2].map(|()| FrameNames::new(|_, _| Vec::new()))
}

fn text(diff: &TraceDiff) -> String {
    let mut out = Vec::new();
    diff.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_trace_equals_itself() {
    let found = compared(&program(5000, 3, 7), &program(5000, 3, 7));
    assert!(found.equal && found.same_structure, "{found:?}");
    assert_eq!(
        text(&found),
        "Equal: 4 calls of 2 ranks, at the same cycles.\n"
    );
}

#[test]
fn runs_of_different_processors_are_warned_of() {
    let with = |names: &[&str], barrier| {
        let mut trace = program(barrier, 3, 7);
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        trace.header = trace.header.with_processors(&names);
        trace
    };
    let same = compared(&with(&["zen5 (01)"], 5000), &with(&["zen5 (01)"], 9000));
    assert_eq!(same.processors, None);
    assert!(!text(&same).contains("Warning"), "{}", text(&same));
    let found = compared(&with(&["zen5 (01)"], 5000), &with(&[], 9000));
    assert!(
        text(&found).contains(
            "Warning: the runs model different processors (zen5 (01) and no processor), so times between MPI calls"
        ),
        "{}",
        text(&found)
    );
}

#[test]
fn a_program_that_waits_longer_does_the_same() {
    let found = compared(&program(5000, 3, 7), &program(9000, 5, 7));
    assert!(!found.equal && found.same_structure, "{found:?}");
    let sender = &found.ranks[0];
    assert!(sender.parts.is_none(), "{sender:?}");
    let shift = sender.shifts.as_ref().unwrap();
    assert_eq!(
        (shift.thread, shift.after),
        (0, 1),
        "the message, after the barrier"
    );
    assert!(shift.a.as_ref().unwrap().contains("MPI_Send("), "{shift:?}");
    let ask = found
        .functions
        .iter()
        .find(|own| own.function == "MPI_Wtime")
        .unwrap();
    assert_eq!(ask.calls, Both { a: 3, b: 5 });
    let late = found
        .waiting
        .iter()
        .find(|own| own.kind.name() == "late sender")
        .unwrap();
    // 4,000 cycles of computing and two clock readings of 300 later, at a nanosecond each.
    assert_eq!(late.waiting_ps.b - late.waiting_ps.a, 4_600_000);
    assert!(
        text(&found).contains("the same: 4 calls, at other times"),
        "{}",
        text(&found)
    );
}

#[test]
fn the_first_other_call_is_told_of_each_rank() {
    let found = compared(&program(5000, 3, 7), &program(5000, 3, 8));
    assert!(!found.same_structure);
    for (rank, function) in found.ranks.iter().zip(["MPI_Send", "MPI_Recv"]) {
        let call = rank.parts.as_ref().unwrap();
        assert_eq!(call.after, 1);
        for line in [&call.a, &call.b] {
            assert!(line.as_ref().unwrap().contains(function), "{call:?}");
        }
    }
    assert!(text(&found).contains("tag=8"), "{}", text(&found));
}

#[test]
fn a_program_that_makes_more_calls_parts_at_its_end() {
    let mut ranks = Ranks::new(2);
    for rank in 0..2 {
        ranks.call(rank, 1000, 2000, "MPI_Barrier", &[WORLD]);
    }
    let short = ranks.trace();
    let mut ranks = Ranks::new(2);
    for rank in 0..2 {
        ranks.call(rank, 1000, 2000, "MPI_Barrier", &[WORLD]);
    }
    let arguments = [BUFFER, int(4), BYTE, int(0), WORLD];
    ranks.call(1, 3000, 3500, "MPI_Bcast", &arguments);
    let found = compared(&short, &ranks.trace());
    assert!(found.ranks[0].parts.is_none());
    let call = found.ranks[1].parts.as_ref().unwrap();
    assert_eq!((call.after, call.a.as_ref()), (1, None));
    assert!(call.b.as_ref().unwrap().contains("MPI_Bcast"), "{call:?}");
}
