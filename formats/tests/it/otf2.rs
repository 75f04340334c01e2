//! Archives as read by the library's own reader.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use belljar_archive::TraceReader;
use belljar_formats::{LeftOut, Source, otf2};

/// Exports the trace at `trace` and reads it. Prints the reason and returns `None` if there is no reader.
fn read(trace: &Path, folder: &Path) -> Option<(String, String, LeftOut)> {
    let mut source = Source::open(trace).expect("a trace");
    let out = folder.join("otf2");
    otf2::write(&mut source, &out).expect("it is written");
    let anchor = out.join("traces.otf2");
    let print = |arguments: &[&str]| {
        let ended = Command::new("otf2-print")
            .args(arguments)
            .arg(&anchor)
            .output();
        match ended {
            Ok(ended) => {
                let told = String::from_utf8_lossy(&ended.stderr);
                assert!(ended.status.success() && told.is_empty(), "{told}");
                Some(String::from_utf8_lossy(&ended.stdout).into_owned())
            }
            Err(error) => {
                eprintln!(
                    "SKIPPED: otf2-print cannot be run ({error}); Debian's otf2-tools has it"
                );
                None
            }
        }
    };
    Some((print(&["-G"])?, print(&[])?, *source.left_out()))
}

/// Returns the printed events: kind, location, time, attributes.
fn events(text: &str) -> impl Iterator<Item = (&str, u64, u64, &str)> {
    text.lines().filter_map(|line| {
        let (kind, rest) = line.split_once(' ')?;
        let (location, rest) = rest.trim_start().split_once(' ')?;
        let rest = rest.trim_start();
        let (time, attributes) = rest.split_once(' ').unwrap_or((rest, ""));
        let (location, time) = (location.parse().ok()?, time.parse().ok()?);
        Some((kind, location, time, attributes.trim()))
    })
}

/// The anchor names the modelled processor, for OTF2's own reader and for the import.
#[test]
fn an_archive_has_the_modelled_processor_as_a_property() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = crate::program::small_on(folder.path(), "zen5 (01)");
    let mut source = Source::open(&trace).expect("a trace");
    let out = folder.path().join("otf2");
    otf2::write(&mut source, &out).expect("it is written");
    let anchor = std::fs::read(out.join("traces.otf2")).expect("an anchor");
    let property = b"\x01\0\0\0BELLJAR::PROCESSORS\0zen5 (01)\0";
    assert!(anchor.windows(property.len()).any(|part| part == property));
    let plain = crate::program::small(folder.path());
    let mut source = Source::open(&plain).expect("a trace");
    let out = folder.path().join("plain");
    otf2::write(&mut source, &out).expect("it is written");
    let anchor = std::fs::read(out.join("traces.otf2")).expect("an anchor");
    assert!(!anchor.windows(7).any(|part| part == b"BELLJAR"));
}

#[test]
fn all_kinds_of_records_are_as_the_calls_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = crate::program::small(folder.path());
    let Some((definitions, text, left_out)) = read(&trace, folder.path()) else {
        return;
    };
    assert!(
        definitions.contains("Ticks per Seconds: 2000000000, Global Offset: 100, Length: 3000")
    );
    // The site of the first message: a frame within its caller's.
    let site = "(\"call site\" <0>; CALLING_CONTEXT; \"small+0x1234";
    assert_eq!(text.matches("ADDITIONAL ATTRIBUTES").count(), 1);
    assert!(text.contains(site), "{text}");
    let caller = definitions
        .lines()
        .find(|it| it.starts_with("CALLING_CONTEXT "));
    assert!(caller.is_some_and(|it| it.contains("\"0x7000\"") && it.contains("Parent: UNDEFINED")));
    let rank = |own| {
        let own = events(&text).filter(move |(_, location, ..)| *location == own);
        let own = own.filter(|(kind, ..)| !["ENTER", "LEAVE"].contains(kind));
        own.map(|(kind, _, time, attributes)| format!("{time} {kind} {attributes}"))
    };
    let world = "Communicator: \"MPI_COMM_WORLD\" <0>";
    let other = |other| format!("{other} (\"main thread\" <{other}>), {world}");
    let (one, zero) = (other(1), other(0));
    let window = "Window: \"window 0\" <0>";
    let expected = [
        format!("300 MPI_SEND Receiver: {one}, Tag: 5, Length: 1000"),
        "420 MPI_IRECV_REQUEST Request: 1".to_owned(),
        "450 MPI_REQUEST_CANCELLED Request: 1".to_owned(),
        "1000 MPI_COLLECTIVE_BEGIN ".to_owned(),
        format!(
            "1100 MPI_COLLECTIVE_END Operation: BCAST, {world}, Root: 0 (\"main thread\" <0>), Sent: 64, Received: 0"
        ),
        format!("2100 RMA_WIN_CREATE {window}"),
        format!("2200 RMA_PUT {window}, Remote: 1 (\"main thread\" <1>), Bytes: 1000, Matching: 1"),
        format!("2400 RMA_WIN_DESTROY {window}"),
    ];
    assert_eq!(rank(0).collect::<Vec<_>>(), expected);
    let expected = [
        "300 MPI_IRECV_REQUEST Request: 1".to_owned(),
        format!("370 MPI_ISEND Receiver: {zero}, Tag: 6, Length: 1000, Request: 2"),
        format!("400 MPI_IRECV Sender: {zero}, Tag: 5, Length: 1000, Request: 1"),
        "400 MPI_ISEND_COMPLETE Request: 2".to_owned(),
        "1000 NON_BLOCKING_COLLECTIVE_REQUEST Request: 3".to_owned(),
        format!(
            "1300 NON_BLOCKING_COLLECTIVE_COMPLETE Operation: BCAST, {world}, Root: 0 (\"main thread\" <0>), Sent: 0, Received: 64, Request: 3"
        ),
        format!("2100 RMA_WIN_CREATE {window}"),
        format!("2400 RMA_WIN_DESTROY {window}"),
    ];
    assert_eq!(rank(1).collect::<Vec<_>>(), expected);
    let expected = LeftOut {
        unreturned: 1,
        untold: 1,
        ..LeftOut::default()
    };
    assert_eq!(left_out, expected);
}

#[test]
fn calls_times_bytes_and_matching_are_those_of_the_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    // Long enough for several chunks of each rank.
    let trace = crate::program::stencil(folder.path(), 4000);
    let Some((_, text, _)) = read(&trace, folder.path()) else {
        return;
    };
    let bytes = std::fs::metadata(folder.path().join("otf2/traces/1.evt"));
    assert!(bytes.expect("a file").len() > 1 << 20);
    let mut calls: Vec<(u64, u64, String)> = Vec::new();
    for event in TraceReader::open(&trace).expect("a trace") {
        let rank = u64::from(event.rank);
        let name = event.name();
        calls.push((rank, event.entry, format!("ENTER {name}")));
        calls.push((
            rank,
            event.exit.expect("it returned"),
            format!("LEAVE {name}"),
        ));
    }
    let mut read: Vec<(u64, u64, String)> = Vec::new();
    let mut flying: BTreeMap<(u64, u64), i64> = BTreeMap::new();
    let (mut moved, mut messages) = (0, 0);
    for (kind, location, time, attributes) in events(&text) {
        let number = |after: &str| -> u64 {
            let rest = attributes.split(after).nth(1).expect("an attribute");
            let end = rest.find(|c: char| !c.is_ascii_digit());
            rest[..end.unwrap_or(rest.len())].parse().expect("a number")
        };
        match kind {
            "ENTER" | "LEAVE" => {
                let name = attributes.split('"').nth(1).expect("a name");
                read.push((location, time, format!("{kind} {name}")));
            }
            "MPI_ISEND" => {
                *flying.entry((location, number("Receiver: "))).or_default() += 1;
                moved += number("Length: ");
                messages += 1;
            }
            "MPI_IRECV" => *flying.entry((number("Sender: "), location)).or_default() -= 1,
            _ => {}
        }
    }
    calls.sort();
    read.sort();
    assert!(calls == read, "{} calls, {} read", calls.len(), read.len());
    assert!(flying.values().all(|count| *count == 0), "{flying:?}");
    assert_eq!((messages, moved), (4000 * 14, 4000 * 14 * 8192));
}

/// Prints the messages of an archive: the numbers sent and received, their bytes, and the communicators.
const READ: &str = r#"
import sys, otf2
sent, received, moved = 0, 0, 0
with otf2.reader.open(sys.argv[1]) as trace:
    for location, event in trace.events:
        kind = type(event).__name__
        sent += kind == 'MpiIsend'
        received += kind == 'MpiIrecv'
        moved += event.msg_length if kind == 'MpiIsend' else 0
    print(sent, received, moved, [it.name for it in trace.definitions.comms])
"#;

#[test]
fn the_library_for_python_reads_the_same_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = crate::program::stencil(folder.path(), 30);
    let mut source = Source::open(&trace).expect("a trace");
    let out = folder.path().join("otf2");
    otf2::write(&mut source, &out).expect("it is written");
    let python = std::env::var("BELLJAR_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let run = |script: &str| {
        let mut command = Command::new(&python);
        let command = command.args(["-c", script]).arg(out.join("traces.otf2"));
        command.output().expect("Python can be run")
    };
    if !run("import otf2").status.success() {
        eprintln!(
            "SKIPPED: {python} has no module otf2; PyPI has it (BELLJAR_PYTHON names another Python)"
        );
        return;
    }
    let ended = run(READ);
    let told = String::from_utf8_lossy(&ended.stdout);
    let expected = format!("420 420 {} ['MPI_COMM_WORLD']\n", 420 * 8192);
    assert_eq!(told, expected, "{}", String::from_utf8_lossy(&ended.stderr));
}
