//! Random jobs that use MPI correctly have no findings on order, matching and data; one changed argument has.

use std::path::Path;

use belljar_analysis::{FindingKind, MpiCheck, RunFacts, Severity, check as check_mpi};
use belljar_archive::{TraceReader, TraceWriter};
use belljar_conformance::{Kinds, check};
use belljar_mpi::{CallKind, Operation};
use belljar_trace::{Event, Peer, TraceSummary};

const SEEDS: u64 = 60;

/// The kinds of errors that the generator's jobs may have: their buffers are one, and not all of their requests are complete.
fn is_of_generator(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::BufferConflict
            | FindingKind::WindowConflict
            | FindingKind::InvalidBuffer
            | FindingKind::PendingRequest
    )
}

/// Kinds of correct jobs that end.
fn correct() -> Kinds {
    Kinds {
        unfinished_messages: false,
        unfinished_collectives: false,
        failures: false,
        cancels: false,
        ..Kinds::ALL
    }
}

fn found(trace: &Path) -> MpiCheck {
    check_mpi(trace, &RunFacts::default(), None)
        .expect("a trace")
        .0
}

/// Writes the events of a trace with a change to the first event that `change` takes; false if it takes none.
fn changed(trace: &Path, out: &Path, mut change: impl FnMut(&mut Event) -> bool) -> bool {
    let mut reader = TraceReader::open(trace).expect("a trace");
    let header = reader.header().clone();
    let mut writer = TraceWriter::create(out, &header, false).expect("a file");
    let mut is_changed = false;
    for mut event in reader.by_ref() {
        is_changed = is_changed || change(&mut event);
        writer.push(event).expect("it is written");
    }
    let summary = TraceSummary::default();
    writer.finish(&summary).expect("it is written");
    is_changed
}

/// The index of an argument.
fn place(event: &Event, name: &str) -> Option<usize> {
    let mut parameters = event.description().parameters.iter();
    parameters.position(|parameter| parameter.name == name)
}

#[test]
fn correct_jobs_have_no_findings_and_changed_ones_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut sends, mut roots) = (0, 0);
    for seed in 0..SEEDS {
        check(seed, &correct(), folder.path()).expect("the trace can be read");
        let trace = folder.path().join(format!("{seed}.bjt"));
        let findings = found(&trace).findings;
        let mut errors = findings
            .iter()
            .filter(|own| own.severity == Severity::Error);
        let wrong = errors.find(|finding| !is_of_generator(finding.kind));
        assert_eq!(wrong, None, "seed {seed}");

        let out = folder.path().join("changed.bjt");
        let has = |kind: FindingKind| {
            let findings = found(&out).findings;
            findings.iter().any(|finding| finding.kind == kind)
        };
        let tag = |event: &mut Event| {
            let is_send = matches!(event.meaning().kind, CallKind::Send(_)) && event.depth == 0;
            let mut sent = event.transfers.iter_mut();
            match sent.next().filter(|own| is_send && own.bytes > 0) {
                Some(sent) => {
                    sent.tag = sent.tag.map(|tag| tag.wrapping_add(1000));
                    true
                }
                None => false,
            }
        };
        if changed(&trace, &out, tag) {
            sends += usize::from(has(FindingKind::LostMessage));
        }
        let root = |event: &mut Event| {
            let is_root = event.meaning().kind == CallKind::Collective(Operation::Broadcast);
            let at = place(event, "root").filter(|_| is_root && event.depth == 0);
            if let (Some(at), Some(collective)) = (at, event.collectives.first_mut()) {
                event.arguments[at] = 1_000_000;
                collective.root = Some(Peer::Rank(1_000_000));
            }
            at.is_some()
        };
        if changed(&trace, &out, root) {
            roots += usize::from(has(FindingKind::RootMismatch) || has(FindingKind::InvalidRoot));
        }
    }
    assert!(sends > 20, "{sends} changed tags were found");
    assert!(roots > 5, "{roots} changed roots were found");
}
