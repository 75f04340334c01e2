//! Damage to an image is found, and files known to be whole are not read again.
use std::os::unix::fs::FileExt;

use super::*;
use crate::debian::digest;
use crate::store::manifest::{INITRD, KERNEL, MANIFEST, Manifest, ROOT};

const FILES: [(&str, usize); 3] = [(KERNEL, 5_000), (INITRD, 70), (ROOT, 3 * PIECE + 4_096)];

/// An image with files of patterned bytes.
fn built() -> (tempfile::TempDir, Image) {
    let dir = tempfile::tempdir().unwrap();
    let parts = FILES.map(|(name, size)| {
        let bytes: Vec<u8> = (0..size).map(|at| (at * 7 / 3) as u8).collect();
        fs::write(dir.path().join(name), &bytes).unwrap();
        ImageFile {
            size: size as u64,
            sha256: digest::sha256(&bytes),
        }
    });
    let [kernel, initrd, root] = parts;
    let manifest = Manifest {
        recipe: "x".to_owned(),
        key: "k".to_owned(),
        kernel_release: "6.1".to_owned(),
        modules: Vec::new(),
        environment: Default::default(),
        verified_files: 1,
        container: None,
        kernel,
        initrd,
        root,
        nfs: None,
        infiniband: None,
        ours: Vec::new(),
    };
    fs::write(dir.path().join(MANIFEST), manifest.seal()).unwrap();
    let image = Image::open(dir.path()).unwrap();
    (dir, image)
}

/// Flips a bit of a file.
fn flip(path: &Path, at: u64, bit: u32) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
}

/// Stamps for the files as they are, without hashing.
fn stamp_all(image: &Image) -> Stamps {
    let stamps = image.parts().map(|(name, path, part)| {
        let stamp = Stamp {
            sha256: part.sha256.clone(),
            identity: Identity::of(&File::open(path).unwrap()).unwrap(),
        };
        (name.to_owned(), stamp)
    });
    stamps.collect()
}

fn write(image: &Image, stamps: &Stamps) {
    let text = toml::to_string(stamps).unwrap();
    fs::write(image.dir.join(STAMPS), text).unwrap();
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let (_dir, image) = built();
    check(&image, Trust::Stamps).unwrap();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for (name, size) in FILES {
        let path = image.dir.join(name);
        for _ in 0..16 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005) + 1;
            let (at, bit) = ((seed >> 20) % size as u64, (seed >> 61) as u32);
            flip(&path, at, bit);
            let error = check(&image, Trust::Stamps).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("SHA-256"), "{error}");
            flip(&path, at, bit);
        }
    }
    check(&image, Trust::Stamps).unwrap();
}

#[test]
fn a_file_with_a_stamp_is_not_hashed_until_anything_about_it_is_another() {
    let (_dir, image) = built();
    let path = image.dir.join(ROOT);
    flip(&path, 1_000, 3);
    let stamps = stamp_all(&image);
    write(&image, &stamps);
    check(&image, Trust::Stamps).unwrap();
    image.verify().unwrap_err();
    let changes: [fn(&mut Stamp); 7] = [
        |stamp| stamp.sha256.replace_range(..1, "g"),
        |stamp| stamp.identity.device ^= 1,
        |stamp| stamp.identity.inode ^= 1,
        |stamp| stamp.identity.size ^= 1,
        |stamp| stamp.identity.modified.1 ^= 1,
        |stamp| stamp.identity.changed.0 ^= 1,
        |stamp| stamp.identity.changed.1 ^= 1,
    ];
    for change in changes {
        let mut stamps = stamps.clone();
        change(stamps.get_mut(ROOT).unwrap());
        write(&image, &stamps);
        check(&image, Trust::Stamps).unwrap_err();
    }
    for text in ["", "rubbish", "[\"root.erofs\"]\nsha256 = \"1\"\n"] {
        fs::write(image.dir.join(STAMPS), text).unwrap();
        check(&image, Trust::Stamps).unwrap_err();
    }
}

#[test]
fn a_stamp_is_kept_of_what_lies_still() {
    let (_dir, image) = built();
    check(&image, Trust::Stamps).unwrap();
    // Written just now: a write now might leave the same times.
    let young = Identity::of(&File::open(&image.root).unwrap()).unwrap();
    assert!(!young.is_settled(young.changed.0 + SETTLED - 1));
    assert!(young.is_settled(young.changed.0 + SETTLED));
    // A file that has a stamp keeps it when other files are hashed.
    let mut stamps = stamp_all(&image);
    stamps.remove(INITRD);
    write(&image, &stamps);
    check(&image, Trust::Stamps).unwrap();
    let kept = read(&image.dir);
    assert_eq!(kept.get(ROOT), stamps.get(ROOT));
    assert_eq!(kept.get(KERNEL), stamps.get(KERNEL));
}

#[test]
fn what_is_missing_or_cut_off_is_named() {
    let (_dir, image) = built();
    let file = File::options().write(true).open(&image.initrd).unwrap();
    file.set_len(69).unwrap();
    let error = check(&image, Trust::Stamps).unwrap_err().to_string();
    assert!(error.contains("initrd.cpio has 69 bytes"), "{error}");
    fs::remove_file(&image.kernel).unwrap();
    let error = check(&image, Trust::Stamps).unwrap_err().to_string();
    assert!(error.contains("vmlinuz"), "{error}");
}
