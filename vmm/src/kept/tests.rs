//! Pages written and restored: only changed pages, with and without the host's table, and damage.
use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_cpu::{guest_ram, guest_ram_over, ram_ranges};
use proptest::prelude::*;

use super::*;

const RANGES: [(u64, usize); 2] = [(0, 16 * PAGE), (1 << 32, 5000 * PAGE)];
const PAGES: u64 = 5016;

/// A file with the initial RAM: every third page is nonzero.
fn base() -> Arc<File> {
    let file = tempfile::tempfile().unwrap();
    file.set_len(PAGES * PAGE_SIZE).unwrap();
    for page in (0..PAGES).step_by(3) {
        file.write_all_at(&[page as u8 | 1; 100], page * PAGE_SIZE)
            .unwrap();
    }
    Arc::new(file)
}

fn begun(base: Option<&Arc<File>>) -> GuestRam {
    base.map_or_else(
        || guest_ram(&RANGES).unwrap(),
        |file| guest_ram_over(&RANGES, file, 0).unwrap(),
    )
}

fn contents(ram: &GuestRam) -> Vec<u8> {
    let mut all = Vec::new();
    for (start, bytes) in ram_ranges(ram) {
        let mut range = vec![0; bytes];
        ram.read_slice(&mut range, GuestAddress(start)).unwrap();
        all.extend(range);
    }
    all
}

fn address(page: u64) -> GuestAddress {
    GuestAddress(if page < 16 {
        page * PAGE_SIZE
    } else {
        (1 << 32) + (page - 16) * PAGE_SIZE
    })
}

/// Writes the changes of `ram` to a new pack; returns the number of pages in it.
fn keep(kept: &mut KeptPages, ram: &GuestRam, map: Option<&PageMap>, packs: &mut Packs) -> u32 {
    let number = packs.numbers().len() as u32;
    let mut pack = PackWriter::new(number, tempfile::tempfile().unwrap());
    kept.update(ram, map, &mut pack).unwrap();
    let pages = pack.pages();
    packs.add(number, pack.finish().unwrap());
    pages
}

#[test]
fn only_what_changed_is_written() {
    let (map, base) = (PageMap::open().unwrap(), base());
    let ram = begun(Some(&base));
    let (mut kept, mut packs) = (KeptPages::default(), Packs::default());
    // Reading does not make a page private.
    contents(&ram);
    assert_eq!(keep(&mut kept, &ram, Some(&map), &mut packs), 0);
    ram.write_slice(b"new", address(3)).unwrap();
    ram.write_slice(b"new", address(5000)).unwrap();
    assert_eq!(keep(&mut kept, &ram, Some(&map), &mut packs), 2);
    ram.write_slice(b"newer", address(5000)).unwrap();
    // The same contents again.
    ram.write_slice(b"new", address(3)).unwrap();
    // A page becomes zero.
    ram.write_slice(&[0; PAGE], address(6)).unwrap();
    assert_eq!(keep(&mut kept, &ram, Some(&map), &mut packs), 1);
    let mut by_pack = BTreeMap::new();
    kept.count(&mut by_pack);
    assert_eq!(by_pack, BTreeMap::from([(1, 1), (2, 1)]));
    let again = begun(Some(&base));
    kept.restore(&again, &packs).unwrap();
    assert!(contents(&again) == contents(&ram));
}

/// Gives pages 20 and 18 adjacent second addresses.
#[allow(unsafe_code)]
fn lay_side_by_side(ram: &GuestRam) {
    let region = ram.iter().nth(1).unwrap();
    let bitmap = region.bitmap();
    let [low, high] = [20, 18].map(|page| (page - 16) * PAGE_SIZE);
    // SAFETY: the pages lie in the region, which no other thread accesses.
    let joined = unsafe { bitmap.region().beside().join(region.as_ptr(), low, high) };
    assert!(joined);
}

#[test]
fn pages_with_a_second_address_are_looked_at_though_the_host_says_they_are_shared() {
    let (map, file) = (PageMap::open().unwrap(), base());
    for base in [None, Some(&file)] {
        let ram = begun(base);
        let (mut kept, mut packs) = (KeptPages::default(), Packs::default());
        ram.write_slice(b"before", address(20)).unwrap();
        lay_side_by_side(&ram);
        ram.write_slice(b"behind", address(18)).unwrap();
        assert_eq!(keep(&mut kept, &ram, Some(&map), &mut packs), 2);
        let again = begun(base);
        kept.restore(&again, &packs).unwrap();
        assert!(contents(&again) == contents(&ram));
    }
}

#[test]
fn what_is_missing_or_damaged_is_said() {
    let ram = begun(None);
    let (mut kept, mut packs) = (KeptPages::default(), Packs::default());
    ram.write_slice(b"new", address(9)).unwrap();
    keep(&mut kept, &ram, None, &mut packs);
    let error = |packs: &Packs| kept.restore(&begun(None), packs).unwrap_err();
    assert!(matches!(error(&Packs::default()), KeptError::NoPack(0)));
    packs.0[&0].write_all_at(b"N", 0).unwrap();
    assert!(matches!(error(&packs), KeptError::Damaged(0)));
    packs.0[&0].set_len(100).unwrap();
    assert!(matches!(error(&packs), KeptError::Read { pack: 0, .. }));
    let small = guest_ram(&[(0, 9 * PAGE)]).unwrap();
    assert!(matches!(
        kept.restore(&small, &packs).unwrap_err(),
        KeptError::Outside(9)
    ));
}

#[test]
fn a_flipped_bit_anywhere_in_a_pack_is_found() {
    let ram = begun(None);
    let (mut kept, mut packs) = (KeptPages::default(), Packs::default());
    for page in (0..PAGES).step_by(500) {
        ram.write_slice(b"new", address(page)).unwrap();
    }
    let pages = keep(&mut kept, &ram, None, &mut packs);
    kept.verify(&packs).unwrap();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..100 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005) + 1;
        let (at, bit) = (
            (seed >> 20) % (u64::from(pages) * PAGE_SIZE),
            (seed >> 61) as u32,
        );
        let mut byte = [0];
        packs.0[&0].read_exact_at(&mut byte, at).unwrap();
        let flipped = [byte[0] ^ 1 << bit];
        packs.0[&0].write_all_at(&flipped, at).unwrap();
        for refused in [kept.verify(&packs), kept.restore(&begun(None), &packs)] {
            assert!(matches!(refused, Err(KeptError::Damaged(0))), "byte {at}");
        }
        packs.0[&0].write_all_at(&byte, at).unwrap();
    }
    kept.restore(&begun(None), &packs).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Rounds of writes over a file or over zeros, each followed by an update with or without the
    /// host's table: restoring yields the final contents.
    #[test]
    fn what_is_kept_is_what_there_was(
        rounds in prop::collection::vec(
            (prop::collection::vec((0..PAGES, 0..3u8), 0..40), any::<bool>()),
            1..5,
        ),
        over_file in any::<bool>(),
    ) {
        let (map, file) = (PageMap::open().unwrap(), base());
        let base = over_file.then_some(&file);
        let ram = begun(base);
        let (mut kept, mut packs) = (KeptPages::default(), Packs::default());
        for (writes, mapped) in rounds {
            for (page, value) in writes {
                ram.write_slice(&[value; 200], address(page)).unwrap();
            }
            keep(&mut kept, &ram, mapped.then_some(&map), &mut packs);
        }
        let saved = belljar_sim::encode(&kept).unwrap();
        let kept: KeptPages = belljar_sim::decode(&saved).unwrap();
        let again = begun(base);
        kept.restore(&again, &packs).unwrap();
        prop_assert!(contents(&again) == contents(&ram));
    }
}
