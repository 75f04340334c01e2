//! Misses of modelled pages that stand for those of others, by numbers worked out by hand.

use super::*;
use crate::memory::{DataMemory, LINE_BYTES, LineAccess};
use crate::processor::Processor;

fn parameters(sample: u32) -> MemoryParameters {
    Processor::built_in("zen5").unwrap().caches.sampled(sample)
}

fn moment(now: u64, retired: u64) -> MissMoment {
    MissMoment {
        now,
        retired,
        loads: true,
        recurrent: false,
        block: (1000, 1),
    }
}

fn from_memory(moved: u64) -> LineFound {
    LineFound {
        level: 4,
        moved,
        ..LineFound::default()
    }
}

/// A miss waits for 620 cycles less 200 that the window hides, eight times. The next one that waits is eight windows of
/// 448 instructions later.
#[test]
fn a_miss_waits_for_those_that_it_stands_for() {
    for (sample, wait) in [(1, 420_000), (8, 8 * 420_000)] {
        let parameters = parameters(sample);
        let window = 448 * u64::from(sample);
        let mut time = MissTime::default();
        let mut waits = |retired| {
            let spent = time.spend(&parameters, &from_memory(0), &moment(0, retired));
            spent.memory
        };
        let found = [10, 10 + window - 1, 10 + window].map(&mut waits);
        assert_eq!(found, [wait, 0, wait], "{sample}");
    }
}

/// A line of 5.5 cycles occupies the path for 44. Accesses wait if the path is behind by more than the queue of 150
/// cycles and the lines of seven pages.
#[test]
fn a_moved_line_occupies_the_path_for_those_that_it_stands_for() {
    let parameters = parameters(8);
    let mut time = MissTime::default();
    let stored = MissMoment {
        loads: false,
        ..moment(0, 0)
    };
    let free = 150_000 + 7 * 64 * 5500;
    let lines = free / (8 * 5500);
    for _ in 0..lines {
        let spent = time.spend(&parameters, &from_memory(5500), &stored);
        assert_eq!(spent.total(), 0);
    }
    let spent = time.spend(&parameters, &from_memory(5500), &stored);
    assert_eq!(spent.bandwidth, (lines + 1) * 8 * 5500 - free);
}

#[test]
fn one_page_of_eight_is_modelled_wherever_it_is() {
    let memory = DataMemory::new(&parameters(8));
    let pages = |start: u64| (start..start + 8192).filter(|page| memory.models(page << 12));
    for start in [0, 1 << 18] {
        let found = pages(start).count();
        assert!((900..1150).contains(&found), "{found} of 8192");
    }
    let all = DataMemory::new(&parameters(1));
    assert!((0..100).all(|page| all.models(page << 12)));
}

/// A stream through all pages is expected in each modelled page after the first one, although those between are not
/// seen.
#[test]
fn a_stream_continues_across_pages_that_are_not_modelled() {
    let mut memory = DataMemory::new(&parameters(8));
    let mut far = Vec::new();
    for line in 0..64 * 64_u64 {
        let address = line * LINE_BYTES;
        if memory.models(address) {
            let found = memory.access(&LineAccess {
                linear: address,
                physical: address,
                page_bytes: 4096,
                site: Some(7),
            });
            far.extend((found.level > 1).then_some(line));
        }
    }
    let first = (0..64).find(|page| memory.models(page << 12)).unwrap();
    assert_eq!(far, [first * 64, first * 64 + 1, first * 64 + 2]);
}
