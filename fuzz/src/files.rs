//! Files that people are sent: traces and scenarios.
//!
//! A trace may have its lengths and checksums made good, so that mutations get as far as the decoder. What
//! is read is listed and analysed as well. Called by name from `lib.rs`.

use std::io::Write;
use std::path::Path;

use belljar_analysis::{DumpFormat, Filter, dump, statistics};
use belljar_cluster::scenario::Scenario;
use belljar_sim::Frequency;
use belljar_trace::{MAGIC, TraceHeader, TraceSummary, TraceWriter, VERSION};

const HEAD: usize = 13;

/// Reads a trace and lists and analyses what is in it.
///
/// The first byte says whether the rest is a file as it stands, or chunks whose lengths and
/// checksums are made good: a kind, a length of two bytes, and what stands in the chunk.
pub(crate) fn trace(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    let bytes = if kind & 1 == 0 {
        rest.to_vec()
    } else {
        chunked(rest)
    };
    let mut file = tempfile::NamedTempFile::new().expect("the host has a folder for files");
    file.write_all(&bytes).expect("the host stores a file");
    // What is wrong with a file is an answer; only panics are not.
    for format in [DumpFormat::Text, DumpFormat::Json] {
        let mut lines = Vec::new();
        let _ = dump(file.path(), &Filter::default(), format, &mut lines);
        assert!(std::str::from_utf8(&lines).is_ok(), "a listing is text");
    }
    if let Ok((statistics, _)) = statistics(file.path(), &Filter::default()) {
        let _ = format!("{statistics:?}");
    }
}

/// A header, and chunks of what `rest` holds.
fn chunked(mut rest: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    let header = small_trace();
    bytes.extend_from_slice(first_chunk(&header));
    while let [kind, low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (payload, behind) = after.split_at(length);
        chunk(&mut bytes, kind & 3, payload);
        rest = behind;
    }
    bytes
}

fn chunk(bytes: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let stored = zstd::bulk::compress(payload, 1).unwrap_or_default();
    let mut head = vec![kind];
    head.extend((payload.len() as u32).to_le_bytes());
    head.extend((stored.len() as u32).to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head);
    hasher.update(&stored);
    bytes.extend(head);
    bytes.extend(hasher.finalize().to_le_bytes());
    bytes.extend(stored);
}

/// The chunk after a trace's magic and version.
fn first_chunk(trace: &[u8]) -> &[u8] {
    let chunks = &trace[MAGIC.len() + 2..];
    let stored = u32::from_le_bytes([chunks[5], chunks[6], chunks[7], chunks[8]]);
    &chunks[..HEAD + stored as usize]
}

/// A sound trace without events.
fn small_trace() -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().expect("the host has a folder for files");
    let rate = Frequency::from_hz(2_600_000_000).expect("it is not zero");
    let header = TraceHeader::new("fuzz", &[rate; 2]);
    let writer = TraceWriter::create(file.path(), &header).expect("a header can be written");
    writer
        .finish(&TraceSummary::default())
        .expect("a summary can be written");
    std::fs::read(file.path()).expect("it was just written")
}

/// What stands in the chunks of a trace after its header, kinds and lengths before it.
fn payloads(trace: &[u8]) -> Vec<u8> {
    let mut rest = &trace[MAGIC.len() + 2..];
    let mut bytes = vec![1];
    let mut first = true;
    while rest.len() >= HEAD {
        let word =
            |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let (raw, stored) = (word(1) as usize, word(5) as usize);
        let payload = zstd::bulk::decompress(&rest[HEAD..HEAD + stored], raw);
        let payload = payload.expect("a sound trace");
        if !first {
            bytes.push(rest[0]);
            bytes.extend((payload.len() as u16).to_le_bytes());
            bytes.extend(payload);
        }
        first = false;
        rest = &rest[HEAD + stored..];
    }
    bytes
}

/// Sound traces with and without events, as files and as chunks.
pub(crate) fn trace_seeds() -> Vec<Vec<u8>> {
    let small = small_trace();
    vec![[vec![0], small.clone()].concat(), payloads(&small)]
}

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
    // What is wrong with a scenario is an answer; only panics are not.
    let read = Scenario::parse(path, &text, &overrides);
    let folder = Path::new("/folder");
    if let Ok(again) = Scenario::standalone(path, &text, &overrides, folder)
        && let Ok(read) = read
    {
        let again = Scenario::parse(path, &again.text, &[]).expect("what was read is read again");
        assert_eq!(again.name, read.name);
        assert_eq!(again.nodes.count, read.nodes.count);
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
