//! Images by mkfs.erofs, whole and damaged.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;

/// An image of a tree with various file sizes, by mkfs.erofs; `None` if that is not installed.
fn image(folder: &Path) -> Option<(PathBuf, BTreeMap<String, Vec<u8>>)> {
    let tree = folder.join("tree");
    let mut files = BTreeMap::new();
    for (index, size) in [0usize, 1, 63, 4095, 4096, 4097, 100_000]
        .iter()
        .enumerate()
    {
        let path = format!("/a/deep{index}/folder/file{index}");
        let bytes: Vec<u8> = (0..*size).map(|at| (at * 7 + index) as u8).collect();
        let target = tree.join(path.trim_start_matches('/'));
        fs::create_dir_all(target.parent()?).ok()?;
        fs::write(&target, &bytes).ok()?;
        files.insert(path, bytes);
    }
    for number in 0..500 {
        let path = format!("/many/{number:0>40}");
        fs::create_dir_all(tree.join("many")).ok()?;
        fs::write(tree.join(&path[1..]), path.as_bytes()).ok()?;
        files.insert(path.clone(), path.into_bytes());
    }
    let image = folder.join("image");
    let made = Command::new("mkfs.erofs")
        .args(["--quiet", "-x-1"])
        .args([&image, &tree])
        .output();
    made.ok()?.status.success().then_some((image, files))
}

#[test]
#[allow(clippy::print_stderr)]
fn files_are_read_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let Some((image, expected)) = image(folder.path()) else {
        eprintln!("SKIPPED: mkfs.erofs is not installed (apt install erofs-utils)");
        return;
    };
    let mut found = BTreeMap::new();
    for mut file in root_tree(&image).unwrap().files {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, file.size());
        found.insert(file.path.clone(), bytes);
    }
    assert!(found == expected, "{:?}", found.keys());
    damage(&image, folder.path());
}

/// Changes bytes of the image one by one: the reader must return, with or without an error.
fn damage(image: &Path, folder: &Path) {
    let whole = fs::read(image).unwrap();
    let copy = folder.join("copy");
    let mut refused = 0;
    for at in (1024..whole.len().min(30_000)).step_by(61) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x81;
        fs::write(&copy, &bytes).unwrap();
        match root_tree(&copy) {
            Ok(tree) => {
                for mut file in tree.files.into_iter().filter(|file| file.size() < 1 << 20) {
                    let _ = file.read_to_end(&mut Vec::new());
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0, "nothing was found to be damaged");
}

#[test]
#[allow(clippy::print_stderr)]
fn links_are_read_as_they_were_made_and_damage_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("usr/lib/deep")).unwrap();
    let mut expected = BTreeMap::new();
    for number in 0..300 {
        let target = format!("../{}", "x".repeat(number % 90 + 1));
        let path = format!("/usr/lib/deep/link{number}");
        symlink(&target, tree.join(&path[1..])).unwrap();
        expected.insert(path, target);
    }
    fs::write(tree.join("usr/file"), "no link").unwrap();
    symlink("usr/lib", tree.join("lib")).unwrap();
    expected.insert("/lib".to_owned(), "usr/lib".to_owned());
    let image = folder.path().join("image");
    let mut mkfs = Command::new("mkfs.erofs");
    let made = mkfs
        .args(["--quiet", "-x-1"])
        .args([&image, &tree])
        .output();
    if !made.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: mkfs.erofs is not installed (apt install erofs-utils)");
        return;
    }
    assert_eq!(root_tree(&image).unwrap().links, expected);
    let whole = fs::read(&image).unwrap();
    let copy = folder.path().join("copy");
    let mut refused = 0;
    for at in (1024..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x81;
        fs::write(&copy, &bytes).unwrap();
        refused += usize::from(root_tree(&copy).is_err());
    }
    assert!(refused > 0, "nothing was found to be damaged");
}
