//! Files of each version as they were written once: what is in them is read by every Belljar to come.
//!
//! `BELLJAR_BLESS=1` writes the file of the current version again, after a change of the format on purpose;
//! those of earlier versions stay.

mod events;

use std::fs::{self, File};
use std::path::PathBuf;

use belljar_archive::{Contents, TraceReader, TraceWriter, version};
use belljar_sim::Frequency;
use belljar_trace::{
    Account, Accounts, Counters, Event, NodeSummary, SITES_VERSION, TraceHeader, TraceState,
    TraceSummary, VERSION,
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

fn has(name: &str, as_version: u16, contents: Contents) {
    let path = golden(name);
    assert_eq!(version(&path).unwrap(), as_version);
    let mut reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.contents(), contents);
    assert!(reader.by_ref().eq(calls(contents)), "{name}");
    assert_eq!(*reader.state(), TraceState::Complete);
    assert_eq!(reader.summary(), Some(&summary()));
}

#[test]
fn version_5_is_read() {
    has("version-5.bjt", 5, contents(false, 0));
}

#[test]
fn version_6_is_read() {
    has("version-6.bjt", 6, contents(true, 0));
}

fn contents(accounted: bool, frames: u8) -> Contents {
    Contents { accounted, frames }
}

/// The file of the current version, in three chunks of calls.
fn written(contents: Contents) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.bjt");
    let file = File::create(&path).unwrap();
    let mut writer = TraceWriter::over(file, &path, &header(), contents).unwrap();
    for (number, call) in calls(contents).into_iter().enumerate() {
        writer.push(call).unwrap();
        if number == 20 || number == 60 {
            writer.flush().unwrap();
        }
    }
    writer.finish(&summary()).unwrap();
    fs::read(&path).unwrap()
}

/// That the current version's file of this name is written as it was, and read.
fn is_as_it_was(name: &str, as_version: u16, contents: Contents) {
    let bytes = written(contents);
    if std::env::var_os("BELLJAR_BLESS").is_some() {
        fs::write(golden(name), &bytes).unwrap();
    }
    has(name, as_version, contents);
    let same = fs::read(golden(name)).unwrap() == bytes;
    assert!(same, "the format changed: {name} is written otherwise");
}

#[test]
fn version_7_is_written_and_read() {
    assert_eq!(VERSION, 7);
    for (name, accounted) in [("version-7.bjt", false), ("version-7-accounts.bjt", true)] {
        is_as_it_was(name, VERSION, contents(accounted, 0));
    }
}

#[test]
fn version_8_is_written_and_read() {
    assert_eq!(SITES_VERSION, 8);
    is_as_it_was("version-8.bjt", SITES_VERSION, contents(true, 3));
}
