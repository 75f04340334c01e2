//! Files of each version as they were written once: what is in them is read by every Belljar to come.
//!
//! `BELLJAR_BLESS=1` writes the file of the current version again, after a change of the format on purpose;
//! those of earlier versions stay.

mod events;

use std::fs;
use std::path::PathBuf;

use belljar_archive::{TraceReader, TraceWriter, version};
use belljar_sim::Frequency;
use belljar_trace::{
    Account, Accounts, Counters, Event, NodeSummary, TraceHeader, TraceState, TraceSummary, VERSION,
};

use crate::events::{all_kinds, ring};

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

fn calls(accounted: bool) -> Vec<Event> {
    let sums = |number: u64| Account {
        instructions: number * 900,
        caches: number * number,
        memory: u64::MAX - number,
        idle: 7 * number,
    };
    let calls = (0..40).map(all_kinds).chain(ring(4, 5)).zip(0..);
    let calls = calls.map(|(call, number)| Event {
        accounts: Accounts(accounted.then(|| [sums(number), sums(number + 1)])),
        ..call
    });
    calls.collect()
}

fn has(name: &str, as_version: u16, accounted: bool) {
    let path = golden(name);
    assert_eq!(version(&path).unwrap(), as_version);
    let mut reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.is_accounted(), accounted);
    assert!(reader.by_ref().eq(calls(accounted)), "{name}");
    assert_eq!(*reader.state(), TraceState::Complete);
    assert_eq!(reader.summary(), Some(&summary()));
}

#[test]
fn version_5_is_read() {
    has("version-5.bjt", 5, false);
}

#[test]
fn version_6_is_read() {
    has("version-6.bjt", 6, true);
}

/// The file of the current version, in three chunks of calls.
fn written(accounted: bool) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.bjt");
    let mut writer = TraceWriter::create(&path, &header(), accounted).unwrap();
    for (number, call) in calls(accounted).into_iter().enumerate() {
        writer.push(call).unwrap();
        if number == 20 || number == 60 {
            writer.flush().unwrap();
        }
    }
    writer.finish(&summary()).unwrap();
    fs::read(&path).unwrap()
}

#[test]
fn version_7_is_written_and_read() {
    assert_eq!(VERSION, 7);
    for (name, accounted) in [("version-7.bjt", false), ("version-7-accounts.bjt", true)] {
        let bytes = written(accounted);
        if std::env::var_os("BELLJAR_BLESS").is_some() {
            fs::write(golden(name), &bytes).unwrap();
        }
        has(name, VERSION, accounted);
        let same = fs::read(golden(name)).unwrap() == bytes;
        assert!(same, "the format changed: {name} is written otherwise");
    }
}
