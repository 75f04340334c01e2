//! Versions 5 and 6: round trips and damage.

mod events;

use std::fs;

use belljar_archive::{EarlierWriter, TraceReader};
use belljar_sim::Frequency;
use belljar_trace::{
    Account, Accounts, Event, MAGIC, NodeSummary, TraceError, TraceHeader, TraceState, TraceSummary,
};
use proptest::prelude::*;

use crate::events::all_kinds as event;

/// The kind of a chunk of events.
const KIND_EVENTS: u8 = 1;

fn header() -> TraceHeader {
    let rate = |hz| Frequency::from_hz(hz).unwrap();
    TraceHeader::new("ping", &[rate(2_600_000_000), rate(1_000_000_000)])
}

fn summary() -> TraceSummary {
    TraceSummary {
        nodes: vec![NodeSummary {
            node: 1,
            end: 99,
            processes: Vec::new(),
            counters: belljar_trace::Counters::default(),
        }],
        ending: String::new(),
    }
}

/// Writes a trace of several chunks and returns its bytes.
fn written(directory: &std::path::Path, pieces: &[&[Event]], chunked: bool) -> Vec<u8> {
    let path = directory.join("out.bjt");
    let mut writer = EarlierWriter::create(&path, &header()).unwrap();
    for piece in pieces {
        writer.append(piece).unwrap();
        if chunked {
            writer.flush().unwrap();
        }
    }
    writer.finish(&summary()).unwrap();
    fs::read(&path).unwrap()
}

fn read(directory: &std::path::Path, bytes: &[u8]) -> Result<(Vec<Event>, TraceState), TraceError> {
    let path = directory.join("in.bjt");
    fs::write(&path, bytes).unwrap();
    let mut reader = TraceReader::open(&path)?;
    let events = reader.by_ref().collect();
    assert_eq!(
        reader.summary().is_some(),
        *reader.state() == TraceState::Complete
    );
    Ok((events, reader.state().clone()))
}

#[test]
fn what_was_written_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let events: Vec<Event> = (0..20_000).map(event).collect();
    let bytes = written(directory.path(), &[&events[..7], &events[7..]], false);
    let (back, state) = read(directory.path(), &bytes).unwrap();
    assert_eq!(state, TraceState::Complete);
    assert!(back == events);
    let path = directory.path().join("in.bjt");
    let mut reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.header().frequency(1).as_hz(), 1_000_000_000);
    assert_eq!(reader.by_ref().count(), events.len());
    assert_eq!(reader.summary(), Some(&summary()));
}

#[test]
fn bytes_do_not_depend_on_how_events_are_handed_over() {
    let directory = tempfile::tempdir().unwrap();
    let events: Vec<Event> = (0..10_000).map(event).collect();
    let whole = written(directory.path(), &[&events], false);
    let singly: Vec<&[Event]> = events.chunks(1).collect();
    assert!(whole == written(directory.path(), &singly, false));
}

#[test]
fn a_loop_costs_little() {
    let directory = tempfile::tempdir().unwrap();
    let mut events = Vec::new();
    for number in 0..100_000u64 {
        let mut same = event(3);
        same.entry = 1_000_000 + 5_000 * number;
        same.exit = Some(same.entry + 800 + number % 3);
        events.push(same);
    }
    let bytes = written(directory.path(), &[&events], false);
    assert!(bytes.len() < 100_000, "{} bytes", bytes.len());
    assert!(read(directory.path(), &bytes).unwrap().0 == events);
}

/// Three chunks of four events.
fn small(directory: &std::path::Path) -> (Vec<Event>, Vec<u8>) {
    let events: Vec<Event> = (0..12).map(event).collect();
    let pieces: Vec<&[Event]> = events.chunks(4).collect();
    let bytes = written(directory, &pieces, true);
    (events, bytes)
}

#[test]
fn every_truncation_gives_the_whole_chunks_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let (events, bytes) = small(directory.path());
    let mut lengths = Vec::new();
    for length in 0..bytes.len() {
        match read(directory.path(), &bytes[..length]) {
            Ok((back, state)) => {
                assert!(events.starts_with(&back), "at {length}");
                assert_eq!(back.len() % 4, 0, "at {length}");
                assert!(
                    matches!(state, TraceState::Incomplete { .. }),
                    "at {length}"
                );
                lengths.push(back.len());
            }
            Err(error) => {
                assert!(lengths.is_empty(), "at {length}: {error}");
                assert!(matches!(error, TraceError::NotATrace { .. }), "{error}");
            }
        }
    }
    assert!(lengths.is_sorted());
    lengths.dedup();
    assert_eq!(lengths, [0, 4, 8, 12]);
}

#[test]
fn every_flipped_bit_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (events, bytes) = small(directory.path());
    for position in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 1 << (position % 8);
        match read(directory.path(), &damaged) {
            Ok((back, state)) => {
                assert!(
                    matches!(state, TraceState::Incomplete { .. }),
                    "at {position}"
                );
                assert!(events.starts_with(&back), "at {position}");
                assert!(back.len() < 12 || position > bytes.len() / 2);
            }
            Err(error) => assert!(
                matches!(
                    error,
                    TraceError::NotATrace { .. } | TraceError::Version { .. }
                ),
                "at {position}: {error}"
            ),
        }
    }
}

#[test]
fn what_follows_the_footer_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let (events, mut bytes) = small(directory.path());
    bytes.push(0);
    let (back, state) = read(directory.path(), &bytes).unwrap();
    assert_eq!(back, events);
    assert!(matches!(state, TraceState::Incomplete { .. }));
}

/// A chunk with a right checksum, whatever its payload.
fn chunk(kind: u8, raw: &[u8], raw_length: u32) -> Vec<u8> {
    let stored = zstd::bulk::compress(raw, 3).unwrap();
    let mut chunk = vec![kind];
    chunk.extend_from_slice(&raw_length.to_le_bytes());
    chunk.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chunk);
    hasher.update(&stored);
    chunk.extend_from_slice(&hasher.finalize().to_le_bytes());
    chunk.extend_from_slice(&stored);
    chunk
}

/// The file up to its first chunk of events.
fn beginning(directory: &std::path::Path) -> Vec<u8> {
    let path = directory.join("empty.bjt");
    drop(EarlierWriter::create(&path, &header()).unwrap());
    fs::read(&path).unwrap()
}

#[test]
fn a_chunk_that_expands_beyond_its_length_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = beginning(directory.path());
    bytes.extend(chunk(KIND_EVENTS, &vec![0; 1 << 20], 100));
    let (back, state) = read(directory.path(), &bytes).unwrap();
    assert!(back.is_empty());
    assert!(matches!(state, TraceState::Incomplete { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Payloads that pass the checksum and are rubbish: no panic, no giant allocation.
    #[test]
    fn hostile_chunks_are_refused(
        kind in 0..4u8,
        mut raw in prop::collection::vec(any::<u8>(), 0..200),
        lengths in any::<bool>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = beginning(directory.path());
        if lengths {
            // A vector of 2^63 elements, in bincode's variable-length form.
            raw.splice(0..0, [253, 0, 0, 0, 0, 0, 0, 0, 0x80]);
        }
        bytes.extend(chunk(kind, &raw, raw.len() as u32));
        let (_, state) = read(directory.path(), &bytes).unwrap();
        let refused = matches!(state, TraceState::Incomplete { .. });
        prop_assert!(refused);
    }
}

#[test]
fn accounts_are_kept_in_a_version_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("accounted.bjt");
    let sums = |number: u64| Account {
        instructions: number * 900,
        caches: number * number,
        memory: u64::MAX - number,
        idle: 7 * number,
    };
    let events: Vec<Event> = (0..20_000)
        .map(|number| Event {
            accounts: Accounts(Some([sums(number), sums(number + 1)])),
            ..event(number)
        })
        .collect();
    let mut writer = EarlierWriter::create_accounted(&path, &header()).unwrap();
    writer.append(&events).unwrap();
    writer.finish(&summary()).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes[MAGIC.len()..][..2], 6u16.to_le_bytes());
    let (back, state) = read(directory.path(), &bytes).unwrap();
    assert_eq!(state, TraceState::Complete);
    assert!(back == events);
    // The chunks of one version mean nothing in the other.
    let mut changed = bytes.clone();
    changed[MAGIC.len()] = 5;
    let (none, state) = read(directory.path(), &changed).unwrap();
    assert!(none.is_empty() && matches!(state, TraceState::Incomplete { .. }));
}
