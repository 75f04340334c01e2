//! A checkpoint gets its final name only if it can be read again, and stays in the run
//! directory.
use std::sync::Mutex;

use super::*;

/// A run directory with a checkpoint of number 1, which refers to pack 1.
fn archive() -> (tempfile::TempDir, CheckpointArchive) {
    let run = tempfile::tempdir().unwrap();
    let folder = run.path().join(FOLDER);
    fs::create_dir(&folder).unwrap();
    for name in ["1.checkpoint", "1.pages"] {
        fs::write(folder.join(name), name).unwrap();
    }
    let archive = CheckpointArchive {
        directory: run.path().to_owned(),
        folder,
        open: None,
        bases: Vec::new(),
        kept: Vec::new(),
        records: vec![(1, BTreeSet::from([1]))],
        keep: LEAST_KEPT,
        others: BTreeMap::new(),
    };
    (run, archive)
}

fn names(archive: &CheckpointArchive) -> Vec<String> {
    let entries = fs::read_dir(&archive.folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Stores number 2, which only has `record`; returns the report.
fn keep(archive: &mut CheckpointArchive, record: CheckpointRecord) -> String {
    let pack = archive.begin(2).unwrap();
    let work = Work {
        number: 2,
        now: Time::ZERO,
        record,
        pack,
        pages: 0,
        hosts: 0,
        needed: BTreeSet::from([2]),
        pause: Duration::ZERO,
    };
    let told = Arc::new(Mutex::new(String::new()));
    let hears = told.clone();
    let tell: Tell = Arc::new(move |_, outcome| {
        *hears.lock().unwrap() = outcome.unwrap_err().to_owned();
    });
    assert!(!archive.keep(&work, &tell));
    told.lock().unwrap().clone()
}

#[test]
fn what_cannot_be_read_again_takes_no_place() {
    let (_run, mut archive) = archive();
    let told = keep(&mut archive, CheckpointRecord::of_parts(vec![vec![1; 40]]));
    assert!(told.contains("cannot be read again"), "{told}");
    assert_eq!(names(&archive), ["1.checkpoint", "1.pages"]);
    // Never touched, so that it takes no memory.
    let large = vec![Vec::new(), vec![0; super::super::LONGEST + 1]];
    let told = keep(&mut archive, CheckpointRecord::of_parts(large));
    assert!(
        told.contains("node 0 is too large for a checkpoint"),
        "{told}"
    );
    assert_eq!(names(&archive), ["1.checkpoint", "1.pages"]);
}

#[test]
fn checkpoints_stay_in_the_run_directory() {
    let (run, mut archive) = archive();
    let victim = run.path().join("victim");
    fs::write(&victim, b"precious").unwrap();
    // At the path of the next pack.
    std::os::unix::fs::symlink(&victim, archive.folder.join("2.pages")).unwrap();
    let mut pack = archive.begin(2).unwrap();
    pack.write_all(b"pages").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    // At the path of the folder.
    let elsewhere = run.path().join("elsewhere");
    fs::rename(&archive.folder, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &archive.folder).unwrap();
    archive.open = None;
    let refused = archive.begin(3).unwrap_err().to_string();
    assert!(refused.contains("a link to elsewhere"), "{refused}");
    assert!(!elsewhere.join("3.pages").exists());
}

#[test]
fn every_other_record_goes_and_the_newest_stays() {
    let thinned = |count: u32| {
        let mut records: Vec<u32> = (1..=count).collect();
        thin_out(&mut records);
        records
    };
    assert_eq!(thinned(5), [1, 3, 5]);
    assert_eq!(thinned(6), [2, 4, 6]);
    assert_eq!(thinned(1), [1]);
}
