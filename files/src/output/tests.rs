use std::fs;
use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn an_abandoned_file_leaves_the_old_one_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    write_file(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let mut half = OutputFile::create(&path).unwrap();
    half.write_all(b"half").unwrap();
    half.flush().unwrap();
    assert_eq!(names(folder.path()), ["a", "a.unfinished"]);
    // A second writer has its own temporary file.
    write_file(&path, "second").unwrap();
    drop(half);
    assert_eq!(names(folder.path()), ["a"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o640
    );
}

#[test]
fn a_rest_of_an_ended_process_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(folder.path().join("a.unfinished"), "a rest").unwrap();
    write_file(&path, "new").unwrap();
    assert_eq!(names(folder.path()), ["a"]);
    // A link in place of the temporary file is not followed.
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink("victim", folder.path().join("a.unfinished")).unwrap();
    write_file(&path, "newer").unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
}

#[test]
fn a_link_in_place_of_the_file_is_replaced_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, victim) = (folder.path().join("a"), folder.path().join("victim"));
    fs::write(&victim, "precious").unwrap();
    symlink("victim", &path).unwrap();
    write_file(&path, "new").unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    let opened = Folder::open(folder.path()).unwrap();
    fs::remove_file(&path).unwrap();
    symlink("victim", &path).unwrap();
    let mut file = OutputFile::create_in(&opened, "a").unwrap();
    file.write_all(b"new").unwrap();
    file.finish().unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn errors_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    mkfifo(&at("pipe"), Mode::from_bits_truncate(0o600)).unwrap();
    for path in [at("pipe"), at("absent/a"), folder.path().to_owned()] {
        let error = write_file(&path, "").unwrap_err().to_string();
        let start = format!("cannot write {}: ", path.display());
        assert!(error.starts_with(&start), "{error}");
    }
    // A full device: the error contains the reason, too.
    let error = write_file(Path::new("/dev/full"), "text").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(error.to_string().starts_with("cannot write /dev/full: "));
    write_file(Path::new("/dev/null"), "text").unwrap();
}
