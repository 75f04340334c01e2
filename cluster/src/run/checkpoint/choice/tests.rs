//! Selection among damaged checkpoints, and the reported faults.
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use super::*;
use crate::run::checkpoint::sample;

/// A run that was interrupted after two checkpoints.
fn broken() -> (tempfile::TempDir, RunDirectory) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.incomplete");
    fs::create_dir(&path).unwrap();
    sample::write(&path).unwrap();
    let directory = RunDirectory::resume(&path).unwrap();
    (folder, directory)
}

/// The number of the checkpoint that is chosen.
fn chosen(directory: &RunDirectory) -> Result<u32, String> {
    let mut choice = CheckpointChoice::among(directory.path()).unwrap();
    let found = choice.settle(directory);
    let number = found.map(|found| found.run.number);
    number.map_err(|error| error.to_string())
}

/// The selected checkpoints after flips of single bits in one of their files: at seeded places,
/// and at bytes that differ from their neighbours.
fn chosen_with_flips(name: &str) -> Vec<Result<u32, String>> {
    let (_folder, directory) = broken();
    let path = directory.path().join(FOLDER).join(name);
    let whole = fs::read(&path).unwrap();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut somewhere = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005) + 1;
        seed >> 20
    };
    let mut places: Vec<u64> = (0..40).map(|_| somewhere() % whole.len() as u64).collect();
    let filled = (0_u64..).zip(&whole).filter(|(_, byte)| **byte != 0);
    places.extend(filled.map(|(at, _)| at).step_by(whole.len() / 100 + 1));
    let file = File::options().write(true).open(&path).unwrap();
    let chosen = places.into_iter().map(|at| {
        let byte = whole[at as usize];
        let flipped = [byte ^ 1 << (somewhere() % 8)];
        file.write_all_at(&flipped, at).unwrap();
        let chosen = chosen(&directory);
        file.write_all_at(&[byte], at).unwrap();
        chosen
    });
    chosen.collect()
}

#[test]
fn the_newest_is_chosen_of_which_all_is_whole() {
    let (_folder, directory) = broken();
    assert_eq!(chosen(&directory), Ok(2));
    // Every page of the newest pack is one of the newest checkpoint.
    for name in ["2.checkpoint", "2.pages"] {
        let chosen = chosen_with_flips(name);
        assert!(chosen.len() > 40, "{}", chosen.len());
        assert!(chosen.iter().all(|chosen| *chosen == Ok(1)), "{chosen:?}");
    }
    let chosen = chosen_with_flips("1.checkpoint");
    assert!(chosen.iter().all(|chosen| *chosen == Ok(2)), "{chosen:?}");
    // Some pages of the first pack are in neither checkpoint, some only in the first, most in
    // both.
    for chosen in chosen_with_flips("1.pages") {
        match chosen {
            Ok(number) => assert_eq!(number, 2),
            Err(why) => assert!(
                why.contains("(2: node ") && why.contains("; 1: node "),
                "{why}"
            ),
        }
    }
    for chosen in chosen_with_flips("base.snapshot") {
        let why = chosen.unwrap_err();
        assert!(why.contains("(2: ") && why.contains("snapshot"), "{why}");
    }
}

#[test]
fn files_of_the_run_that_are_shorter_than_they_were_are_no_ground_to_go_on_from() {
    let (_folder, directory) = broken();
    let console = directory.path().join("console/node1.log");
    let file = File::options().write(true).open(&console).unwrap();
    for (length, expected) in [(100, Some(2)), (99, Some(1)), (50, Some(1)), (49, None)] {
        file.set_len(length).unwrap();
        assert_eq!(chosen(&directory).ok(), expected, "{length} bytes");
        assert_eq!(file.metadata().unwrap().len(), length);
    }
    fs::remove_file(&console).unwrap();
    std::os::unix::fs::symlink("/dev/null", &console).unwrap();
    let why = chosen(&directory).unwrap_err();
    assert!(why.contains("a link to elsewhere"), "{why}");
}

#[test]
fn what_is_wrong_with_each_is_named_and_nothing_is_not_damage() {
    let run = tempfile::tempdir().unwrap();
    let none = CheckpointChoice::among(run.path()).unwrap_err().to_string();
    assert!(none.contains("there is no checkpoint"), "{none}");
    let folder = run.path().join(FOLDER);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("3.checkpoint"), "rubbish that is long enough").unwrap();
    fs::write(folder.join("4.checkpoint"), "BELLCKPT").unwrap();
    // A pack is no checkpoint.
    fs::write(folder.join("5.pages"), "").unwrap();
    let mut choice = CheckpointChoice::among(run.path()).unwrap();
    let error = choice.next().unwrap_err().to_string();
    let both = "4: it ends too early; 3: it is not a checkpoint";
    assert!(error.contains(both), "{error}");
    // The result stays the same.
    assert_eq!(choice.next().unwrap_err().to_string(), error);
    let newest = IntactCheckpoint::newest(run.path()).unwrap_err();
    assert!(matches!(newest, CheckpointError::Unusable { .. }));
}
