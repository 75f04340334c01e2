//! Files that users receive: traces, tables and scenarios.
//!
//! The lengths and checksums of a trace may be corrected, so that mutations reach the decoder. Files that can be read
//! are also listed and analysed. Called by name from `lib.rs`.

/// Program structure and waiting times of a trace.
mod analyses;
/// Traces with only some iterations kept.
mod collected;
/// Traces in other tools' formats.
mod exports;
/// Files of other tools, imported.
mod imports;
/// Models of programs.
mod models;
/// Other files of runs than traces.
mod records;
/// Replays of traces on other networks.
mod replays;

use std::io::Write;
use std::path::Path;

use belljar_analysis::{
    DumpFormat, Filter, FrameNames, Matrix, TrafficOf, call_sites, dump, statistics, traffic,
    untimed_traffic,
};
use belljar_archive::{Contents, StructureReader, TraceReader, TraceWriter};
use belljar_cluster::scenario::Scenario;
use belljar_collectives::{Call, Choice, Operation, Tables};
use belljar_sim::Frequency;
use belljar_trace::{
    MAGIC, TYPED_VERSION, TraceHeader, TraceState, TraceSummary, UNCOUNTED_VERSION,
    UNEXPLAINED_VERSION, UNGROUPED_VERSION, VERSION,
};

pub(crate) use analyses::target as analyses;
pub(crate) use collected::{seeds as collected_seeds, target as collected};
pub(crate) use exports::target as exports;
pub(crate) use imports::{goal, goal_seeds, otf2, otf2_seeds, ti, ti_seeds};
pub(crate) use models::{seeds as models_seeds, target as models};
pub(crate) use records::{seeds as records_seeds, target as records};
pub(crate) use replays::target as replays;

/// Bytes before the payload of a chunk: kind, length, checksum.
const HEAD: usize = 9;

/// The kind of the chunk with new signatures, whose payload is packed.
const DICTIONARY: u8 = 2;

/// Reads and analyses a trace file of any content.
///
/// The first byte selects a plain file, or chunks whose lengths and checksums are corrected: a kind, a length of two
/// bytes, and the chunk's content. Its bits also select the version.
pub(crate) fn archive(data: &[u8]) {
    analyse_file(data, archive_chunks(data));
}

/// The function that builds a file from chunks of `data`.
fn archive_chunks(data: &[u8]) -> fn(&[u8]) -> Vec<u8> {
    match data.first().map_or(0, |kind| kind & 14) {
        0 => |rest| chunked(UNCOUNTED_VERSION, rest),
        2 => |rest| chunked(UNGROUPED_VERSION, rest),
        4 => |rest| chunked(UNEXPLAINED_VERSION, rest),
        8 => |rest| chunked(TYPED_VERSION, rest),
        _ => |rest| chunked(VERSION, rest),
    }
}

/// A file with the bytes of `data` as they are, or as chunks.
fn stored(data: &[u8], chunked: fn(&[u8]) -> Vec<u8>) -> Option<tempfile::NamedTempFile> {
    let (&kind, rest) = data.split_first()?;
    let bytes = if kind & 1 == 0 {
        rest.to_vec()
    } else {
        chunked(rest)
    };
    let mut file = tempfile::NamedTempFile::new().expect("the host has a folder for files");
    file.write_all(&bytes).expect("the host stores a file");
    Some(file)
}

fn analyse_file(data: &[u8], chunked: fn(&[u8]) -> Vec<u8>) {
    let Some(file) = stored(data, chunked) else {
        return;
    };
    // Errors are expected; only panics are defects.
    for format in [DumpFormat::Text, DumpFormat::Json] {
        let mut lines = Vec::new();
        let names = FrameNames::new(|_, _| Vec::new());
        let _ = dump(
            file.path(),
            &Filter::default(),
            format,
            Some(names),
            &mut lines,
        );
        assert!(std::str::from_utf8(&lines).is_ok(), "a listing is text");
    }
    if let Ok((statistics, _)) = statistics(file.path(), &Filter::default()) {
        let _ = format!("{statistics:?}");
    }
    if let Ok((sites, _)) = call_sites(file.path(), &Filter::default(), None) {
        let text = sites.write(&mut Vec::new(), true);
        text.expect("memory takes everything");
    }
    let tables = Tables::parse(TABLES).expect("these are tables");
    for tables in [None, Some(&tables)] {
        let of = TrafficOf::default();
        if let Ok((matrix, _)) = traffic(file.path(), &Filter::default(), of, tables) {
            written(&matrix);
        }
        if let Ok((counts, _)) = untimed_traffic(file.path(), &Filter::default(), of, tables) {
            assert_eq!(counts.span_ps, 0, "no times are read");
            written(&counts);
        }
    }
    compare_readers(file.path());
}

/// Tables with an algorithm for each of some operations.
const TABLES: &[u8] = br#"{
    "collective=allreduce": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
    "collective=alltoallv": {"algorithm=MPIR_Alltoallv_intra_scattered": {}},
    "collective=bcast": {"algorithm=MPIR_Bcast_intra_scatter_ring_allgather": {}},
    "collective=gather": {"algorithm=MPIR_Gather_intra_binomial": {}}
}"#;

/// Writes a matrix in all formats.
fn written(matrix: &Matrix) {
    let mut out = Vec::new();
    let all = matrix.write(&mut out).and_then(|()| {
        matrix.write_csv(&mut out)?;
        matrix.write_json(&mut out)?;
        matrix.write_svg(&mut out)
    });
    all.expect("memory takes everything");
    assert!(std::str::from_utf8(&out).is_ok(), "a matrix is text");
}

/// Decision tables, as a document and in a library; and a run's `wire.csv`. Every choice has a schedule.
pub(crate) fn tables(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(matrix) = Matrix::of_wire(text, 1_000_000)
    {
        written(&matrix);
    }
    let found = [Tables::parse(data), Tables::of_library(data)];
    for tables in found.into_iter().flatten() {
        for (operation, members) in Operation::ALL.into_iter().flat_map(|it| [(it, 5), (it, 8)]) {
            let pieces = vec![1000; members as usize];
            let call = Call::new(operation, members, 1).elements(100, 8);
            let call = call.pieces(pieces.clone(), pieces);
            if let Choice::Known(algorithm) = tables.choose(&call) {
                let steps = algorithm.schedule(&call).steps().len();
                assert!(steps < 1000, "{algorithm:?} has {steps} steps");
            }
        }
    }
}

/// Tables, a library with tables, and a `wire.csv`.
pub(crate) fn tables_seeds() -> Vec<Vec<u8>> {
    let document = String::from_utf8_lossy(TABLES).replace([' ', '\n'], "");
    let library = format!("\x7fELF\0{document}\0more");
    let wire = b"from,to,frames,bytes,payload\n0,1,3,300,100\n0,*,1,60,0\n".to_vec();
    vec![TABLES.to_vec(), library.into_bytes(), wire]
}

/// Reads structure alone: for a complete trace, it has the same calls as a full read.
fn compare_readers(path: &Path) {
    let Ok(mut structures) = StructureReader::open(path) else {
        return;
    };
    let mut calls = 0;
    while let Some(structure) = structures.advance() {
        calls += structure.calls;
    }
    let Ok(mut reader) = TraceReader::open(path) else {
        return;
    };
    let read = reader.by_ref().count();
    if *reader.state() == TraceState::Complete {
        assert_eq!(calls, read, "structure has other calls");
    }
}

/// The beginning of a file of this version.
fn beginning(version: u16) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(version.to_le_bytes());
    bytes
}

/// The header of a file of this version, and chunks made of `rest`.
fn chunked(version: u16, mut rest: &[u8]) -> Vec<u8> {
    let header = match version {
        UNCOUNTED_VERSION => FILES[0].to_vec(),
        UNGROUPED_VERSION => FILES[1].to_vec(),
        UNEXPLAINED_VERSION => FILES[2].to_vec(),
        TYPED_VERSION => small_trace(true),
        _ => small_trace(false),
    };
    let mut bytes = beginning(version);
    let stored = word(&header, bytes.len() + 1);
    bytes.extend_from_slice(&header[bytes.len()..][..HEAD + stored]);
    while let [kind, low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (payload, behind) = after.split_at(length);
        let kind = kind % 6;
        let mut stored = payload.to_vec();
        if is_packed(kind) {
            stored = (payload.len() as u32).to_le_bytes().to_vec();
            stored.extend(zstd::bulk::compress(payload, 1).unwrap_or_default());
        }
        let mut head = vec![kind];
        head.extend((stored.len() as u32).to_le_bytes());
        put_chunk(&mut bytes, &head, &stored);
        rest = behind;
    }
    bytes
}

/// Dictionaries and footers are compressed with zstd.
fn is_packed(kind: u8) -> bool {
    kind == 1 || kind == DICTIONARY
}

fn put_chunk(bytes: &mut Vec<u8>, head: &[u8], stored: &[u8]) {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(stored);
    bytes.extend_from_slice(head);
    bytes.extend(hasher.finalize().to_le_bytes());
    bytes.extend_from_slice(stored);
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}

fn header() -> TraceHeader {
    let rate = Frequency::from_hz(2_600_000_000).expect("it is not zero");
    TraceHeader::new("fuzz", &[rate; 2])
}

/// A valid trace without events, of the version that runs with or without datatypes write.
fn small_trace(typed: bool) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().expect("the host has a folder for files");
    let contents = Contents {
        accounted: false,
        frames: 3,
    };
    let own = file.reopen().expect("it was just made");
    let writer = TraceWriter::over(own, file.path(), &header().with_datatypes(typed), contents);
    let writer = writer.expect("a header can be written");
    let written = writer.finish(&TraceSummary::default());
    written.expect("a summary can be written");
    std::fs::read(file.path()).expect("it was just written")
}

/// The contents of a trace's chunks after its header, each after its kind and length.
fn payloads(trace: &[u8]) -> Vec<u8> {
    let mut rest = &trace[MAGIC.len() + 2..];
    let mut bytes = vec![1];
    while rest.len() >= HEAD {
        let (kind, stored) = (rest[0], &rest[HEAD..][..word(rest, 1)]);
        if is_packed(kind) {
            let payload = zstd::bulk::decompress(&stored[4..], word(stored, 0));
            put_payload(&mut bytes, kind, &payload.expect("a sound trace"));
        } else if kind != 0 {
            put_payload(&mut bytes, kind, stored);
        }
        rest = &rest[HEAD + stored.len()..];
    }
    bytes
}

fn put_payload(bytes: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    bytes.push(kind);
    bytes.extend((payload.len() as u16).to_le_bytes());
    bytes.extend(payload);
}

/// Valid traces with and without calls, as files and as chunks.
pub(crate) fn archive_seeds() -> Vec<Vec<u8>> {
    let small = small_trace(false);
    let whole = [FILES[0], FILES[1], FILES[2], FILES[3], &small];
    let files = whole.map(|file| [&[0], file].concat());
    let mut chunks = whole.map(payloads);
    for (chunks, version) in chunks.iter_mut().zip([0, 2, 4, 6, 6]) {
        chunks[0] |= version;
    }
    files.into_iter().chain(chunks).collect()
}

/// A file of each version, from the earliest on.
const FILES: [&[u8]; 4] = [
    include_bytes!("../../trace/archive/tests/golden/version-11.bjt"),
    include_bytes!("../../trace/archive/tests/golden/version-12.bjt"),
    include_bytes!("../../trace/archive/tests/golden/version-13.bjt"),
    include_bytes!("../../trace/archive/tests/golden/version-14.bjt"),
];

/// Reads a scenario; lines that begin with `=` are overrides.
pub(crate) fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (overrides, lines): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with('='));
    let overrides: Vec<String> = overrides.iter().map(|line| line[1..].to_owned()).collect();
    let text = lines.join("\n");
    let path = Path::new("folder/scenario.toml");
    // Errors are expected; only panics are defects.
    let read = Scenario::parse(path, &text, &overrides);
    let folder = Path::new("/folder");
    if let Ok(again) = Scenario::standalone(path, &text, &overrides, folder)
        && let Ok(read) = read
    {
        let again = Scenario::parse(path, &again.text, &[]).expect("what was read is read again");
        assert_eq!(again.name, read.name);
        assert_eq!(again.nodes.count(), read.nodes.count());
    }
}

/// The scenarios of the documentation, and overrides.
pub(crate) fn scenario_seeds() -> Vec<Vec<u8>> {
    const FILES: [&str; 3] = [
        include_str!("../../scenarios/pingpong.toml"),
        include_str!("../../scenarios/hpl-4.toml"),
        include_str!("../../scenarios/perturbation.toml"),
    ];
    const OVERRIDES: &str = "=nodes.count=3\n=nodes.clock=\"3 GHz\"\n=trace.sample={MPI_Send=2}\n\
         =network.topology=tree\n=network.latency=1.5 us\n=workload.limit=2 h\n";
    let overridden = FILES.map(|file| format!("{OVERRIDES}{file}"));
    let plain = FILES.map(str::to_owned);
    let all = plain.into_iter().chain(overridden);
    all.map(String::into_bytes).collect()
}
