//! Untrusted checkpoints: records and packs of pages.
//!
//! For any content, a whole checkpoint is chosen or none, and no file is changed. The list of targets
//! in `lib.rs` names these functions; `tests/bounded.rs` and `cargo xtask fuzz checkpoint` run them.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use belljar_cluster::results::run_directory::RunDirectory;
use belljar_cluster::run::checkpoint::{CheckpointChoice, FOLDER, sample};
use twox_hash::XxHash3_64;

/// Length of a record's header.
const HEAD: usize = 16;
/// The checkpoint that inputs replace.
const RECORD: &str = "2.checkpoint";
const PACK: &str = "2.pages";

/// A run directory with two valid checkpoints; each input replaces the second.
struct Sample {
    _folder: tempfile::TempDir,
    directory: RunDirectory,
    record: Vec<u8>,
    pack: Vec<u8>,
}

impl Sample {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("the host has a folder for files");
        let path = folder.path().join("run.incomplete");
        fs::create_dir(&path).expect("the host makes a folder");
        sample::write(&path).expect("the host stores files");
        let read = |name| fs::read(path.join(FOLDER).join(name)).expect("a file");
        Self {
            record: read(RECORD),
            pack: read(PACK),
            directory: RunDirectory::resume(&path).expect("a run that was broken off"),
            _folder: folder,
        }
    }

    /// The sample that all inputs share, one at a time.
    fn shared() -> &'static Mutex<Self> {
        static SAMPLE: OnceLock<Mutex<Sample>> = OnceLock::new();
        SAMPLE.get_or_init(|| Mutex::new(Self::new()))
    }
}

/// Chooses among the sample's checkpoints, where `data` replaces the second: a kind, two bytes of its
/// record's length, the record and the pack. The kind's first bit corrects the record's checksums; its
/// second keeps the original pack.
pub(crate) fn target(data: &[u8]) {
    let [kind, low, high, rest @ ..] = data else {
        return;
    };
    let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
    let (record, pack) = rest.split_at(length);
    let sample = Sample::shared()
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let path = sample.directory.path();
    let record = if kind & 1 == 0 {
        record.to_vec()
    } else {
        sealed(record.to_vec())
    };
    let pack = if kind & 2 == 0 { pack } else { &sample.pack };
    let put = |name: &str, bytes: &[u8]| {
        let file = path.join(FOLDER).join(name);
        fs::write(file, bytes).expect("the host stores a file");
    };
    put(RECORD, &record);
    put(PACK, pack);
    choose(path, &sample);
}

fn choose(path: &Path, sample: &Sample) {
    let mut choice = CheckpointChoice::among(path).expect("there are two");
    // The first is valid: either it or the second is chosen.
    let found = choice
        .settle(&sample.directory)
        .expect("the first is whole");
    assert!(found.describe().contains("of virtual time"), "it says when");
    assert!(!found.files(path).is_empty(), "it has files");
}

/// The record with corrected checksums of its parts, as far as it has parts.
fn sealed(mut record: Vec<u8>) -> Vec<u8> {
    let mut at = HEAD;
    while let Some(head) = record.get(at..at + 16) {
        let length = u64::from_le_bytes(std::array::from_fn(|byte| head[byte]));
        let start = at + 16;
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| start.checked_add(length));
        let Some(part) = end.and_then(|end| record.get(start..end)) else {
            break;
        };
        let hash = XxHash3_64::oneshot(part).to_le_bytes();
        record[at + 8..start].copy_from_slice(&hash);
        at = end.unwrap_or(usize::MAX);
    }
    record
}

/// The valid one, with its pack and with all checksums corrected.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let sample = Sample::new();
    let length = (sample.record.len() as u16).to_le_bytes();
    let with = |kind: u8, pack: &[u8]| {
        let head = [kind, length[0], length[1]];
        [&head[..], &sample.record, pack].concat()
    };
    vec![with(0, &sample.pack), with(1, &sample.pack), with(3, &[])]
}
