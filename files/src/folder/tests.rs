//! No entry of a folder leads out of it.
use std::io::Read;
use std::os::unix::fs::symlink;

use super::*;

/// A folder, and a file next to it that must not be written.
fn beside_a_victim() -> (tempfile::TempDir, Folder, PathBuf) {
    let above = tempfile::tempdir().unwrap();
    let victim = above.path().join("victim");
    fs::write(&victim, b"precious").unwrap();
    fs::create_dir(above.path().join("run")).unwrap();
    let folder = Folder::open(&above.path().join("run")).unwrap();
    (above, folder, victim)
}

#[test]
fn no_link_leads_out_of_it() {
    let (above, folder, victim) = beside_a_victim();
    fs::create_dir(above.path().join("elsewhere")).unwrap();
    let run = folder.path().to_owned();
    for (target, link) in [
        (victim.clone(), "absolute"),
        (PathBuf::from("../victim"), "relative"),
        (above.path().join("elsewhere"), "folder"),
    ] {
        symlink(target, run.join(link)).unwrap();
    }
    for name in ["absolute", "relative", "folder/file", "../victim"] {
        let refused = folder.existing(name).unwrap_err();
        assert!(refused.to_string().contains("link"), "{name}: {refused}");
        assert!(folder.append(name).is_err(), "{name}");
    }
    for name in ["folder/file", "../victim", "/etc/file"] {
        assert!(folder.create(name).is_err(), "{name}");
        assert!(folder.remove(name).is_err(), "{name}");
        let written = folder.write_whole(name, |file| file.write_all(b"x"));
        assert!(written.is_err(), "{name}");
    }
    assert!(folder.folder("folder").is_err());
    assert!(folder.folder("..").is_err());
    // New files replace links and leave their targets unchanged.
    folder.create("absolute").unwrap().write_all(b"1").unwrap();
    let written = folder.write_whole("relative", |file| file.write_all(b"2"));
    written.unwrap();
    assert_eq!(fs::read(run.join("absolute")).unwrap(), b"1");
    assert_eq!(fs::read(run.join("relative")).unwrap(), b"2");
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert_eq!(
        fs::read_dir(above.path().join("elsewhere"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn what_is_written_on_is_a_plain_file_of_its_own() {
    let (above, folder, victim) = beside_a_victim();
    fs::hard_link(&victim, folder.path().join("hard")).unwrap();
    let refused = folder.existing("hard").unwrap_err();
    assert!(refused.to_string().contains("second name"), "{refused}");
    assert!(folder.append("hard").is_err());
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::from_bits_truncate(0o600)).unwrap();
    // The pipe has no reader, and opening it must not wait.
    assert!(folder.existing("pipe").is_err());
    assert!(folder.append("pipe").is_err());
    assert!(folder.existing("absent").is_err());
    folder.create("hard").unwrap();
    assert_eq!(fs::read(above.path().join("victim")).unwrap(), b"precious");
    folder.folder("a/b").unwrap().create("c").unwrap();
    folder.append("a/b/c").unwrap().write_all(b"1").unwrap();
    folder.append("a/b/c").unwrap().write_all(b"2").unwrap();
    let mut file = folder.existing("a/b/c").unwrap();
    file.write_all(b"3").unwrap();
    assert_eq!(fs::read(folder.path().join("a/b/c")).unwrap(), b"32");
    folder.settle().unwrap();
}

#[test]
fn a_whole_file_is_there_or_what_was_there_before() {
    let (_above, folder, _) = beside_a_victim();
    let write = |text: &[u8]| folder.write_whole("file", |file| file.write_all(text));
    write(b"first").unwrap();
    let failed = folder.write_whole("file", |file| {
        file.write_all(b"sec")?;
        Err(io::Error::other("the disk is full"))
    });
    assert!(failed.is_err());
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"first");
    write(b"second").unwrap();
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"second");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    // A created file is also open for reading.
    let mut file = folder.create("both").unwrap();
    file.write_all(b"both").unwrap();
    io::Seek::rewind(&mut file).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "both");
}

#[test]
fn a_name_is_given_to_one_alone() {
    let (above, folder, victim) = beside_a_victim();
    let refused = publish(folder.path(), &victim).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    // Not even an empty folder is replaced.
    let taken = above.path().join("taken");
    fs::create_dir(&taken).unwrap();
    assert!(publish(folder.path(), &taken).is_err());
    publish(folder.path(), &above.path().join("whole")).unwrap();
    assert!(above.path().join("whole").is_dir());
    assert!(!folder.path().exists());
}
