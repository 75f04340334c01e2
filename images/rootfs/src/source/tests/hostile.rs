//! Damaged and hostile sources: errors, never a panic.

use proptest::prelude::*;

use super::*;

/// Opens, reads and copies; returns the error, if any.
fn survives(bytes: &[u8]) -> Option<SourceError> {
    let (_kept, path) = written(bytes);
    let listing = match read(&path) {
        Ok(listing) => listing,
        Err(error) => return Some(error),
    };
    listing.copy(&mut Kept::default()).err()
}

fn archive() -> Vec<u8> {
    tar(&[
        folder("d"),
        file("d/f", "data"),
        link(EntryType::Symlink, "l", "d"),
        link(EntryType::Link, "h", "d/f"),
        file("l/g", "more"),
    ])
}

#[test]
fn paths_and_sizes_that_lead_out_are_refused() {
    for path in ["../x", "a/../../x", "a/.."] {
        let error = survives(&tar(&[file(path, "")]))
            .expect("is refused")
            .to_string();
        assert!(error.contains("`..`"), "{error}");
    }
    assert!(
        survives(&tar(&[file("./", "")])).is_none(),
        "`./` is the root, a directory"
    );
    assert!(survives(&tar(&[link(EntryType::Symlink, ".", "x")])).is_some());
    assert!(survives(&tar(&[link(EntryType::Link, "x", "../y")])).is_some());
    assert!(survives(&tar(&[made(EntryType::GNUSparse, "x", "")])).is_some());
    for size in [u64::MAX, 1 << 63, 1 << 50, 1000] {
        for kind in [
            EntryType::Regular,
            EntryType::XHeader,
            EntryType::GNULongName,
        ] {
            let mut header = Header::new_gnu();
            header.set_path("x").expect("is short");
            header.set_entry_type(kind);
            header.set_size(size);
            header.set_cksum();
            let bytes = [&header.as_bytes()[..], &[0; 1024]].concat();
            assert!(survives(&bytes).is_some(), "{size} {kind:?}");
        }
    }
    for records in [
        &b"11 size=1x\n"[..],
        b"99999999999999999999999 a=b\n",
        b"4 a\n",
        b"5 a=b",
        b"0 a=b\n",
    ] {
        let text = std::str::from_utf8(records).expect("is text");
        let bytes = tar(&[made(EntryType::XHeader, "pax", text), file("x", "")]);
        assert!(survives(&bytes).is_some(), "{text}");
    }
}

#[test]
fn a_path_of_many_parts_cannot_make_too_many_directories() {
    // Every such entry implies two thousand directories with names of up to 4 KiB.
    let mut tree = FileTree::default();
    let mut budget = error::Budget::of_metadata(64 << 20);
    let mut layer = apply::Layer::new(&mut tree, &mut budget, "here", false);
    let entry = |number: u64| entries::EntryMetadata {
        path: [number.to_string().as_bytes(), &b"/a".repeat(2000)].concat(),
        link: Vec::new(),
        kind: EntryType::Regular,
        mode: 0,
        uid: 0,
        gid: 0,
        mtime: 0,
        device: (0, 0),
        size: 0,
        attributes: BTreeMap::new(),
    };
    let applied = (0..10).find_map(|number| layer.apply(entry(number)).err());
    assert!(
        matches!(applied, Some(SourceError::Limit { .. })),
        "{applied:?}"
    );
}

#[test]
fn truncated_archives_are_errors() {
    let plain = archive();
    for end in (0..plain.len() - 1024).step_by(128) {
        assert!(survives(&plain[..end]).is_some(), "{end}");
    }
    let image = containers::as_tar(&containers::oci(&[("x", &containers::two_layers())]));
    for bytes in [gzip(&image), xz(&plain), zstd(&plain)] {
        for end in (0..bytes.len()).step_by(61) {
            assert!(survives(&bytes[..end]).is_some(), "{end}");
        }
    }
    let Some(partition) = others::squashfs(&["-comp", "zstd"]) else {
        return;
    };
    let sif = others::sif(&partition, 1, b"02");
    // Truncation of the partition's padding goes unnoticed.
    let end = sif.len() - partition.len() % 4096 - b"a signature".len();
    for end in (0..end.min(sif.len() - 4096)).step_by(257) {
        assert!(survives(&sif[..end]).is_some(), "{end}");
    }
}

#[test]
fn no_json_is_longer_than_it_may_be() {
    let mut blobs = containers::oci(&[("x", &containers::two_layers())]);
    blobs.insert(
        "index.json".to_owned(),
        vec![b' '; (error::LONGEST_JSON + 1) as usize],
    );
    let error = read(containers::as_folder(&blobs).path())
        .expect_err("is too long")
        .to_string();
    assert!(error.contains("16 MiB"), "{error}");
    blobs.insert("index.json".to_owned(), b"[".repeat(100_000));
    assert!(read(containers::as_folder(&blobs).path()).is_err());
    let digest = format!("sha256:../../../{}", "a".repeat(55));
    let index = format!(r#"{{"manifests":[{{"digest":"{digest}","size":1}}]}}"#);
    blobs.insert("index.json".to_owned(), index.into_bytes());
    assert!(read(containers::as_folder(&blobs).path()).is_err());
}

#[test]
fn links_to_files_outside_of_a_layout_are_refused() {
    let (_kept, secret) = written(b"{}");
    let folder = containers::as_folder(&containers::oci(&[("x", &containers::two_layers())]));
    let index = folder.path().join("index.json");
    std::fs::remove_file(&index).expect("is there");
    std::os::unix::fs::symlink(secret, index).expect("links");
    let error = read(folder.path()).expect_err("leads out").to_string();
    assert!(error.contains("outside"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn flipped_bytes_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let image = containers::as_tar(&containers::oci(&[("x", &containers::two_layers())]));
        for mut bytes in [archive(), image] {
            for (at, value) in &flips {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            survives(&bytes);
        }
    }

    #[test]
    fn flipped_bytes_of_a_squashfs_never_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..6),
    ) {
        static IMAGE: std::sync::OnceLock<Option<Vec<u8>>> = std::sync::OnceLock::new();
        // Uncompressed metadata, so that a flipped byte reaches the fields.
        let image = IMAGE.get_or_init(|| others::squashfs(&["-noI", "-noD", "-noF", "-noX", "-noId"]));
        if let Some(image) = image {
            let mut bytes = image.clone();
            let used = u64::from_le_bytes(bytes[40..48].try_into().expect("has eight")) as usize;
            let tables = u64::from_le_bytes(bytes[64..72].try_into().expect("has eight")) as usize;
            for (at, value, is_header) in &flips {
                let at = if *is_header { at.index(96) } else { tables + at.index(used - tables) };
                bytes[at] = *value;
            }
            survives(&bytes);
            survives(&others::sif(&bytes, 1, b"02"));
        }
    }
}
