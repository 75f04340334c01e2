//! Conversions lose nothing, and refuse what they would lose.

mod events;

use std::fs;
use std::path::{Path, PathBuf};

use belljar_archive::{TraceReader, TraceWriter, convert, version};
use belljar_trace::{Account, Event, Folded, Polls, TraceState, TraceSummary};

fn golden(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.join("tests/golden").join(name)
}

fn calls(path: &Path) -> Vec<Event> {
    TraceReader::open(path).unwrap().collect()
}

#[test]
fn calls_are_the_same_in_every_version() {
    let directory = tempfile::tempdir().unwrap();
    for (name, number) in [("version-5.bjt", 5), ("version-6.bjt", 6)] {
        let (now, back) = (
            directory.path().join(name),
            directory.path().join(format!("back-{name}")),
        );
        let again = directory.path().join(format!("again-{name}"));
        let from = golden(name);
        assert_eq!(convert(&from, &now, 13).unwrap(), TraceState::Complete);
        assert_eq!(version(&now).unwrap(), 13);
        assert_eq!(calls(&now), calls(&from));
        assert_eq!(convert(&now, &back, number).unwrap(), TraceState::Complete);
        assert_eq!(version(&back).unwrap(), number);
        assert_eq!(calls(&back), calls(&from));
        let mut reader = TraceReader::open(&back).unwrap();
        let mut first = TraceReader::open(&from).unwrap();
        assert_eq!(reader.by_ref().count(), first.by_ref().count());
        assert_eq!(reader.summary(), first.summary());
        assert_eq!(reader.header(), first.header());
        convert(&back, &again, 13).unwrap();
        assert!(fs::read(&again).unwrap() == fs::read(&now).unwrap());
    }
}

#[test]
fn what_would_be_lost_is_refused_and_no_file_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("to.bjt");
    for (name, number) in [
        ("version-7-accounts.bjt", 5),
        ("version-7.bjt", 6),
        ("version-7.bjt", 8),
        ("version-7.bjt", 9),
    ] {
        let error = convert(&golden(name), &to, number).unwrap_err();
        assert!(error.to_string().contains("cannot convert"), "{error}");
        assert!(!to.exists());
    }
    fs::write(&to, "there already").unwrap();
    assert!(convert(&golden("version-7.bjt"), &to, 13).is_err());
    assert_eq!(fs::read(&to).unwrap(), b"there already");
}

#[test]
fn what_stands_for_several_calls_is_no_call_of_an_earlier_version() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (
        directory.path().join("from.bjt"),
        directory.path().join("to.bjt"),
    );
    let header = TraceReader::open(&golden("version-7.bjt")).unwrap();
    let mut writer = TraceWriter::create(&from, header.header(), false).unwrap();
    let mut event = events::ring(2, 1).remove(0);
    let mut polls = Polls::one(3, Account::default(), 0);
    polls.calls = 2;
    event.folded = Folded(Some(Box::new(polls)));
    writer.push(event).unwrap();
    writer.finish(&TraceSummary::default()).unwrap();
    let error = convert(&from, &to, 5).unwrap_err().to_string();
    assert!(error.contains("trace.polls=each"), "{error}");
    assert!(!to.exists());
}

#[test]
fn what_breaks_off_is_converted_as_far_as_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (
        directory.path().join("from.bjt"),
        directory.path().join("to.bjt"),
    );
    let whole = fs::read(golden("version-7.bjt")).unwrap();
    fs::write(&from, &whole[..whole.len() - 40]).unwrap();
    let state = convert(&from, &to, 5).unwrap();
    assert!(matches!(state, TraceState::Incomplete { .. }), "{state:?}");
    assert_eq!(calls(&to), calls(&from));
    let mut reader = TraceReader::open(&to).unwrap();
    assert!(reader.by_ref().count() > 0);
    assert!(matches!(reader.state(), TraceState::Incomplete { .. }));
}
