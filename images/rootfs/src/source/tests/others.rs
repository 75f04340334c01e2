//! Folders, plain archives, squashfs and Apptainer images.

// Skipped tests print a note.
#![allow(clippy::print_stderr)]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use super::*;

#[test]
fn plain_archives_are_read_in_every_compression() {
    let plain = tar(&[file("etc/.wh.kept", "x"), file("manifest.json", "[]")]);
    let packed = [gzip(&plain), xz(&plain), zstd(&plain), plain.clone()];
    for bytes in packed {
        let (_kept, path) = written(&bytes);
        let source = Source::open(&path, None).expect("opens");
        assert_eq!(source.kind(), SourceKind::Archive);
        let listing = source.read().expect("reads");
        assert_eq!(listing.digest, digest(&bytes));
        assert_eq!(texts(&listing)["etc/.wh.kept"], "x");
        let (_kept, path) = written(&bytes[..bytes.len() * 2 / 3]);
        assert!(
            Source::open(&path, None)
                .and_then(|source| source.read())
                .is_err()
        );
    }
}

#[test]
fn what_is_no_source_is_refused_by_what_it_is() {
    for (bytes, word) in [
        (&b""[..], "empty"),
        (b"BZh91AY", "bzip2"),
        (b"\x7fELF\x02", "a program"),
        (b"hello", "unknown kind"),
        (&[b'x'; 2000], "unknown kind"),
    ] {
        let (_kept, path) = written(bytes);
        let error = Source::open(&path, None).expect_err("is none").to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_folder_of_blobs_without_a_layout_is_told_from_a_root() {
    let folder = tempfile::tempdir().expect("makes");
    std::fs::write(folder.path().join("manifest.json"), "{}").expect("writes");
    let version = folder.path().join("version");
    std::fs::write(version, "Directory Transport Version: 1.1\n").expect("writes");
    let error = Source::open(folder.path(), None).expect_err("is none");
    assert!(error.to_string().contains("skopeo copy"), "{error}");
}

#[test]
fn a_folder_keeps_modes_links_and_hard_links() {
    let folder = a_folder();
    let root = folder.path();
    let listing = read(root).expect("reads");
    let find = |path: &[u8]| listing.tree.find(path).expect("is there");
    assert_eq!(find(b"a"), find(b"sub/b"));
    let metadata = std::fs::metadata(root.join("a")).expect("is there");
    let node = listing.tree.node(find(b"a"));
    assert_eq!(
        (node.mode, node.uid, node.mtime),
        (0o640, metadata.uid(), metadata.mtime() as u64)
    );
    assert_eq!(texts(&listing), tree_of_folder());
    let expected = pairs(&[("LANG", "C.UTF-8"), ("PATH", "/opt/bin:/bin")]);
    assert_eq!(listing.config.environment, expected);
    assert_eq!(read(root).expect("reads").digest, listing.digest);
    std::fs::write(root.join("a"), "DATA").expect("writes");
    assert_ne!(read(root).expect("reads").digest, listing.digest);
    std::fs::write(root.join("a"), "longer").expect("writes");
    let error = listing
        .copy(&mut Kept::default())
        .expect_err("changed")
        .to_string();
    assert!(error.contains("changed while"), "{error}");
}

#[test]
fn what_is_mounted_below_is_not_entered() {
    let folder = a_folder();
    let metadata = std::fs::metadata(folder.path()).expect("is there");
    // Mounting needs privileges: instead, treat the folder's directories as on another device.
    let other = metadata.dev() + 1;
    let (tree, ..) = folder::read_on(folder.path(), &metadata, other).expect("reads");
    let paths: Vec<&[u8]> = tree.paths().map(|(path, _)| path).collect();
    assert_eq!(
        paths,
        [&b""[..], b".singularity.d", b"a", b"large", b"link", b"sub"]
    );
}

fn a_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("makes");
    let root = folder.path();
    std::fs::create_dir_all(root.join("sub/empty")).expect("makes");
    std::fs::write(root.join("a"), "data").expect("writes");
    std::fs::set_permissions(root.join("a"), PermissionsExt::from_mode(0o640)).expect("changes");
    std::fs::hard_link(root.join("a"), root.join("sub/b")).expect("links");
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).expect("links");
    let large = "0123456789abcdef".repeat(20_000);
    std::fs::write(root.join("large"), large).expect("writes");
    std::fs::create_dir_all(root.join(".singularity.d/env")).expect("makes");
    let script = "#!/bin/sh\nexport PATH=\"/opt/bin:/bin\"\nexport LANG=\"${LANG:-\"C.UTF-8\"}\"\n";
    std::fs::write(
        root.join(".singularity.d/env/10-docker2singularity.sh"),
        script,
    )
    .expect("writes");
    folder
}

fn tree_of_folder() -> BTreeMap<String, String> {
    let large = "0123456789abcdef".repeat(20_000);
    let script = "#!/bin/sh\nexport PATH=\"/opt/bin:/bin\"\nexport LANG=\"${LANG:-\"C.UTF-8\"}\"\n";
    let path = ".singularity.d/env/10-docker2singularity.sh";
    let texts = [
        ("", "D"),
        (".singularity.d", "D"),
        (".singularity.d/env", "D"),
        (path, script),
        ("a", "data"),
        ("large", &large),
        ("link", "-> /etc/passwd"),
        ("sub", "D"),
        ("sub/b", "data"),
        ("sub/empty", "D"),
    ];
    pairs(&texts)
}

/// A squashfs of the folder, if a program to make it is installed.
pub(super) fn squashfs(options: &[&str]) -> Option<Vec<u8>> {
    let folder = a_folder();
    let out = tempfile::tempdir().expect("makes");
    let path = out.path().join("image");
    let made = Command::new("mksquashfs")
        .arg(folder.path())
        .arg(&path)
        .args(options)
        .args(["-quiet", "-no-progress"])
        .output();
    match made {
        Ok(made) if made.status.success() => Some(std::fs::read(path).expect("reads")),
        _ => {
            eprintln!("skipped: mksquashfs of squashfs-tools is missing or cannot {options:?}");
            None
        }
    }
}

#[test]
fn squashfs_is_read_in_every_compression() {
    let pseudo = "dev c 600 0 0 1 3";
    let ways = [
        &["-comp", "gzip"][..],
        &["-comp", "xz"],
        &["-comp", "xz", "-Xbcj", "x86"],
        &["-comp", "zstd", "-b", "4096"],
        &["-comp", "lz4"],
        &["-noI", "-noD", "-noF"],
        &["-no-fragments", "-b", "1M"],
        &["-all-root", "-p", pseudo, "-xattrs"],
    ];
    for options in ways {
        let Some(bytes) = squashfs(options) else {
            continue;
        };
        let (_kept, path) = written(&bytes);
        let source = Source::open(&path, None).expect("opens");
        assert_eq!(source.kind(), SourceKind::Squashfs);
        let listing = source.read().expect("reads");
        let mut texts = texts(&listing);
        let device = listing.tree.find(b"dev");
        assert_eq!(device.is_some(), options.contains(&pseudo));
        if let Some(id) = device {
            texts.remove("dev");
            assert_eq!(
                listing.tree.node(id).kind,
                NodeKind::Character { major: 1, minor: 3 }
            );
        }
        assert_eq!(texts, tree_of_folder(), "{options:?}");
        assert_eq!(listing.tree.find(b"a"), listing.tree.find(b"sub/b"));
        assert_eq!(
            listing
                .tree
                .node(listing.tree.find(b"a").expect("is there"))
                .mode,
            0o640
        );
        assert_eq!(listing.config, Config::default());
    }
}

#[test]
fn attributes_of_a_folder_and_of_its_squashfs_arrive() {
    let folder = tempfile::tempdir().expect("makes");
    for (name, value) in [("x", &b"a"[..]), ("y", &[7; 300]), ("z", &[7; 300])] {
        let path = folder.path().join(name);
        std::fs::write(&path, name).expect("writes");
        if let Err(error) = xattr::set(&path, "user.test", value) {
            eprintln!("skipped: the file system here has no attributes of users: {error}");
            return;
        }
    }
    let check = |listing: &Listing| {
        let node = |path: &[u8]| {
            listing
                .tree
                .node(listing.tree.find(path).expect("is there"))
        };
        assert_eq!(
            node(b"x").attributes.get(&b"user.test"[..]),
            Some(&b"a".to_vec())
        );
        assert_eq!(
            node(b"z").attributes.get(&b"user.test"[..]),
            Some(&vec![7; 300])
        );
    };
    check(&read(folder.path()).expect("reads"));
    let out = tempfile::tempdir().expect("makes");
    let image = out.path().join("image");
    let made = Command::new("mksquashfs")
        .arg(folder.path())
        .arg(&image)
        .arg("-quiet")
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("skipped: mksquashfs of squashfs-tools is missing");
        return;
    }
    check(&read(&image).expect("reads"));
}

/// An Apptainer image around a partition.
pub(super) fn sif(partition: &[u8], file_system: u32, processor: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..13].copy_from_slice(b"#!/usr/bin/en");
    bytes[32..42].copy_from_slice(b"SIF_MAGIC\0");
    bytes[42..45].copy_from_slice(b"01\0");
    bytes[88..96].copy_from_slice(&2_u64.to_le_bytes());
    bytes[96..104].copy_from_slice(&128_u64.to_le_bytes());
    // The first descriptor is unused; the second is the partition.
    let at = 128 + 585;
    bytes[at..at + 4].copy_from_slice(&0x4004_u32.to_le_bytes());
    bytes[at + 4] = 1;
    bytes[at + 17..at + 25].copy_from_slice(&4096_u64.to_le_bytes());
    bytes[at + 25..at + 33].copy_from_slice(&(partition.len() as u64).to_le_bytes());
    let extra = at + 585 - 384;
    bytes[extra..extra + 4].copy_from_slice(&file_system.to_le_bytes());
    bytes[extra + 4..extra + 8].copy_from_slice(&2_u32.to_le_bytes());
    bytes[extra + 8..extra + 10].copy_from_slice(processor);
    bytes.extend_from_slice(partition);
    bytes.extend_from_slice(b"a signature");
    bytes
}

#[test]
fn an_apptainer_image_gives_its_root_and_environment() {
    for (file_system, processor, word) in [
        (3, b"02", "no squashfs"),
        (5, b"02", "encrypted"),
        (1, b"04", "linux/arm64"),
    ] {
        let (_kept, path) = written(&sif(b"x", file_system, processor));
        let error = Source::open(&path, None)
            .expect_err("is refused")
            .to_string();
        assert!(error.contains(word), "{error}");
    }
    let Some(partition) = squashfs(&["-comp", "gzip"]) else {
        return;
    };
    let (_kept, path) = written(&sif(&partition, 1, b"02"));
    let source = Source::open(&path, None).expect("opens");
    assert_eq!(source.kind(), SourceKind::Sif);
    let listing = source.read().expect("reads");
    assert_eq!(texts(&listing), tree_of_folder());
    assert_eq!(listing.digest, digest(&partition));
    let expected = pairs(&[("LANG", "C.UTF-8"), ("PATH", "/opt/bin:/bin")]);
    assert_eq!(listing.config.environment, expected);
}

#[test]
fn an_apptainer_image_with_an_overlay_is_refused_by_name() {
    let mut bytes = sif(b"x", 1, b"02");
    let at = 128;
    bytes[at..at + 4].copy_from_slice(&0x4004_u32.to_le_bytes());
    bytes[at + 4] = 1;
    bytes[at + 5..at + 9].copy_from_slice(&4_u32.to_le_bytes());
    let extra = at + 585 - 384;
    bytes[extra..extra + 4].copy_from_slice(&2_u32.to_le_bytes());
    bytes[extra + 4..extra + 8].copy_from_slice(&4_u32.to_le_bytes());
    let (_kept, path) = written(&bytes);
    let error = Source::open(&path, None)
        .expect_err("is refused")
        .to_string();
    assert!(
        error.contains("has an overlay partition (data object 4)"),
        "{error}"
    );
    // A descriptor that is dropped does not count.
    bytes[at + 4] = 0;
    let (_kept, path) = written(&bytes);
    assert!(Source::open(&path, None).is_ok());
}
