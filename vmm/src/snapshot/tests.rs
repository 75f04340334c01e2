//! Snapshots written, copied, mapped by clones, and damaged at random positions.
use std::fs;

use belljar_cpu::guest_ram;
use vm_memory::{Bytes, GuestAddress};

use super::*;

const RANGES: [(u64, usize); 2] = [(0, 64 << 10), (1 << 32, 3 << 20)];

fn identity(clock: &str) -> Identity {
    vec![
        ("clock".to_owned(), clock.to_owned()),
        ("level".to_owned(), "x86-64-v2".to_owned()),
    ]
}

fn ram() -> GuestRam {
    let ram = guest_ram(&RANGES).unwrap();
    ram.write_slice(b"low", GuestAddress(0x1ffe)).unwrap();
    ram.write_slice(b"high", GuestAddress((1 << 32) + (2 << 20)))
        .unwrap();
    ram
}

fn read(ram: &GuestRam, at: u64) -> [u8; 4] {
    ram.read_obj(GuestAddress(at)).unwrap()
}

fn written() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node.snapshot");
    Snapshot::write(&path, &identity("2 GHz"), b"state", b"log", &ram()).unwrap();
    (folder, path)
}

#[test]
fn clones_share_what_they_do_not_write() {
    let (_folder, path) = written();
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(
        (snapshot.state(), snapshot.boot_log()),
        (&b"state"[..], &b"log"[..])
    );
    let [one, other] = [snapshot.ram().unwrap(), snapshot.ram().unwrap()];
    assert_eq!(&read(&one, 0x1ffe), b"low\0");
    one.write_slice(b"mine", GuestAddress((1 << 32) + (2 << 20)))
        .unwrap();
    assert_eq!(&read(&one, (1 << 32) + (2 << 20)), b"mine");
    assert_eq!(&read(&other, (1 << 32) + (2 << 20)), b"high");
    // The file does not change, either.
    Snapshot::open(&path).unwrap();
}

#[test]
fn zeros_take_no_room() {
    use std::os::unix::fs::MetadataExt;
    let (_folder, path) = written();
    let file = fs::metadata(&path).unwrap();
    assert!(file.len() > 3 << 20);
    assert!(file.blocks() * 512 < 256 << 10, "{}", file.blocks());
}

#[test]
fn a_copy_is_the_same_file() {
    use std::os::unix::fs::MetadataExt;
    let (folder, path) = written();
    let copy = folder.path().join("copy");
    let file = fs::File::create(&copy).unwrap();
    Snapshot::open(&path).unwrap().copy(&file).unwrap();
    assert!(fs::read(&copy).unwrap() == fs::read(&path).unwrap());
    let blocks = |path| fs::metadata(path).unwrap().blocks();
    assert!(blocks(&copy) <= blocks(&path) + 8);
}

#[test]
fn what_does_not_fit_is_named() {
    let (_folder, path) = written();
    let snapshot = Snapshot::open(&path).unwrap();
    snapshot.check(&identity("2 GHz")).unwrap();
    let error = snapshot.check(&identity("3 GHz")).unwrap_err().to_string();
    assert!(
        error.contains("its clock is 2 GHz, the scenario's 3 GHz"),
        "{error}"
    );
    let mut more = identity("2 GHz");
    more.push(("vcpus".to_owned(), "4".to_owned()));
    let error = snapshot.check(&more).unwrap_err().to_string();
    assert!(error.contains("its vcpus is unknown"), "{error}");
    let error = snapshot
        .check(&identity("2 GHz")[..1].to_vec())
        .unwrap_err();
    assert!(error.to_string().contains("level"), "{error}");
}

#[test]
fn every_damage_is_found() {
    let (_folder, path) = written();
    let whole = fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Snapshot::open(&path).unwrap_err().to_string()
    };
    assert!(refused(b"ELF").contains("no snapshot"));
    assert!(refused(&whole[..whole.len() - 1]).contains("wrong length"));
    assert!(refused(&whole[..40]).contains("ends within its header"));
    let mut version = whole.clone();
    version[8] = 99;
    assert!(refused(&version).contains("version 99"));
    // Each byte of the header, and one byte of each nonzero page.
    let ram_at = whole.len() - (64 << 10) - (3 << 20);
    let in_ram = [
        ram_at + 0x1fff,
        ram_at + 0x2000,
        ram_at + (64 << 10) + (2 << 20),
    ];
    for at in (12..80).chain(in_ram) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let error = refused(&bytes);
        assert!(error.contains("damaged"), "byte {at}: {error}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    use std::os::unix::fs::FileExt;
    let (_folder, path) = written();
    let length = fs::metadata(&path).unwrap().len();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    // The first and last bytes of holes: after the header, and of RAM.
    let edges = [4095, length - 1].map(|at| (at, 0));
    let places = (0..200).map(|number| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005) + 1;
        // Half of the positions are in the header, which is small.
        let within = if number % 2 == 0 { 4096 } else { length };
        ((seed >> 20) % within, (seed >> 61) as u32)
    });
    for (at, bit) in edges.into_iter().chain(places) {
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
        let refused = Snapshot::open(&path);
        assert!(refused.is_err(), "bit {bit} of byte {at}");
        file.write_all_at(&byte, at).unwrap();
    }
    // Written zeros are not damage.
    fs::write(&path, fs::read(&path).unwrap()).unwrap();
    Snapshot::open(&path).unwrap();
}

#[test]
fn what_stands_in_a_hole_is_no_memory() {
    use std::os::unix::fs::FileExt;
    let (_folder, path) = written();
    let file = File::options().write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    file.write_all_at(&[0xaa; 256], length - 9000).unwrap();
    let error = Snapshot::open(&path).unwrap_err().to_string();
    assert!(error.contains("where nothing was written"), "{error}");
}
