//! Importing exports and archives of another tool: the same calls, messages and times.

use std::fs;
use std::path::Path;

use belljar_analysis::generated::Stencil;
use belljar_archive::{TraceReader, TraceWriter};
use belljar_formats::{Format, ImportError, Imported, Rates, Source, import, otf2};
use belljar_trace::{Event, TraceState, TraceSummary};

const RATES: Rates = Rates {
    flops_per_second: Some(1e9),
};

const STENCIL: Stencil = Stencil {
    width: 3,
    height: 2,
    steps: 5,
    rounds: 2,
    report: 2,
};

fn imported(path: &Path, out: &Path) -> Result<Imported, ImportError> {
    import(path, None, RATES, out, "imported")
}

/// Returns the calls that programs made, by rank.
fn calls(path: &Path) -> Vec<Event> {
    let mut reader = TraceReader::open(path).expect("a trace");
    let mut calls: Vec<Event> = reader.by_ref().filter(|event| event.depth == 0).collect();
    assert_eq!(*reader.state(), TraceState::Complete);
    calls.sort_by_key(|event| (event.rank, event.entry));
    calls
}

/// Returns the parts of a call that a format keeps, with times relative to the first one.
fn kept(event: &Event, start: u64) -> String {
    let messages = event
        .transfers
        .iter()
        .map(|it| (it.direction, it.phase, it.peer, it.tag, it.bytes));
    let parts = event.collectives.iter().map(|it| {
        let amounts = [&it.sent, &it.received];
        (
            it.phase,
            it.root,
            amounts.map(|amount| (amount.bytes, amount.who, amount.share)),
        )
    });
    format!(
        "{} {} {} {:?} {:?} {:?} {} {}",
        event.rank,
        event.node,
        event.name(),
        event.exit.map(|exit| exit - start),
        messages.collect::<Vec<_>>(),
        parts.collect::<Vec<_>>(),
        event.started.len(),
        event.completed.len()
    )
}

fn all_kept(calls: &[Event]) -> Vec<String> {
    let start = calls.iter().map(|event| event.entry).min().unwrap_or(0);
    calls.iter().map(|event| kept(event, start)).collect()
}

#[test]
fn an_exported_archive_is_imported_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.bjt");
    let mut writer = TraceWriter::create(&trace, &STENCIL.header(), false).expect("a file");
    for event in STENCIL.events() {
        writer.push(event).expect("it is written");
    }
    writer
        .finish(&TraceSummary::default())
        .expect("it is written");
    let archive = folder.path().join("archive");
    let mut source = Source::open(&trace).expect("a trace");
    otf2::write(&mut source, &archive).expect("it is written");

    let again = folder.path().join("again.bjt");
    let told = imported(&archive.join("traces.otf2"), &again).expect("it is sound");
    assert_eq!(told.format, Format::Otf2);
    assert_eq!(
        (told.nodes, told.processes, told.calls),
        (6, 6, STENCIL.calls())
    );
    let (before, after) = (calls(&trace), calls(&again));
    let (before, after) = (all_kept(&before), all_kept(&after));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    assert_eq!(before.len(), after.len());
    // The folder alone suffices.
    imported(&archive, &folder.path().join("third.bjt")).expect("it is sound");
}

/// The archive in `tests/archive`, which `make.py` there created with the library of Score-P.
#[test]
fn an_archive_of_another_writer_is_imported() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("trace.bjt");
    let anchor = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/archive/ring.otf2");
    let told = imported(&anchor, &out).expect("it is sound");
    assert_eq!((told.nodes, told.processes, told.calls), (2, 3, 26));
    let own = told.notes.iter().any(|note| note.starts_with("3 visits"));
    assert!(own, "{:?}", told.notes);
    let calls = calls(&out);
    let named = |rank, name: &str| {
        let mut calls = calls.iter();
        let found = calls.find(|event| event.rank == rank && event.name() == name);
        found.expect("it was called")
    };
    // A begun receive gets its message at its completion.
    let receive = &named(1, "MPI_Irecv").transfers[0];
    assert_eq!(receive.peer, belljar_trace::Peer::Rank(0));
    assert_eq!((receive.tag, receive.bytes), (Some(9), 4096));
    let reduced = &named(0, "MPI_Allreduce").collectives[0];
    assert_eq!(reduced.sent.bytes, Some(8));
    for rank in 0..3 {
        let sent = &named(rank, "MPI_Bcast").collectives[0];
        assert_eq!(sent.sent.bytes, Some(64), "rank {rank}");
    }
    // Ticks are microseconds, from the first event on.
    assert_eq!(
        (named(0, "MPI_Init").entry, told.end_ps),
        (100, 1_219_000_000)
    );
    // The communicator of ranks 2 and 0 is known to both.
    let communicators = belljar_job::communicators(&out).expect("a trace");
    let send = named(2, "MPI_Send");
    let process = (send.node, send.process);
    let number = send.communicator.expect("it is known");
    let other = communicators.peer(process, number, send.transfers[0].peer);
    assert_eq!(other.map(|member| member.rank), Some(0));
    assert_eq!(
        communicators.members(process, number).map(|it| it.len()),
        Some(2)
    );
}

/// Copies the archive of `tests/archive` into a folder.
fn copied(folder: &Path) {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/archive");
    fs::create_dir(folder.join("ring")).expect("a folder");
    let files = (0..3).flat_map(|it| ["def", "evt"].map(|end| format!("ring/{it}.{end}")));
    let files = files.chain(["ring.otf2", "ring.def"].map(str::to_owned));
    for name in files {
        fs::copy(own.join(&name), folder.join(&name)).expect("it is copied");
    }
}

#[test]
fn files_that_are_missing_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    copied(folder.path());
    let anchor = folder.path().join("ring.otf2");
    let out = folder.path().join("out.bjt");
    let noted = |wanted: &str| {
        let imported = imported(&anchor, &out).expect("it is sound");
        let there = imported.notes.iter().any(|note| note.contains(wanted));
        assert!(there, "{:?}", imported.notes);
    };
    fs::remove_file(folder.path().join("ring/1.def")).expect("it is there");
    noted("the definitions of location 1 are missing (1.def)");
    // Without its end, the file has its first chunk with some events.
    let events = folder.path().join("ring/2.evt");
    let bytes = fs::read(&events).expect("it is there");
    fs::write(&events, &bytes[..18]).expect("it is written");
    noted("location 2 has 0 of the ");
    fs::remove_file(&events).expect("it is there");
    let error = imported(&anchor, &out)
        .expect_err("it is refused")
        .to_string();
    assert!(error.contains("ring/2.evt"), "{error}");
}

/// Truncates and changes bytes of an archive's files: the result is an answer or an error, and no panic.
#[test]
fn damaged_archives_are_refused_or_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/archive");
    let copy = folder.path().join("ring");
    fs::create_dir(&copy).expect("a folder");
    let names = ["ring.otf2", "ring.def", "ring/0.evt", "ring/0.def"];
    let all = ["ring/1.def", "ring/1.evt", "ring/2.def", "ring/2.evt"];
    for name in names.iter().chain(&all) {
        fs::copy(own.join(name), folder.path().join(name)).expect("it is copied");
    }
    let out = folder.path().join("out.bjt");
    let mut refused = 0;
    for name in names {
        let path = folder.path().join(name);
        let sound = fs::read(own.join(name)).expect("it is there");
        for at in 0..sound.len() {
            let mut changed = sound.clone();
            changed[at] ^= 0xff;
            for bytes in [&changed[..], &sound[..at]] {
                fs::write(&path, bytes).expect("it is written");
                refused += u32::from(imported(&folder.path().join("ring.otf2"), &out).is_err());
            }
        }
        fs::write(&path, sound).expect("it is written");
    }
    assert!(refused > 400, "{refused} are refused");
}
