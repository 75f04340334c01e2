//! Files of each version as they once were written, which all later versions of Belljar must read.
//!
//! `BELLJAR_BLESS=1` rewrites the file of the current version, after an intended change of the format; files of earlier
//! versions stay.

use std::fs::{self, File};
use std::path::PathBuf;

use belljar_archive::{Contents, TraceReader, TraceWriter, version};
use belljar_mpi::{Access, Operation, SendMode};
use belljar_sim::Frequency;
use belljar_trace::{
    Account, Accounts, Bounds, Counters, Datatype, Detailed, Details, Event, Folded, NodeSummary,
    Polls, TraceHeader, TraceState, TraceSummary, TransferKind, UNCOUNTED_VERSION,
    UNEXPLAINED_VERSION, UNGROUPED_VERSION, VERSION,
};

use crate::events::{all_kinds, ring, site};

fn golden(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.join("tests/golden").join(name)
}

fn header() -> TraceHeader {
    let rate = |hz| Frequency::from_hz(hz).unwrap();
    TraceHeader::new("golden", &[rate(2_600_000_000), rate(1_000_000_000)])
}

fn summary() -> TraceSummary {
    TraceSummary {
        nodes: vec![NodeSummary {
            node: 1,
            end: 99,
            processes: Vec::new(),
            counters: Counters::default(),
        }],
        ending: "well".to_owned(),
    }
}

fn calls(contents: Contents) -> Vec<Event> {
    let sums = |number: u64| Account {
        instructions: number * 900,
        caches: number * number,
        memory: u64::MAX - number,
        idle: 7 * number,
    };
    let calls = (0..40).map(all_kinds).chain(ring(4, 5)).zip(0..);
    let calls = calls.map(|(call, number)| Event {
        accounts: Accounts((contents.accounted).then(|| [sums(number), sums(number + 1)])),
        site: site(if contents.frames > 0 { number } else { 0 }),
        ..call
    });
    calls.collect()
}

/// The calls, some with windows and displacements.
fn detailed(contents: Contents) -> Vec<Event> {
    let mut calls = calls(contents);
    for (number, call) in calls.iter_mut().enumerate().filter(|it| it.0 % 3 == 0) {
        call.details = Detailed::of(Details {
            window: Some(number as u32),
            target_datatype: Some(Datatype::Predefined(3)),
            send_displacements: vec![-8, number as i64],
            receive_displacements: vec![i64::MAX; number % 5],
            ..Details::default()
        });
    }
    calls
}

/// An event as an earlier version yields it: operations, modes and kinds follow from its function.
fn by_function(mut call: Event) -> Event {
    let meaning = call.meaning();
    for transfer in &mut call.transfers {
        transfer.kind = TransferKind::of(meaning);
    }
    for collective in &mut call.collectives {
        collective.operation = meaning.collective();
    }
    call
}

fn holds(name: &str, as_version: u16, contents: Contents, calls: Vec<Event>) {
    let path = golden(name);
    assert_eq!(version(&path).unwrap(), as_version);
    let mut reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.contents(), contents);
    let calls = calls.into_iter().map(|call| match as_version {
        VERSION => call,
        _ => by_function(call),
    });
    assert!(reader.by_ref().eq(calls), "{name}");
    assert_eq!(*reader.state(), TraceState::Complete);
    assert_eq!(reader.summary(), Some(&summary()));
}

fn contents(accounted: bool, frames: u8) -> Contents {
    Contents { accounted, frames }
}

/// The file of the current version, in three chunks of calls.
fn written(calls: Vec<Event>, contents: Contents) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.bjt");
    let file = File::create(&path).unwrap();
    let mut writer = TraceWriter::over(file, &path, &header(), contents).unwrap();
    for (number, call) in calls.into_iter().enumerate() {
        writer.push(call).unwrap();
        if number == 20 || number == 60 {
            writer.flush().unwrap();
        }
    }
    writer.finish(&summary()).unwrap();
    fs::read(&path).unwrap()
}

/// The same, with some records that stand for several calls.
fn folded(contents: Contents) -> Vec<Event> {
    let mut calls = detailed(contents);
    for (number, call) in calls.iter_mut().enumerate().filter(|it| it.0 % 4 == 1) {
        let mut polls = Polls::one(number as u64, Account::default(), 0);
        polls.calls = 2 + (number as u64 % 7) * 1000;
        (polls.inside, polls.longest) = (u64::MAX - polls.calls, 90);
        if contents.accounted {
            polls.account.memory = polls.calls * 3;
        }
        call.folded = Folded(Some(Box::new(polls)));
    }
    calls
}

/// The same, some with bounds of datatypes.
fn bounded(contents: Contents) -> Vec<Event> {
    let mut calls = folded(contents);
    for (number, call) in calls.iter_mut().enumerate().filter(|it| it.0 % 5 == 2) {
        call.details = Detailed::of(Details {
            bounds: Some(Bounds {
                lower: -(number as i64),
                extent: 1 << (number % 60),
            }),
            ..Details::default()
        });
    }
    calls
}

/// The same, some with groups of epochs and partitioned requests.
fn grouped(contents: Contents) -> Vec<Event> {
    let mut calls = bounded(contents);
    for (number, call) in calls.iter_mut().enumerate().filter(|it| it.0 % 5 == 3) {
        call.details = Detailed::of(Details {
            group: (number % 2 == 0).then_some(number as u32),
            partitioned: vec![None, Some(number as u32)],
            over: number % 3 == 1,
            ..Details::default()
        });
    }
    calls
}

/// The same with the additions of version 14: operations, modes, kinds of accesses, observed statuses and persistent requests.
fn explained(contents: Contents) -> Vec<Event> {
    let mut calls = grouped(contents);
    let modes = [SendMode::Synchronous, SendMode::Buffered, SendMode::Ready];
    for (number, call) in calls.iter_mut().enumerate() {
        for transfer in &mut call.transfers {
            transfer.kind = match number % 4 {
                3 => TransferKind::Access(Access::FetchAndOp),
                mode => TransferKind::Message(modes[mode]),
            };
        }
        for collective in &mut call.collectives {
            collective.operation = Some(Operation::ALL[number % Operation::ALL.len()]);
        }
        for status in call.status.iter_mut() {
            status.observed = number % 2 == 0;
        }
        if number % 7 == 4 {
            let details = call.details.0.get_or_insert_default();
            details.persistent = vec![number as u32, 0];
        }
    }
    calls
}

/// Checks that the current version's file of this name is written identically, and read.
fn is_as_it_was(name: &str, contents: Contents) {
    let bytes = written(explained(contents), contents);
    if std::env::var_os("BELLJAR_BLESS").is_some() {
        fs::write(golden(name), &bytes).unwrap();
    }
    holds(name, VERSION, contents, explained(contents));
    let same = fs::read(golden(name)).unwrap() == bytes;
    assert!(same, "the format changed: {name} is written otherwise");
}

#[test]
fn version_11_is_read() {
    for (name, contents) in [
        ("version-11.bjt", contents(false, 0)),
        ("version-11-sites.bjt", contents(true, 3)),
    ] {
        holds(name, UNCOUNTED_VERSION, contents, bounded(contents));
    }
}

#[test]
fn version_12_is_read() {
    for (name, contents) in [
        ("version-12.bjt", contents(false, 0)),
        ("version-12-sites.bjt", contents(true, 3)),
    ] {
        holds(name, UNGROUPED_VERSION, contents, bounded(contents));
    }
}

#[test]
fn version_13_is_read() {
    for (name, contents) in [
        ("version-13.bjt", contents(false, 0)),
        ("version-13-sites.bjt", contents(true, 3)),
    ] {
        holds(name, UNEXPLAINED_VERSION, contents, grouped(contents));
    }
}

#[test]
fn version_14_is_written_and_read() {
    assert_eq!(VERSION, 14);
    for (name, contents) in [
        ("version-14.bjt", contents(false, 0)),
        ("version-14-sites.bjt", contents(true, 3)),
    ] {
        is_as_it_was(name, contents);
    }
}
