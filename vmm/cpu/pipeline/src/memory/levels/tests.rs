//! Levels that cores share.

use super::super::{DataMemory, LINE_BYTES, LineAccess};
use super::*;
use crate::processor::{PrefetchParameters, Processor};

/// Levels of 8, 32 and 128 KiB. Two cores share the last one; nothing is prefetched.
fn parameters() -> MemoryParameters {
    let mut parameters = Processor::built_in("zen5").unwrap().caches;
    parameters.levels.truncate(3);
    let sizes = [(8, 2, None), (32, 4, None), (128, 8, Some(2))];
    for (level, (kib, ways, cores)) in parameters.levels.iter_mut().zip(sizes) {
        (level.bytes, level.ways, level.cores) = (kib << 10, ways, cores);
    }
    parameters.prefetch = PrefetchParameters {
        lines: 0,
        strides: 0,
    };
    parameters
}

fn cores(count: usize) -> Vec<DataMemory> {
    let (parameters, mut shared) = (parameters(), SharedCaches::default());
    let make = |_| DataMemory::joined(&parameters, &mut shared);
    (0..count).map(make).collect()
}

/// The number of lines that memory has when a core reads so many KiB from `start` on.
fn misses(core: &mut DataMemory, start: u64, kib: u64) -> u64 {
    let lines = start / LINE_BYTES..(start + (kib << 10)) / LINE_BYTES;
    let from_memory = lines.filter(|line| {
        let access = LineAccess {
            linear: line * LINE_BYTES,
            physical: line * LINE_BYTES,
            page_bytes: 1 << 30,
            site: Some(1),
        };
        core.access(&access).level == 3
    });
    from_memory.count() as u64
}

/// 96 KiB fit into 128 KiB, whether one core reads them or each of two reads half; 192 KiB do not.
#[test]
fn two_cores_have_one_size_together() {
    let mut alone = cores(1);
    assert_eq!(misses(&mut alone[0], 0, 96), 96 * 16);
    assert_eq!(misses(&mut alone[0], 0, 96), 0);
    let mut two = cores(2);
    for (each, wanted) in [(48, [0, 0]), (96, [96 * 16, 96 * 16])] {
        for _ in 0..3 {
            misses(&mut two[0], 0, each);
            misses(&mut two[1], 1 << 20, each);
        }
        let found = [
            misses(&mut two[0], 0, each),
            misses(&mut two[1], 1 << 20, each),
        ];
        assert_eq!(found, wanted, "{each} KiB each");
    }
}

#[test]
fn a_core_finds_lines_that_another_one_of_its_group_read() {
    let mut all = cores(4);
    assert_eq!(misses(&mut all[0], 0, 64), 64 * 16);
    assert_eq!(misses(&mut all[1], 0, 64), 0);
    assert_eq!(misses(&mut all[2], 0, 64), 64 * 16, "the other group's");
    assert_eq!(misses(&mut all[3], 0, 64), 0);
}

#[test]
fn the_first_core_saves_the_contents_for_both() {
    let mut two = cores(2);
    misses(&mut two[0], 0, 40);
    misses(&mut two[1], 1 << 20, 40);
    let saved: Vec<_> = two.iter().map(DataMemory::saved).collect();
    let mut other = cores(2);
    assert!(!other[0].load(&saved[1]) && !other[1].load(&saved[0]));
    for (core, saved) in other.iter_mut().zip(&saved) {
        assert!(core.load(saved));
    }
    for start in [0, 1 << 20, 1 << 19] {
        for (one, other) in two.iter_mut().zip(&mut other) {
            assert_eq!(misses(one, start, 50), misses(other, start, 50));
            assert_eq!(one.history(), other.history());
        }
    }
}
