//! Whole traces: round trips, continuation, damage, size.

use std::fs;
use std::path::{Path, PathBuf};

use belljar_archive::{QueuedWriter, Sizes, StructureReader, TraceReader, TraceWriter};
use belljar_sim::Frequency;
use belljar_trace::{
    Account, CallDatatypes, Datatype, DatatypeContents, Event, Folded, Polls, TRACE_FILE,
    TraceError, TraceHeader, TraceState, TraceSummary,
};
use proptest::prelude::*;

use crate::events::{any_events, ring};

fn header() -> TraceHeader {
    TraceHeader::new("ring", &[Frequency::from_hz(2_600_000_000).unwrap()])
}

fn summary() -> TraceSummary {
    TraceSummary {
        ending: "it ended well".to_owned(),
        ..TraceSummary::default()
    }
}

/// Writes a trace with a chunk every `chunk` calls, and returns its path and sizes.
fn written(directory: &Path, events: &[Event], chunk: usize) -> (PathBuf, Sizes) {
    let path = directory.join("out.bjt");
    let mut writer = TraceWriter::create(&path, &header(), false).unwrap();
    for events in events.chunks(chunk) {
        for event in events {
            writer.push(event.clone()).unwrap();
        }
        writer.flush().unwrap();
    }
    assert_eq!(writer.calls(), events.len() as u64);
    let sizes = writer.finish(&summary()).unwrap();
    assert_eq!(sizes.total(), fs::metadata(&path).unwrap().len());
    (path, sizes)
}

/// Returns the calls of a trace, and its end state.
fn read(path: &Path) -> Result<(Vec<Event>, TraceState), TraceError> {
    let mut reader = TraceReader::open(path)?;
    let events = reader.by_ref().collect();
    let state = reader.state().clone();
    assert_eq!(reader.summary().is_some(), state == TraceState::Complete);
    Ok((events, state))
}

#[test]
fn a_header_with_processors_has_a_version_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let events = ring(4, 10);
    let (plain, _) = written(directory.path(), &events, 100);
    let path = directory.path().join("modelled.bjt");
    let names = [
        "zen5 (0123456789abcdef)".to_owned(),
        "other (00)".to_owned(),
    ];
    let modelled = header().with_processors(&names);
    let mut writer = TraceWriter::create(&path, &modelled, false).unwrap();
    for event in &events {
        writer.push(event.clone()).unwrap();
    }
    writer.finish(&summary()).unwrap();
    assert_eq!(belljar_archive::version(&plain).unwrap(), 14);
    assert_eq!(belljar_archive::version(&path).unwrap(), 15);
    let reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.header(), &modelled);
    assert_eq!(reader.header().processors(), names);
    assert_eq!(read(&path).unwrap(), read(&plain).unwrap());
    assert!(
        TraceReader::open(&plain)
            .unwrap()
            .header()
            .processors()
            .is_empty()
    );
}

/// Calls with datatypes, of which the last one has nothing else.
fn typed_calls() -> Vec<Event> {
    let mut events = ring(4, 10);
    let int = Datatype::Predefined(6);
    for (event, parts) in events.iter_mut().zip([1, 2, 1000, 3]) {
        let details = event.details.0.get_or_insert_default();
        details.datatypes = Some(Box::new(CallDatatypes {
            made: Some(DatatypeContents {
                parts: Some(vec![(int, parts); 2]),
                blocks: Some(vec![(-8, parts)]),
            }),
            sent: vec![int, Datatype::Unknown],
            received: Vec::new(),
        }));
    }
    events
}

#[test]
fn a_header_with_datatypes_has_a_version_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("typed.bjt");
    let events = typed_calls();
    let typed = header().with_datatypes(true);
    let mut writer = TraceWriter::create(&path, &typed, false).unwrap();
    let (before, after) = events.split_at(2);
    for event in before {
        writer.push(event.clone()).unwrap();
    }
    // A writer that continues later writes the same version.
    let saved = writer.save().unwrap();
    drop(writer);
    let mut file = fs::OpenOptions::new();
    let file = file.read(true).write(true).open(&path).unwrap();
    let mut writer = TraceWriter::resume(file, &path, &saved).unwrap();
    for event in after {
        writer.push(event.clone()).unwrap();
    }
    writer.finish(&summary()).unwrap();
    assert_eq!(belljar_archive::version(&path).unwrap(), 16);
    assert!(TraceReader::open(&path).unwrap().header().has_datatypes());
    assert_eq!(read(&path).unwrap(), (events, TraceState::Complete));
}

#[test]
fn a_file_without_datatypes_omits_those_of_calls() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = written(directory.path(), &typed_calls(), 3);
    let (back, _) = read(&path).unwrap();
    assert_eq!(belljar_archive::version(&path).unwrap(), 14);
    let mut details = back.iter().flat_map(|event| event.details.0.as_deref());
    assert!(details.all(|details| details.datatypes.is_none()));
    let plain: Vec<_> = ring(4, 10)
        .into_iter()
        .map(|event| event.arguments)
        .collect();
    assert_eq!(
        back.into_iter()
            .map(|event| event.arguments)
            .collect::<Vec<_>>(),
        plain
    );
}

#[test]
fn impossible_names_of_processors_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.bjt");
    for names in [
        vec![String::new()],
        vec!["x".repeat(257)],
        vec!["x".to_owned(); 1025],
    ] {
        let header = header().with_processors(&names);
        let error = TraceWriter::create(&path, &header, false).unwrap_err();
        assert!(error.to_string().contains("processors"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_calls_come_back(events in any_events(120), chunk in 1..150usize) {
        let directory = tempfile::tempdir().unwrap();
        let (path, _) = written(directory.path(), &events, chunk);
        let (back, state) = read(&path).unwrap();
        prop_assert_eq!(state, TraceState::Complete);
        prop_assert_eq!(back, events);
    }

    #[test]
    fn a_trace_continues_to_the_same_bytes(events in any_events(60), chunk in 1..40usize, at in 0..60usize) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("whole.bjt");
        let mut writer = TraceWriter::create(&path, &header(), false).unwrap();
        let mut saved = (writer.save().unwrap(), 0);
        for (number, event) in events.iter().enumerate() {
            writer.push(event.clone()).unwrap();
            if number % chunk == 0 {
                writer.flush().unwrap();
            }
            if number == at {
                saved = (writer.save().unwrap(), number + 1);
            }
        }
        writer.finish(&summary()).unwrap();
        let whole = fs::read(&path).unwrap();
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut writer = TraceWriter::resume(file, &path, &saved.0).unwrap();
        for (number, event) in events.iter().enumerate().skip(saved.1) {
            writer.push(event.clone()).unwrap();
            if number % chunk == 0 {
                writer.flush().unwrap();
            }
        }
        writer.finish(&summary()).unwrap();
        prop_assert!(fs::read(&path).unwrap() == whole);
    }

    #[test]
    fn a_writer_on_a_thread_of_its_own_writes_the_same_bytes(events in any_events(60), at in 0..60usize) {
        let directory = tempfile::tempdir().unwrap();
        let (plain, queued) = (directory.path().join("plain.bjt"), directory.path().join("queued.bjt"));
        let mut writer = TraceWriter::create(&plain, &header(), false).unwrap();
        let other = TraceWriter::create(&queued, &header(), false).unwrap();
        let mut other = QueuedWriter::of(other, &queued).unwrap();
        for (number, event) in events.iter().enumerate() {
            writer.push(event.clone()).unwrap();
            other.push(event.clone()).unwrap();
            if number == at {
                prop_assert_eq!(other.save().unwrap(), writer.save().unwrap());
            }
        }
        writer.finish(&summary()).unwrap();
        other.into_writer().unwrap().finish(&summary()).unwrap();
        prop_assert!(fs::read(&queued).unwrap() == fs::read(&plain).unwrap());
    }

    /// Checkpoints are untrusted: any state that is accepted is usable.
    #[test]
    fn hostile_states_are_refused_or_mean_something(
        events in any_events(40),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("whole.bjt");
        let mut writer = TraceWriter::create(&path, &header(), false).unwrap();
        let (before, after) = events.split_at(events.len() / 2);
        for (number, event) in before.iter().enumerate() {
            writer.push(event.clone()).unwrap();
            if number == before.len() / 2 {
                writer.flush().unwrap();
            }
        }
        let mut saved = writer.save().unwrap();
        for (place, value) in damages {
            let place = place.index(saved.len());
            saved[place] = value;
        }
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        if let Ok(mut writer) = TraceWriter::resume(file, &path, &saved) {
            for event in after {
                writer.push(event.clone()).unwrap();
            }
            let _ = writer.finish(&summary());
            let _ = read(&path).map(|(_, state)| assert!(state != TraceState::Reading));
        }
    }

    /// Damage with recomputed checksums, so that they do not reveal it.
    #[test]
    fn hostile_chunks_are_refused_or_mean_something(
        events in any_events(60),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let (path, _) = written(directory.path(), &events, 25);
        let mut bytes = fs::read(&path).unwrap();
        for (place, value) in damages {
            let place = 10 + place.index(bytes.len() - 10);
            bytes[place] = value;
        }
        mend_checksums(&mut bytes);
        fs::write(&path, bytes).unwrap();
        if let Ok((back, state)) = read(&path) {
            prop_assert!(back.len() <= 8 * (1 << 16));
            prop_assert!(state != TraceState::Reading);
        }
        if let Ok(mut reader) = StructureReader::open(&path) {
            while reader.advance().is_some() {}
            prop_assert!(*reader.state() != TraceState::Reading);
        }
    }
}

/// Recomputes the checksum of each chunk, as far as the lengths are valid.
fn mend_checksums(bytes: &mut [u8]) {
    let mut at = 10;
    while let Some(head) = bytes.get(at..at + 9) {
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some(payload) = bytes.get(at + 9..at + 9 + length) else {
            return;
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head[..5]);
        hasher.update(payload);
        bytes[at + 5..at + 9].copy_from_slice(&hasher.finalize().to_le_bytes());
        at += 9 + length;
    }
}

#[test]
fn a_writer_on_a_thread_of_its_own_tells_what_failed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.bjt");
    let saved = TraceWriter::create(&path, &header(), false).unwrap().save();
    // A file that cannot be written.
    let file = fs::File::open(&path).unwrap();
    let writer = TraceWriter::resume(file, &path, &saved.unwrap()).unwrap();
    let mut writer = QueuedWriter::of(writer, &path).unwrap();
    let calls = ring(4, 20_000).into_iter();
    let told = calls
        .into_iter()
        .find_map(|call| writer.push(call).err())
        .expect("a chunk is written meanwhile");
    assert!(matches!(told, TraceError::Io { .. }), "{told}");
    let again = writer.into_writer().unwrap_err().to_string();
    assert!(again.contains("has failed before"), "{again}");
}

/// Returns the file with the bytes of all its chunks of times overwritten.
fn without_times(bytes: &[u8]) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    let (mut at, mut chunks) = (10, 0);
    while at < bytes.len() {
        let length = bytes[at + 1..at + 5].try_into().unwrap();
        let end = at + 9 + u32::from_le_bytes(length) as usize;
        if bytes[at] == 5 {
            damaged[at + 9..end].fill(0xa5);
            chunks += 1;
        }
        at = end;
    }
    assert!(chunks > 2);
    damaged
}

#[test]
fn calls_without_times_are_read_where_times_are_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let events = ring(3, 40);
    let (path, _) = written(directory.path(), &events, 50);
    let damaged = without_times(&fs::read(&path).unwrap());
    fs::write(&path, damaged).unwrap();
    let (timed, state) = read(&path).unwrap();
    assert!(timed.is_empty() && matches!(state, TraceState::Incomplete { .. }));
    let mut reader = TraceReader::open_untimed(&path).unwrap();
    let found: Vec<Event> = reader.by_ref().collect();
    assert_eq!(*reader.state(), TraceState::Complete);
    let of = |events: &[Event], node: u32| -> Vec<Event> {
        let own = events.iter().filter(|event| event.node == node).cloned();
        own.map(|event| Event {
            vcpu: 0,
            entry: 0,
            exit: event.exit.map(|_| 0),
            ..event
        })
        .collect()
    };
    for node in 0..3 {
        assert_eq!(of(&found, node), of(&events, node), "node {node}");
    }
}

#[test]
fn how_many_calls_a_record_is_stands_outside_of_times() {
    let directory = tempfile::tempdir().unwrap();
    let mut events = ring(2, 40);
    for (number, event) in events.iter_mut().enumerate().filter(|it| it.0 % 3 == 1) {
        let mut polls = Polls::one(7, Account::default(), 0);
        polls.calls = 2 + number as u64;
        event.folded = Folded(Some(Box::new(polls)));
    }
    let (path, _) = written(directory.path(), &events, 50);
    let damaged = without_times(&fs::read(&path).unwrap());
    fs::write(&path, damaged).unwrap();
    let found: Vec<Event> = TraceReader::open_untimed(&path).unwrap().collect();
    let counts = |events: &[Event]| {
        let mut counts: Vec<u64> = events.iter().map(Event::calls).collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!(counts(&found), counts(&events));
    assert!(found.iter().all(|event| event.duration() == Some(0)));
}

#[test]
fn every_truncation_gives_the_whole_chunks_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let events = ring(3, 4);
    let (path, _) = written(directory.path(), &events, 10);
    let bytes = fs::read(&path).unwrap();
    let mut lengths = Vec::new();
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        match read(&path) {
            Ok((back, TraceState::Incomplete { offset, .. })) => {
                assert!(events.starts_with(&back), "at {length}");
                assert!(
                    back.len() % 10 == 0 || back.len() == events.len(),
                    "at {length}"
                );
                assert!(offset <= length as u64, "at {length}");
                lengths.push(back.len());
            }
            Ok((_, state)) => panic!("at {length}: {state:?}"),
            Err(error) => assert!(lengths.is_empty(), "at {length}: {error}"),
        }
    }
    assert!(lengths.is_sorted());
    assert_eq!(lengths.last(), Some(&events.len()));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let events = ring(3, 4);
    let (path, _) = written(directory.path(), &events, 10);
    let bytes = fs::read(&path).unwrap();
    for position in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 1 << (position % 8);
        fs::write(&path, damaged).unwrap();
        if let Ok((back, state)) = read(&path) {
            assert!(events.starts_with(&back), "at {position}");
            assert!(
                matches!(state, TraceState::Incomplete { .. }),
                "at {position}"
            );
        }
    }
}

#[test]
fn structure_does_not_grow_with_ranks_and_iterations() {
    let directory = tempfile::tempdir().unwrap();
    let size = |ranks, turns| {
        let (_, sizes) = written(directory.path(), &ring(ranks, turns), usize::MAX);
        sizes.structure + sizes.signatures
    };
    let small = size(4, 50);
    assert!(size(4, 3000) <= small + 16, "iterations");
    // A rank is a thread, whose position has to be coded: some bits.
    assert!(size(100, 50) <= small + 3 * 96, "ranks");
}

#[test]
fn structure_alone_tells_what_all_of_it_tells() {
    let directory = tempfile::tempdir().unwrap();
    let events = ring(5, 40);
    let (path, _) = written(directory.path(), &events, 77);
    let mut reader = StructureReader::open(&path).unwrap();
    let mut functions: Vec<Vec<u16>> = vec![Vec::new(); 5];
    while let Some(structure) = reader.advance() {
        let sequences = structure.unfolded();
        for (thread, sequence) in structure.threads {
            let rank = reader.threads()[thread as usize].rank;
            let calls = sequences[sequence as usize].iter();
            let calls = calls.map(|call| reader.signature(*call).unwrap().function);
            functions[rank as usize].extend(calls);
        }
    }
    assert_eq!(*reader.state(), TraceState::Complete);
    for rank in 0..5 {
        let own = events.iter().filter(|event| event.rank == rank);
        assert!(
            functions[rank as usize]
                .iter()
                .copied()
                .eq(own.map(|event| event.function))
        );
    }
}

#[test]
fn what_is_no_state_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = written(directory.path(), &ring(2, 2), 10);
    let file = fs::File::open(&path).unwrap();
    let error = TraceWriter::resume(file, &path, b"nothing").unwrap_err();
    assert!(matches!(error, TraceError::State { .. }), "{error}");
}

/// Traces of real runs are not in the tree: `BELLJAR_TRACES` lists run directories, separated by colons.
#[test]
fn real_traces_come_back() {
    let Some(directories) = std::env::var_os("BELLJAR_TRACES") else {
        let mut told = std::io::stderr();
        let skipped = b"skipped real_traces_come_back: BELLJAR_TRACES names no run directories\n";
        let _ = std::io::Write::write_all(&mut told, skipped);
        return;
    };
    for run in std::env::split_paths(&directories) {
        let mut reader = TraceReader::open(&run.join(TRACE_FILE)).unwrap();
        let events: Vec<Event> = reader.by_ref().collect();
        let directory = tempfile::tempdir().unwrap();
        let (path, _) = written(directory.path(), &events, usize::MAX);
        let (back, state) = read(&path).unwrap();
        assert_eq!(state, TraceState::Complete);
        assert!(back == events, "{}", run.display());
    }
}
