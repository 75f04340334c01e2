//! Other files of runs than traces: files of probes and profiles of any content.
//!
//! The first byte selects one of both, and plain bytes or records whose lengths and checksums are corrected: a kind, a
//! length of two bytes, and the record's packed content. Called by name from `lib.rs`.

use std::fs::File;
use std::path::Path;

use belljar_archive::{ProbesHeader, ProbesReader, ProbesWriter};
use belljar_profile::{
    CodeFile, Filter, Format, Head, Sample, SampleFrame, Split, Tally, Writer as ProfileWriter,
};
use belljar_trace::{Probe, ProbeAt, ProbePurpose, ProbeRecord, ProbeValue, ProbesEnd, ValueKind};

use super::{header, put_chunk};

/// Bytes of magic and version of a file of probes, and of a profile.
const BEGINNINGS: [usize; 2] = [10, 12];

/// Kind of chunks with records of probes.
const PROBES: u8 = 6;

/// Reads such a file and prints its contents.
pub(crate) fn target(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    let bytes = match kind & 3 {
        0 | 2 => rest.to_vec(),
        1 => probe_chunks(rest),
        _ => profile_records(rest),
    };
    let file = tempfile::NamedTempFile::new().expect("the host has a folder for files");
    std::fs::write(file.path(), bytes).expect("the host stores a file");
    match kind & 2 {
        0 => read_probes(file.path()),
        _ => read_profile(file.path()),
    }
}

fn read_probes(path: &Path) {
    let Ok(mut reader) = ProbesReader::open(path) else {
        return;
    };
    let probes = reader.header().probes.clone();
    for record in reader.by_ref() {
        assert!(record.fits(&probes), "a record is of no probe");
        let kinds = &probes[record.probe as usize].arguments;
        for (value, kind) in record.arguments.iter().zip(kinds) {
            let _ = value.in_words(*kind);
        }
    }
    let _ = (reader.state(), reader.end());
}

fn read_profile(path: &Path) {
    let mut tally = Tally::new(Filter::default());
    // Samples before an error are used.
    let _ = belljar_profile::read(path, &mut tally);
    let named = tally.name(Split::Rank, |_, _| Vec::new());
    for format in [
        Format::Table,
        Format::Folded,
        Format::Json,
        Format::Svg,
        Format::Pprof,
    ] {
        let written = named.write(format, &mut Vec::new());
        written.expect("memory takes everything");
    }
}

/// The records in `rest`: their kinds and contents.
fn pieces(mut rest: &[u8]) -> Vec<(u8, &[u8])> {
    let mut pieces = Vec::new();
    while let [kind, low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (piece, left) = after.split_at(length);
        pieces.push((*kind, piece));
        rest = left;
    }
    pieces
}

fn packed(plain: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(plain, 1).unwrap_or_default()
}

/// A file of probes with a valid header, and with chunks from `rest`.
fn probe_chunks(rest: &[u8]) -> Vec<u8> {
    let whole = small_probes();
    let start = BEGINNINGS[0];
    let stored = super::word(&whole, start + 1);
    let mut bytes = whole[..start + super::HEAD + stored].to_vec();
    for (kind, piece) in pieces(rest) {
        let kind = if kind & 1 == 0 { PROBES } else { kind % 8 };
        let mut stored = piece.to_vec();
        if kind == PROBES {
            stored = (piece.len() as u32).to_le_bytes().to_vec();
            stored.extend(packed(piece));
        }
        let mut head = vec![kind];
        head.extend((stored.len() as u32).to_le_bytes());
        put_chunk(&mut bytes, &head, &stored);
    }
    bytes
}

/// A profile with a valid head, and with records from `rest`.
fn profile_records(rest: &[u8]) -> Vec<u8> {
    let whole = small_profile();
    let start = BEGINNINGS[1];
    let stored = super::word(&whole, start + 4);
    let mut bytes = whole[..start + 16 + stored].to_vec();
    for (kind, piece) in pieces(rest) {
        let stored = packed(piece);
        let words = [
            u32::from(kind & 3),
            stored.len() as u32,
            piece.len() as u32,
            crc32fast::hash(&stored),
        ];
        bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(stored);
    }
    bytes
}

fn small_probes() -> Vec<u8> {
    let probe = Probe {
        name: "f".to_owned(),
        file: "a.out".to_owned(),
        at: ProbeAt::Call,
        arguments: vec![ValueKind::Signed(4), ValueKind::Text],
        result: Some(ValueKind::Double),
        purpose: ProbePurpose::User,
    };
    let record = ProbeRecord {
        probe: 0,
        node: 0,
        vcpu: 0,
        task: 1,
        process: Some(0),
        thread: 0,
        rank: Some(1),
        program: "./a.out".into(),
        depth: 0,
        entry: 100,
        exit: Some(120),
        known: 120,
        arguments: vec![ProbeValue::Word(7), ProbeValue::Text("text".to_owned())],
        result: Some(ProbeValue::Word(0)),
        within: Some(3),
        site: Default::default(),
    };
    let folder = tempfile::tempdir().expect("the host has a folder for files");
    let path = folder.path().join("probes");
    let file = File::create(&path).expect("the host stores a file");
    let head = ProbesHeader {
        trace: header(),
        probes: vec![probe],
    };
    let mut writer = ProbesWriter::over(file, &path, &head).expect("a header");
    writer.push(record).expect("a record");
    writer.finish(ProbesEnd::default()).expect("an end");
    std::fs::read(&path).expect("the host reads a file")
}

fn small_profile() -> Vec<u8> {
    let head = Head {
        node: 0,
        vcpus: 2,
        every: 1_000_000,
        first: 3,
    };
    let mut writer = ProfileWriter::new(&head);
    let file = writer.file(&CodeFile {
        path: "/bin/it".to_owned(),
        build_id: vec![1, 2, 3],
    });
    let frame = SampleFrame {
        file: Some(file),
        address: 0x1000,
    };
    let sample = Sample {
        number: 3,
        count: 1,
        vcpu: 0,
        space: 0x1000,
        rank: Some(0),
        kernel: None,
        stack: 0,
    };
    writer.add(sample, vec![frame]);
    writer.finish(9);
    writer.take()
}

/// Both files, whole.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [(0, small_probes()), (2, small_profile())]
        .into_iter()
        .map(|(kind, bytes)| [vec![kind], bytes].concat())
        .collect()
}
