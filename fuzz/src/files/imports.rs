//! Files of other tools, imported.
//!
//! Any content becomes a complete trace that can be analysed, or an error. Called by name from `lib.rs`.

use std::fs;
use std::path::Path;

use belljar_analysis::{Filter, statistics};
use belljar_archive::TraceReader;
use belljar_formats::{Format, Rates, import};
use belljar_trace::TraceState;

/// The files of an archive, by their numbers in an input.
const FILES: [&str; 8] = [
    "a.otf2", "a.def", "a/0.def", "a/0.evt", "a/1.def", "a/1.evt", "a/2.def", "a/2.evt",
];

/// An OTF2 archive: its files, each as its number, a length of two bytes, and its contents.
pub(crate) fn otf2(data: &[u8]) {
    let folder = tempfile::tempdir().expect("the host has a folder for files");
    fs::create_dir(folder.path().join("a")).expect("the host makes a folder");
    let mut rest = data;
    while let [file, low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (bytes, others) = after.split_at(length);
        let name = FILES[usize::from(*file) % FILES.len()];
        fs::write(folder.path().join(name), bytes).expect("the host stores a file");
        rest = others;
    }
    imported(&folder.path().join(FILES[0]), Format::Otf2, folder.path());
}

/// A schedule in GOAL, as text or in its binary form.
pub(crate) fn goal(data: &[u8]) {
    file(data, Format::Goal);
}

/// A time-independent trace of SimGrid with all ranks in one file.
pub(crate) fn ti(data: &[u8]) {
    file(data, Format::Ti);
}

fn file(data: &[u8], format: Format) {
    let folder = tempfile::tempdir().expect("the host has a folder for files");
    let path = folder.path().join("file");
    fs::write(&path, data).expect("the host stores a file");
    // Any detected format is a valid result.
    let _ = Format::of(&path);
    imported(&path, format, folder.path());
}

fn imported(path: &Path, format: Format, folder: &Path) {
    let out = folder.join("trace.bjt");
    let rates = Rates {
        flops_per_second: Some(1e9),
    };
    // Errors are expected; only panics are defects.
    if import(path, Some(format), rates, &out, "fuzz").is_err() {
        return;
    }
    let mut reader = TraceReader::open(&out).expect("a trace was written");
    let _ = reader.by_ref().count();
    assert_eq!(*reader.state(), TraceState::Complete);
    if let Ok((statistics, _)) = statistics(&out, &Filter::default()) {
        let _ = format!("{statistics:?}");
    }
}

/// An archive written by the otf2 package of PyPI.
pub(crate) fn otf2_seeds() -> Vec<Vec<u8>> {
    const ARCHIVE: [&[u8]; 8] = [
        include_bytes!("../../../formats/tests/archive/ring.otf2"),
        include_bytes!("../../../formats/tests/archive/ring.def"),
        include_bytes!("../../../formats/tests/archive/ring/0.def"),
        include_bytes!("../../../formats/tests/archive/ring/0.evt"),
        include_bytes!("../../../formats/tests/archive/ring/1.def"),
        include_bytes!("../../../formats/tests/archive/ring/1.evt"),
        include_bytes!("../../../formats/tests/archive/ring/2.def"),
        include_bytes!("../../../formats/tests/archive/ring/2.evt"),
    ];
    let mut seed = Vec::new();
    for (number, file) in (0u8..).zip(ARCHIVE) {
        seed.push(number);
        seed.extend((file.len() as u16).to_le_bytes());
        seed.extend(file);
    }
    vec![seed]
}

/// A schedule as text, and one in the binary form.
pub(crate) fn goal_seeds() -> Vec<Vec<u8>> {
    let text = "num_ranks 2\nrank 0 {\na: calc 5\nb: send 8b to 1 tag 7 cpu 1\nb requires a\n}\n\
                rank 1 {\nl1: recv 8b from 0 tag 7\nl2: calc 9\nl2 irequires l1\n}\n";
    let mut binary = 4223u64.to_le_bytes().to_vec();
    binary.extend(1u32.to_le_bytes());
    binary.extend([1, 1]);
    binary.extend(22u64.to_le_bytes());
    binary.extend(112u64.to_le_bytes());
    // Two operations: work without dependencies, and then a message to itself.
    for word in [2u32, 1, 0] {
        binary.extend(word.to_le_bytes());
    }
    for (kind, many) in [(3, 1u32), (1, 0)] {
        binary.extend(many.to_le_bytes());
        binary.push(kind);
        binary.extend(0u32.to_le_bytes());
        binary.extend(100u64.to_le_bytes());
        binary.extend(0u32.to_le_bytes());
        binary.extend([0, 0]);
        for word in [many, 0, 0, 0] {
            binary.extend(word.to_le_bytes());
        }
    }
    binary.extend(1u32.to_le_bytes());
    vec![text.as_bytes().to_vec(), binary]
}

/// Actions of every kind.
pub(crate) fn ti_seeds() -> Vec<Vec<u8>> {
    let text = "0 init\n1 init\n0 compute 1e6\n0 send 1 7 8 0\n1 recv 0 7 8 0\n0 irecv 1 2 4\n1 isend 0 2 4\n\
                0 wait 1 0 2\n1 waitall 1\n0 bcast 5 1 6\n1 bcast 5 1 6\n0 allreduce 5 1e3\n1 allreduce 5 1e3\n\
                0 alltoallv 9 1 2 9 3 4\n1 alltoallv 9 3 4 9 1 2\n0 gatherv 3 3 4 0 6 6\n0 reducescatter 3 4 5.5 0\n\
                0 sendRecv 3 1 4 1 0 0\n1 sleep 0.5\n0 finalize\n1 finalize\n";
    vec![text.as_bytes().to_vec()]
}
