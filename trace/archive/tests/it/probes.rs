//! The file of probe records: it reads back as written, ends at the first damage, and is byte-identical after a
//! continuation.

use std::fs::{self, File};
use std::path::Path;

use belljar_archive::{ProbesHeader, ProbesReader, ProbesWriter};
use belljar_sim::Frequency;
use belljar_trace::{
    Probe, ProbeAt, ProbePurpose, ProbeRecord, ProbeValue, ProbesEnd, TraceHeader, TraceState,
    ValueKind,
};

fn header() -> ProbesHeader {
    let gigahertz = Frequency::from_hz(1_000_000_000).unwrap();
    ProbesHeader {
        trace: TraceHeader::new("x", &[gigahertz; 2]),
        probes: vec![Probe {
            name: "work".to_owned(),
            file: "a.out".to_owned(),
            at: ProbeAt::Call,
            arguments: vec![ValueKind::Signed(4), ValueKind::Text],
            result: Some(ValueKind::Double),
            purpose: ProbePurpose::User,
        }],
    }
}

fn record(number: u64) -> ProbeRecord {
    ProbeRecord {
        probe: 0,
        node: (number % 2) as u32,
        vcpu: 0,
        task: 3,
        process: Some(0),
        thread: 1,
        rank: Some(1),
        program: "./a.out".into(),
        depth: 2,
        entry: 100 * number,
        exit: (!number.is_multiple_of(5)).then_some(100 * number + 7),
        known: 100 * number + 7,
        arguments: vec![
            ProbeValue::Word(number),
            ProbeValue::Text(format!("text {number}")),
        ],
        result: Some(ProbeValue::Word(0)),
        within: Some(3),
        site: Default::default(),
    }
}

const RECORDS: u64 = 20_000;

fn write(path: &Path, resumed_at: Option<u64>) {
    let mut writer = ProbesWriter::over(File::create(path).unwrap(), path, &header()).unwrap();
    for number in 0..RECORDS {
        if resumed_at == Some(number) {
            let saved = writer.save().unwrap();
            // The records after the checkpoint are overwritten.
            (0..9000).for_each(|number| writer.push(record(number)).unwrap());
            writer.flush().unwrap();
            let file = File::options().write(true).open(path).unwrap();
            writer = ProbesWriter::resume(file, path, &saved).unwrap();
        }
        writer.push(record(number)).unwrap();
    }
    writer.finish(ProbesEnd { unfollowed: 5 }).unwrap();
}

#[test]
fn records_are_read_as_they_were_written_also_by_a_run_that_continued() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    write(&one, None);
    write(&other, Some(12_345));
    assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap());
    let mut reader = ProbesReader::open(&one).unwrap();
    assert_eq!(reader.header(), &header());
    assert!(reader.by_ref().eq((0..RECORDS).map(record)));
    assert_eq!(*reader.state(), TraceState::Complete);
    assert_eq!(reader.end(), Some(ProbesEnd { unfollowed: 5 }));
}

#[test]
fn damage_ends_the_records_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probes.bjc");
    write(&path, None);
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 200) {
        for damaged in [whole[..at].to_vec(), {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            bytes
        }] {
            fs::write(&path, damaged).unwrap();
            let Ok(mut reader) = ProbesReader::open(&path) else {
                continue;
            };
            let read: Vec<ProbeRecord> = reader.by_ref().collect();
            assert!((0..).map(record).zip(&read).all(|(is, was)| is == *was));
            let state = reader.state();
            assert!(matches!(state, TraceState::Incomplete { .. }), "{at}");
        }
    }
}

#[test]
fn records_that_are_of_no_probe_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probes.bjc");
    let other = ProbeRecord {
        probe: 7,
        ..record(1)
    };
    let fewer = ProbeRecord {
        arguments: Vec::new(),
        ..record(1)
    };
    let elsewhere = ProbeRecord {
        node: 2,
        ..record(1)
    };
    for wrong in [other, fewer, elsewhere] {
        let mut writer =
            ProbesWriter::over(File::create(&path).unwrap(), &path, &header()).unwrap();
        writer.push(wrong).unwrap();
        writer.finish(ProbesEnd::default()).unwrap();
        let mut reader = ProbesReader::open(&path).unwrap();
        assert_eq!(reader.next(), None);
        assert!(matches!(reader.state(), TraceState::Incomplete { .. }));
    }
}

/// Files without accesses to buffers have the bytes that they had before these were recorded.
#[test]
fn only_accesses_to_buffers_need_the_last_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probes.bjc");
    for (purpose, version) in [
        (ProbePurpose::User, 3),
        (ProbePurpose::OpenMpiStart, 3),
        (ProbePurpose::BufferAccess, 4),
    ] {
        let mut header = header();
        header.probes[0].purpose = purpose;
        let writer = ProbesWriter::over(File::create(&path).unwrap(), &path, &header).unwrap();
        let saved = writer.save().unwrap();
        writer.finish(ProbesEnd::default()).unwrap();
        assert_eq!(fs::read(&path).unwrap()[8..10], [version, 0]);
        assert_eq!(ProbesReader::open(&path).unwrap().header(), &header);
        ProbesWriter::verify(File::open(&path).unwrap(), &path, &saved).unwrap();
    }
}
