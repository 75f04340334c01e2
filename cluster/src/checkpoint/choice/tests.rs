use std::fs;

use super::*;

#[test]
fn what_is_wrong_with_each_is_named_and_nothing_is_not_damage() {
    let run = tempfile::tempdir().unwrap();
    let none = Choice::among(run.path()).unwrap_err().to_string();
    assert!(none.contains("there is no checkpoint"), "{none}");
    let folder = run.path().join(FOLDER);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("3.checkpoint"), "rubbish that is long enough").unwrap();
    fs::write(folder.join("4.checkpoint"), "BELLCKPT").unwrap();
    // A pack is no checkpoint.
    fs::write(folder.join("5.pages"), "").unwrap();
    let mut choice = Choice::among(run.path()).unwrap();
    let error = choice.next().unwrap_err().to_string();
    let both = "4: it ends too early; 3: it is no checkpoint";
    assert!(error.contains(both), "{error}");
    // It stays so.
    assert_eq!(choice.next().unwrap_err().to_string(), error);
    let newest = Found::newest(run.path()).unwrap_err();
    assert!(matches!(newest, CheckpointError::Unusable { .. }));
}
