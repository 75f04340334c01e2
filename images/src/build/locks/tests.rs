//! Writing, keeping and enforcing locks.
use std::fs;

use super::*;
use crate::debian::packages::Package;

const RECIPE: &str = r#"
    name = "tiny"
    suite = "bookworm"
    architecture = "amd64"
    kernel = { package = "linux-image-cloud-amd64" }
    initramfs = { files = ["/bin/busybox"] }
"#;

fn lock(version: &str) -> Lock {
    Lock {
        kernel_release: "6.1".to_owned(),
        kernel_sha256: "00".to_owned(),
        image: vec![Package {
            name: "bash".to_owned(),
            version: version.to_owned(),
            sha256: "11".to_owned(),
        }],
        builder: Vec::new(),
        source: Vec::new(),
    }
}

/// A recipe whose lock has `version`.
fn recipe(version: &str) -> (tempfile::TempDir, Recipe) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("tiny.toml");
    fs::write(&path, RECIPE).expect("writes");
    let recipe = Recipe::load(&path).expect("loads");
    let path = recipe.lock_path().expect("a file");
    lock(version).write(&path).expect("writes");
    (folder, recipe)
}

/// Notes and result of a build with the lock `now`.
fn told(recipe: &Recipe, now: &Lock, locks: LockUse) -> (Vec<String>, Result<(), ImageError>) {
    let mut told = Vec::new();
    let held = hold(recipe, now, locks, &mut |news| match news {
        BuildProgress::Note(note) => told.push(note),
        other => panic!("{other:?}"),
    });
    (told, held)
}

fn written(recipe: &Recipe) -> Lock {
    let path = recipe.lock_path().expect("a file");
    Lock::read(&path).expect("reads").expect("is there")
}

#[test]
fn a_lock_is_written_after_its_changes_are_told() {
    let (_folder, recipe) = recipe("5.1");
    let (told, held) = told(&recipe, &lock("5.2"), LockUse::Write);
    held.expect("builds");
    assert_eq!(told, ["bash 5.1 -> 5.2"]);
    assert_eq!(written(&recipe), lock("5.2"));
}

#[test]
fn a_lock_that_is_to_be_kept_is() {
    let (_folder, recipe) = recipe("5.1");
    let (told, held) = told(&recipe, &lock("5.2"), LockUse::Keep);
    held.expect("builds");
    assert_eq!(told[0], "bash 5.1 -> 5.2");
    assert!(told[1].contains("tiny.lock stays as it is"), "{told:?}");
    assert_eq!(written(&recipe), lock("5.1"));
}

#[test]
fn locked_refuses_with_the_list_and_writes_nothing() {
    let (_folder, recipe) = recipe("5.1");
    let (news, held) = told(&recipe, &lock("5.2"), LockUse::Locked);
    let error = held.expect_err("refuses").to_string();
    assert!(
        error.contains("tiny.toml") && error.contains("  bash 5.1 -> 5.2\n"),
        "{error}"
    );
    assert!(news.is_empty());
    assert_eq!(written(&recipe), lock("5.1"));
    let (_, held) = told(&recipe, &lock("5.1"), LockUse::Locked);
    held.expect("the same packages are no change");
    fs::remove_file(recipe.lock_path().expect("a file")).expect("removes");
    let (_, held) = told(&recipe, &lock("5.1"), LockUse::Locked);
    let error = held.expect_err("refuses").to_string();
    assert!(
        error.contains("tiny.lock") && error.contains("without --locked"),
        "{error}"
    );
}

#[test]
fn locked_refuses_by_the_names_of_files_before_they_are_fetched() {
    let (_folder, recipe) = recipe("1:5.1");
    let names = |file: &str| [file.to_owned()];
    let hold = |file: &str| hold_names(&recipe, &names(file), LockUse::Locked);
    hold("bash_1%3a5.1_amd64.deb").expect("the same");
    let error = hold("bash_1%3a5.2_amd64.deb")
        .expect_err("refuses")
        .to_string();
    assert!(error.contains("bash 1:5.1 -> 1:5.2"), "{error}");
    let error = hold("dash_1_all.deb").expect_err("refuses").to_string();
    assert!(
        error.contains("dash 1 is new") && error.contains("bash 1:5.1 is gone"),
        "{error}"
    );
    hold_names(&recipe, &names("dash_1_all.deb"), LockUse::Keep).expect("not asked");
}

#[test]
fn a_built_in_recipe_has_a_lock_that_nothing_writes() {
    let recipe = Recipe::load(Path::new("bookworm-mpich")).expect("loads");
    let now = of_recipe(&recipe).expect("parses").expect("is there");
    let (none, held) = told(&recipe, &now, LockUse::Write);
    held.expect("builds");
    assert!(none.is_empty(), "{none:?}");
    let (some, held) = told(&recipe, &lock("5.2"), LockUse::Write);
    held.expect("builds");
    assert!(some.last().expect("news").contains("stays as it is"));
}
