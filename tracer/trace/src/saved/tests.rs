//! Events and traces that are continued are those that were never left.

use std::fs;
use std::io::Write;

use super::*;
use crate::account::Accounts;
use crate::counters::TraceSummary;
use crate::file::TraceWriter;
use crate::file::tests::{event, header};

/// Events with sums.
fn events(count: u64) -> Vec<Event> {
    let events = (0..count).map(|number| {
        let sum = |instructions| Account {
            instructions,
            ..Account::default()
        };
        let mut event = event(number);
        event.accounts = Accounts(Some([sum(number << 20), sum((number << 20) + number)]));
        event
    });
    events.collect()
}

#[test]
fn events_come_back_with_their_sums() {
    let events = events(5);
    let saved = save_events(&events).unwrap();
    assert_eq!(load_events(&saved).unwrap(), events);
    for length in 0..saved.len() {
        assert!(load_events(&saved[..length]).is_err());
    }
}

#[test]
fn a_trace_that_is_gone_on_with_is_the_one_that_was_never_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let header = header();
    // More than a chunk before, and more than one after.
    let events = events(20_000);
    let (before, behind) = events.split_at(9_500);
    for accounted in [false, true] {
        let create = |name: &str| {
            let create = [TraceWriter::create, TraceWriter::create_accounted];
            create[usize::from(accounted)](&path(name), &header).unwrap()
        };
        let mut whole = create("whole");
        whole.append(&events).unwrap();
        whole.finish(&TraceSummary::default()).unwrap();

        let mut broken = create("broken");
        broken.append(before).unwrap();
        let saved = broken.save().unwrap();
        broken.append(behind).unwrap();
        broken.flush().unwrap();
        // Killed in the middle of a chunk.
        let mut file = fs::File::options()
            .append(true)
            .open(path("broken"))
            .unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        let resume = |name: &str| {
            let file = fs::File::options().write(true).open(path(name)).unwrap();
            TraceWriter::resume(file, &path(name), accounted, &saved)
        };
        let mut resumed = resume("broken").unwrap();
        assert_eq!(resumed.events(), before.len() as u64);
        resumed.append(behind).unwrap();
        resumed.finish(&TraceSummary::default()).unwrap();
        assert!(fs::read(path("broken")).unwrap() == fs::read(path("whole")).unwrap());

        fs::write(path("short"), b"BelljarT").unwrap();
        let error = resume("short").unwrap_err();
        assert!(error.to_string().contains("it has 8 bytes"), "{error}");
    }
}
