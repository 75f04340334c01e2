//! A confined process can access the files of its [`Reach`] from all of its threads, and files
//! opened before. The test runs in a separate process, as the confinement is permanent.

#![allow(missing_docs, clippy::print_stderr)]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;

use belljar_cluster::host::sandbox::{Reach, Sandbox};

fn is_refused<T>(outcome: io::Result<T>) -> bool {
    matches!(outcome, Err(error) if error.raw_os_error() == Some(libc::EACCES))
}

/// The possible operations of a thread in `inside`, on a file of this name, and outside of it.
fn tries(inside: &Path, outside: &Path, name: &str) -> Vec<(&'static str, bool)> {
    let made = inside.join(name);
    let folder = inside.join("folder");
    vec![
        ("writes inside", fs::write(&made, b"1").is_ok()),
        ("reads inside", fs::read(&made).is_ok()),
        ("removes inside", fs::remove_file(&made).is_ok()),
        ("makes a folder", fs::create_dir_all(&folder).is_ok()),
        (
            "cannot read outside",
            is_refused(File::open(outside.join("secret"))),
        ),
        (
            "cannot write outside",
            is_refused(File::create(outside.join("new"))),
        ),
        (
            "cannot remove outside",
            is_refused(fs::remove_file(outside.join("secret"))),
        ),
        (
            "cannot read the host",
            is_refused(File::open("/etc/hostname")),
        ),
    ]
}

#[test]
fn a_closed_process_reaches_its_own_files_by_every_thread() {
    if !Sandbox::knows_reach().unwrap() {
        eprintln!("SKIPPED: this kernel has no Landlock");
        return;
    }
    let above = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let inside = above.path().join("run.incomplete");
    fs::create_dir(&inside).unwrap();
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    let mut open = File::open(outside.path().join("secret")).unwrap();
    let (go, wait) = channel::<()>();
    let paths = (inside.clone(), outside.path().to_owned());
    let earlier = thread::spawn(move || {
        wait.recv().unwrap();
        tries(&paths.0, &paths.1, "earlier")
    });

    let reach = Reach::nothing().writing(&inside).renaming_in(above.path());
    let sandbox = Sandbox::new().unwrap().reaching(reach);
    sandbox.close_process().unwrap();

    go.send(()).unwrap();
    let later = thread::scope(|scope| {
        let later = scope.spawn(|| tries(&inside, outside.path(), "later"));
        later.join()
    });
    let threads = [
        ("this thread", tries(&inside, outside.path(), "this")),
        ("an earlier one", earlier.join().unwrap()),
        ("a later one", later.unwrap()),
    ];
    for (thread, results) in threads {
        for (what, holds) in results {
            assert!(holds, "{thread} {what}");
        }
    }
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "secret", "what is open stays open");
    let whole = above.path().join("run");
    fs::rename(&inside, &whole).unwrap();
    File::open(above.path()).unwrap().sync_all().unwrap();
    fs::remove_dir_all(whole.join("folder")).unwrap();
    assert!(is_refused(fs::write(above.path().join("new"), b"1")));
}
