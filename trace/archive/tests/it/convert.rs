//! Conversions keep every call, and leave no partial file.

use std::fs;
use std::path::{Path, PathBuf};

use belljar_archive::{TraceReader, convert, version};
use belljar_trace::{Event, TraceState, VERSION};

fn golden(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.join("tests/golden").join(name)
}

fn calls(path: &Path) -> Vec<Event> {
    TraceReader::open(path).unwrap().collect()
}

#[test]
fn calls_stay_the_same() {
    let directory = tempfile::tempdir().unwrap();
    for earlier in 11..VERSION {
        for kind in ["", "-sites"] {
            let from = golden(&format!("version-{earlier}{kind}.bjt"));
            let now = directory.path().join(format!("{earlier}{kind}"));
            assert_eq!(convert(&from, &now).unwrap(), TraceState::Complete);
            assert_eq!(version(&from).unwrap(), earlier);
            assert_eq!(version(&now).unwrap(), VERSION);
            for (number, (now, from)) in calls(&now).iter().zip(calls(&from)).enumerate() {
                assert_eq!(*now, from, "call {number} of version {earlier}{kind}");
            }
            let mut reader = TraceReader::open(&now).unwrap();
            let mut first = TraceReader::open(&from).unwrap();
            assert_eq!(reader.by_ref().count(), first.by_ref().count());
            assert_eq!(reader.summary(), first.summary());
            assert_eq!(reader.header(), first.header());
        }
    }
}

#[test]
fn an_existing_file_is_refused_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("to.bjt");
    fs::write(&to, "there already").unwrap();
    assert!(convert(&golden("version-11.bjt"), &to).is_err());
    assert_eq!(fs::read(&to).unwrap(), b"there already");
}

#[test]
fn a_broken_trace_is_converted_as_far_as_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (
        directory.path().join("from.bjt"),
        directory.path().join("to.bjt"),
    );
    let whole = fs::read(golden("version-12.bjt")).unwrap();
    fs::write(&from, &whole[..whole.len() - 40]).unwrap();
    let state = convert(&from, &to).unwrap();
    assert!(matches!(state, TraceState::Incomplete { .. }), "{state:?}");
    assert_eq!(calls(&to), calls(&from));
    let mut reader = TraceReader::open(&to).unwrap();
    assert!(reader.by_ref().count() > 0);
    assert!(matches!(reader.state(), TraceState::Incomplete { .. }));
}
