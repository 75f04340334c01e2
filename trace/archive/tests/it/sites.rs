//! Calls with call sites: round trips, continuation, damage, conversion.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use belljar_archive::{Contents, StructureReader, TraceReader, TraceWriter, version};
use belljar_sim::Frequency;
use belljar_trace::{Event, Site, TraceHeader, TraceState, TraceSummary, VERSION};
use proptest::prelude::*;

use crate::events::{any_events, ring, site};

fn header() -> TraceHeader {
    TraceHeader::new("ring", &[Frequency::from_hz(2_600_000_000).unwrap()])
}

fn writer(path: &Path) -> TraceWriter {
    let contents = Contents {
        accounted: false,
        frames: 3,
    };
    TraceWriter::over(File::create(path).unwrap(), path, &header(), contents).unwrap()
}

/// The same calls, with call sites given by `numbers`.
fn sited(events: Vec<Event>, numbers: &[u64]) -> Vec<Event> {
    let numbers = numbers.iter().cycle();
    let events = events.into_iter().zip(numbers);
    let events = events.map(|(event, number)| Event {
        site: site(*number),
        ..event
    });
    events.collect()
}

fn push(writer: &mut TraceWriter, events: &[Event], chunk: usize) {
    for (number, event) in events.iter().enumerate() {
        writer.push(event.clone()).unwrap();
        if number % chunk == chunk - 1 {
            writer.flush().unwrap();
        }
    }
}

fn written(folder: &Path, events: &[Event], chunk: usize) -> PathBuf {
    let path = folder.join("out.bjt");
    let mut writer = writer(&path);
    push(&mut writer, events, chunk);
    let sizes = writer.finish(&TraceSummary::default()).unwrap();
    assert_eq!(sizes.total(), fs::metadata(&path).unwrap().len());
    path
}

fn numbers() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0..9u64, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sites_come_back(events in any_events(120), numbers in numbers(), chunk in 1..150usize) {
        let folder = tempfile::tempdir().unwrap();
        let events = sited(events, &numbers);
        let path = written(folder.path(), &events, chunk);
        let mut reader = TraceReader::open(&path).unwrap();
        prop_assert_eq!(reader.contents().frames, 3);
        prop_assert_eq!(reader.by_ref().collect::<Vec<_>>(), events);
        prop_assert_eq!(reader.state(), &TraceState::Complete);
    }

    #[test]
    fn a_trace_with_sites_continues_to_the_same_bytes(
        events in any_events(60),
        numbers in numbers(),
        (chunk, at) in (1..40usize, 0..60usize),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let events = sited(events, &numbers);
        let at = at.min(events.len()) / chunk * chunk;
        let whole = fs::read(written(folder.path(), &events, chunk)).unwrap();
        let path = folder.path().join("parts.bjt");
        let mut first = writer(&path);
        let half = at + (events.len() - at).min(chunk - 1) / 2;
        push(&mut first, &events[..half], chunk);
        let saved = first.save().unwrap();
        drop(first);
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut second = TraceWriter::resume(file, &path, &saved).unwrap();
        for (number, event) in events.iter().enumerate().skip(half) {
            second.push(event.clone()).unwrap();
            if number % chunk == chunk - 1 {
                second.flush().unwrap();
            }
        }
        second.finish(&TraceSummary::default()).unwrap();
        prop_assert!(fs::read(&path).unwrap() == whole);
    }

    /// Data from a damaged file or a damaged state is either refused or valid.
    #[test]
    fn damage_never_panics(
        (events, numbers) in (any_events(40), numbers()),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let events = sited(events, &numbers);
        let path = written(folder.path(), &events, 20);
        let mut bytes = fs::read(&path).unwrap();
        let mut half = writer(&folder.path().join("half.bjt"));
        push(&mut half, &events, 30);
        let mut saved = half.save().unwrap();
        for (place, value) in damages {
            let at = place.index(bytes.len());
            bytes[at] = value;
            let at = place.index(saved.len());
            saved[at] = value;
        }
        fs::write(&path, &bytes).unwrap();
        if let Ok(reader) = TraceReader::open(&path) {
            reader.for_each(drop);
        }
        let half = folder.path().join("half.bjt");
        let file = fs::OpenOptions::new().read(true).write(true).open(&half).unwrap();
        if let Ok(mut writer) = TraceWriter::resume(file, &half, &saved) {
            push(&mut writer, &events, 30);
            let _ = writer.finish(&TraceSummary::default());
            TraceReader::open(&half).unwrap().for_each(drop);
        }
    }
}

#[test]
fn sites_of_a_loop_cost_next_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let events = ring(4, 2000);
    let path = folder.path().join("plain.bjt");
    let mut plain = TraceWriter::create(&path, &header(), false).unwrap();
    push(&mut plain, &events, usize::MAX);
    plain.finish(&TraceSummary::default()).unwrap();
    let plain = fs::metadata(&path).unwrap().len();
    let sites = sited(events, &[1, 2, 3]);
    let path = written(folder.path(), &sites, usize::MAX);
    let more = fs::metadata(&path).unwrap().len() - plain;
    assert!(more < 500, "{more} bytes for {} calls", sites.len());
}

#[test]
fn without_frames_sites_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, events: &[Event]| {
        let path = folder.path().join(name);
        let mut writer = TraceWriter::create(&path, &header(), false).unwrap();
        push(&mut writer, events, 50);
        writer.finish(&TraceSummary::default()).unwrap();
        fs::read(&path).unwrap()
    };
    let events = ring(3, 10);
    let plain = file("plain.bjt", &events);
    assert!(plain == file("sited.bjt", &sited(events, &[1, 2])));
    assert_eq!(version(&folder.path().join("sited.bjt")).unwrap(), VERSION);
}

#[test]
fn structure_does_not_know_sites() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), &sited(ring(3, 10), &[1, 2]), 50);
    let mut reader = StructureReader::open(&path).unwrap();
    let mut signatures = 0;
    while let Some(structure) = reader.advance() {
        for number in &structure.signatures {
            let event = reader.signature(*number).unwrap();
            assert_eq!(event.site, Site(None));
            signatures += 1;
        }
    }
    assert!(signatures > 0);
    assert_eq!(reader.state(), &TraceState::Complete);
}
