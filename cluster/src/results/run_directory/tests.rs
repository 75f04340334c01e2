//! Run directories: their names, locks and contents.
use super::*;

#[test]
fn a_run_is_incomplete_until_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = folder.path().join("run");
    let directory = RunDirectory::create(Some(&wanted), "name").unwrap();
    directory.write("summary.json", "{}").unwrap();
    assert!(directory.path().ends_with("run.incomplete"));
    assert!(!wanted.exists());
    assert_eq!(directory.complete(Some("checkpoint")).unwrap(), wanted);
    assert_eq!(
        fs::read_to_string(wanted.join("summary.json")).unwrap(),
        "{}"
    );
}

#[test]
fn runs_at_once_get_directories_of_their_own() {
    const RUNS: usize = 8;
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let make = || RunDirectory::make_first_free(folder.path(), "run").unwrap();
        let complete = |number: usize| {
            let directory = make();
            directory
                .write("summary.json", &number.to_string())
                .unwrap();
            // Other runs start while some are completed.
            directory.complete(Some("checkpoint")).unwrap()
        };
        let complete = &complete;
        let mut made: Vec<PathBuf> = thread::scope(|scope| {
            let runs: Vec<_> = (0..RUNS)
                .map(|number| scope.spawn(move || complete(number)))
                .collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        made.sort();
        made.dedup();
        assert_eq!(made.len(), RUNS);
    }
}

#[test]
fn a_run_that_goes_on_writes_into_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, b"precious").unwrap();
    let wanted = folder.path().join("run");
    drop(RunDirectory::create(Some(&wanted), "name").unwrap());
    let directory = RunDirectory::resume(&wanted).unwrap();
    let names = ["trace.bjt", "console/node0.log", "summary.json"];
    for name in names {
        std::os::unix::fs::symlink(&victim, directory.path().join(name)).unwrap();
        let refused = directory.resume_file(name, 1).unwrap_err();
        assert!(refused.to_string().contains("a link"), "{refused}");
    }
    directory.write("summary.json", "{}").unwrap();
    directory.file("trace.bjt").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn a_whole_run_has_no_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = folder.path().join("run");
    let directory = RunDirectory::create(Some(&wanted), "name").unwrap();
    directory.folder("checkpoint").unwrap();
    directory.file("checkpoint/1.pages").unwrap();
    // A directory of the same name, made meanwhile, is not touched.
    fs::create_dir(&wanted).unwrap();
    let refused = directory.complete(Some("checkpoint")).unwrap_err();
    assert!(refused.to_string().contains("rename"), "{refused}");
    assert!(
        folder
            .path()
            .join("run.incomplete/checkpoint/1.pages")
            .exists()
    );
    fs::remove_dir(&wanted).unwrap();
    let directory = RunDirectory::resume(&wanted).unwrap();
    directory.complete(Some("checkpoint")).unwrap();
    assert!(wanted.join("console").is_dir() && !wanted.join("checkpoint").exists());
}

#[test]
fn an_earlier_run_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = folder.path().join("run");
    let broken = RunDirectory::create(Some(&wanted), "name").unwrap();
    let refused = RunDirectory::create(Some(&wanted), "name").unwrap_err();
    assert!(refused.to_string().contains("run.incomplete"), "{refused}");
    broken.complete(Some("checkpoint")).unwrap();
    let refused = RunDirectory::create(Some(&wanted), "name").unwrap_err();
    assert!(refused.to_string().contains("--out"), "{refused}");
}
