//! Caches, buffers, prefetchers and times, against numbers worked out by hand and against a simple model.

use proptest::prelude::*;

use super::*;
use crate::processor::{
    CacheParameters, LineCost, OverlapParameters, PrefetchParameters, Processor,
    TranslationParameters,
};

fn level(kib: u64, ways: u32, latency: u32, ticks: u64) -> CacheParameters {
    CacheParameters {
        bytes: kib << 10,
        ways,
        cores: None,
        cost: LineCost {
            latency,
            line_ticks: ticks,
            miss_ticks: 2 * ticks,
            shared_ticks: 0,
        },
    }
}

/// 64 sets of two ways, 128 of four; no prefetchers unless `lines` and `strides` are given.
fn parameters(lines: u32, strides: u32) -> MemoryParameters {
    MemoryParameters {
        levels: vec![level(8, 2, 0, 0), level(32, 4, 10, 100)],
        beyond: LineCost {
            latency: 300,
            line_ticks: 5000,
            miss_ticks: 9000,
            shared_ticks: 2000,
        },
        translations: TranslationParameters {
            first: 4,
            second: 16,
            second_ways: 4,
            latency: 7,
            walk: 25,
        },
        prefetch: PrefetchParameters { lines, strides },
        overlap: OverlapParameters {
            window: 100,
            hidden: 60,
            queue: 20,
        },
        sample: 1,
    }
}

fn at(address: u64) -> LineAccess {
    LineAccess {
        linear: address,
        physical: address,
        page_bytes: 4096,
        site: Some(0x40_0000),
    }
}

/// The levels of lines accessed one after the other.
fn levels(memory: &mut DataMemory, addresses: &[u64]) -> Vec<usize> {
    let each = addresses
        .iter()
        .map(|&address| memory.access(&at(address)).level);
    each.collect()
}

#[test]
fn a_used_line_has_a_second_chance() {
    let mut memory = DataMemory::new(&parameters(0, 0));
    // Lines of the same set of the first level, and of two sets of the second one.
    let line = |number: u64| number * 4096;
    assert_eq!(levels(&mut memory, &[line(0), line(1), line(0)]), [2, 2, 0]);
    // Both are marked: the marks are cleared, and the first one is replaced.
    let third = memory.access(&at(line(2)));
    assert_eq!((third.level, third.place, third.cleared), (2, 0, 0b11));
    // The second one, which is not marked, is replaced although the first place is older.
    let fourth = memory.access(&at(line(3)));
    assert_eq!((fourth.level, fourth.place, fourth.cleared), (2, 1, 0b10));
    assert_eq!(levels(&mut memory, &[line(2), line(0)]), [0, 1]);
    assert!(memory.is_near(line(0)) && !memory.is_near(line(1)));
}

#[test]
fn pages_are_translated_at_misses_of_the_first_level() {
    let mut memory = DataMemory::new(&parameters(0, 0));
    let translations: Vec<u32> = [0, 64, 4096, 8192, 12288, 16384, 128]
        .iter()
        .map(|&address| memory.access(&at(address)).translation)
        .collect();
    // The first buffer has four entries: page 0 is only in the second one at the end.
    assert_eq!(translations, [25, 0, 25, 25, 25, 25, 7]);
    let large = LineAccess {
        page_bytes: 2 << 20,
        ..at(192)
    };
    assert_eq!(memory.access(&large).translation, 25, "another size");
}

#[test]
fn a_stream_is_prefetched_from_its_third_line_on() {
    let mut memory = DataMemory::new(&parameters(4, 0));
    let found: Vec<LineFound> = (0..6).map(|line| memory.access(&at(line * 64))).collect();
    let levels: Vec<usize> = found.iter().map(|found| found.level).collect();
    assert_eq!(levels, [2, 2, 2, 1, 1, 1]);
    // Two misses; then a miss and four lines; then a prefetched line and another one.
    let moved: Vec<u64> = found.iter().map(|found| found.moved).collect();
    assert_eq!(moved, [9000, 9000, 9000 + 4 * 5000, 100 + 5000, 5100, 5100]);
    // It does not reach into the next page, where its first line counts as prefetched.
    let rest: Vec<usize> = (6..70)
        .map(|line| memory.access(&at(line * 64)).level)
        .collect();
    assert!(rest.iter().all(|&level| level == 1), "{rest:?}");
}

#[test]
fn a_stream_downwards_is_prefetched_too() {
    let mut memory = DataMemory::new(&parameters(4, 0));
    let lines: Vec<u64> = (0..8).map(|line| (100 - line) * 64).collect();
    assert_eq!(levels(&mut memory, &lines), [2, 2, 2, 1, 1, 1, 1, 1]);
}

#[test]
fn a_stride_is_prefetched_from_its_fourth_step_on() {
    let mut memory = DataMemory::new(&parameters(0, 2));
    let stride = |number: u64| LineAccess {
        page_bytes: 1 << 30,
        ..at(number * 1024)
    };
    let found: Vec<LineFound> = (0..6)
        .map(|number| memory.access(&stride(number)))
        .collect();
    let levels: Vec<usize> = found.iter().map(|found| found.level).collect();
    assert_eq!(levels, [2, 2, 2, 2, 1, 1]);
    // The fourth one moves two lines besides, at the mean of both rates.
    assert_eq!(found[3].moved, 9000 + 2 * 7000);
}

#[test]
fn strides_within_a_stream_prefetch_nothing_more() {
    let mut memory = DataMemory::new(&parameters(4, 4));
    // Four loads, each with a stride of four lines.
    let moved: Vec<u64> = (0..32)
        .map(|line| {
            let access = LineAccess {
                site: Some(0x40_0000 + line % 4),
                ..at(line * 64)
            };
            memory.access(&access).moved
        })
        .collect();
    assert!(moved[4..].iter().all(|&moved| moved == 5100), "{moved:?}");
}

#[test]
fn string_instructions_occupy_paths_beyond_the_second_level() {
    let mut memory = DataMemory::new(&parameters(4, 4));
    let string = |line: u64| LineAccess {
        site: None,
        ..at(line * 64)
    };
    let first: Vec<u64> = (0..200)
        .map(|line| memory.access(&string(line)).moved)
        .collect();
    assert!(first.iter().all(|&moved| moved == 5000), "{first:?}");
    // The second level still has the lines that the first one lost.
    let again: Vec<LineFound> = (0..60).map(|line| memory.access(&string(line))).collect();
    assert!(
        again
            .iter()
            .all(|found| found.level == 1 && found.moved == 0)
    );
}

fn moment(now: u64, retired: u64) -> MissMoment {
    MissMoment {
        now,
        retired,
        loads: true,
        recurrent: false,
        // Two instructions a cycle: the window of 100 fills in 50 cycles.
        block: (10_000, 20),
    }
}

#[test]
fn misses_within_a_window_overlap() {
    let parameters = parameters(0, 0);
    let mut time = MissTime::default();
    let miss = LineFound {
        level: 2,
        ..LineFound::default()
    };
    let near = LineFound {
        level: 1,
        ..LineFound::default()
    };
    let mut spend = |found: &LineFound, moment: MissMoment| {
        let spent = time.spend(&parameters, found, &moment);
        (spent.caches, spent.memory)
    };
    assert_eq!(spend(&near, moment(0, 5)), (0, 0), "hidden");
    assert_eq!(spend(&miss, moment(0, 10)), (0, 250_000));
    assert_eq!(spend(&miss, moment(0, 109)), (0, 0));
    assert_eq!(spend(&miss, moment(0, 110)), (0, 250_000));
    let store = MissMoment {
        loads: false,
        ..moment(0, 500)
    };
    assert_eq!(spend(&miss, store), (0, 0));
    let recurrent = MissMoment {
        recurrent: true,
        ..moment(0, 111)
    };
    assert_eq!(spend(&miss, recurrent), (0, 300_000));
    assert_eq!(spend(&near, recurrent), (10_000, 0));
}

#[test]
fn moved_lines_delay_when_their_queue_is_full() {
    let parameters = parameters(0, 0);
    let mut time = MissTime::default();
    let store = |now| MissMoment {
        loads: false,
        ..moment(now, 7)
    };
    let moved = LineFound {
        level: 2,
        moved: 9000,
        ..LineFound::default()
    };
    let mut bandwidth = |now| time.spend(&parameters, &moved, &store(now)).bandwidth;
    // The queue holds 20 cycles: lines end at 9, 18, 27 and 36.
    assert_eq!([bandwidth(0), bandwidth(0), bandwidth(0)], [0, 0, 7000]);
    assert_eq!(bandwidth(7000), 36_000 - 27_000);
    assert_eq!(bandwidth(100_000), 0);
}

#[test]
fn translations_are_apart_in_the_account() {
    let mut time = MissTime::default();
    let found = LineFound {
        level: 1,
        translation: 25,
        ..LineFound::default()
    };
    let recurrent = MissMoment {
        recurrent: true,
        ..moment(0, 0)
    };
    let spent = time.spend(&parameters(0, 0), &found, &recurrent);
    assert_eq!((spent.translation, spent.caches), (25_000, 10_000));
    assert_eq!(spent.total(), 35_000);
}

/// A set-associative cache with second chances, written plainly.
struct Simple {
    sets: Vec<SimpleSet>,
}

/// Lines with their marks, and the hand.
type SimpleSet = (Vec<Option<(u64, bool)>>, usize);

impl Simple {
    fn new(sets: usize, ways: usize) -> Self {
        Self {
            sets: vec![(vec![None; ways], 0); sets],
        }
    }

    fn hit(&mut self, line: u64) -> bool {
        let count = self.sets.len() as u64;
        let (ways, hand) = &mut self.sets[(line % count) as usize];
        if let Some((_, used)) = ways.iter_mut().flatten().find(|(known, _)| *known == line) {
            *used = true;
            return true;
        }
        while let Some((_, used @ true)) = &mut ways[*hand] {
            *used = false;
            *hand = (*hand + 1) % ways.len();
        }
        ways[*hand] = Some((line, true));
        *hand = (*hand + 1) % ways.len();
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without prefetchers, levels are those of two simple caches one behind the other.
    #[test]
    fn levels_are_those_of_simple_caches(lines in prop::collection::vec(0..1200u64, 1..3000)) {
        let mut memory = DataMemory::new(&parameters(0, 0));
        let (mut first, mut second) = (Simple::new(64, 2), Simple::new(128, 4));
        for line in lines {
            let expected = match (first.hit(line), ()) {
                (true, ()) => 0,
                _ if second.hit(line) => 1,
                _ => 2,
            };
            prop_assert_eq!(memory.access(&at(line * 64)).level, expected, "line {}", line);
        }
    }

    /// A repeated access changes nothing, and a saved state continues in the same way.
    #[test]
    fn a_saved_state_continues(lines in prop::collection::vec((0..1200u64, 0..9u64), 1..400)) {
        let parameters = Processor::built_in("zen5").unwrap().caches;
        let mut memory = DataMemory::new(&parameters);
        let access = |&(line, site): &(u64, u64)| LineAccess {
            site: (site > 0).then_some(0x40_0000 + site),
            ..at(line * 4 * 64)
        };
        let (before, after) = lines.split_at(lines.len() / 2);
        for one in before {
            memory.access(&access(one));
            let saved = memory.saved();
            prop_assert_eq!(memory.access(&access(one)).level, 0);
            prop_assert_eq!(memory.saved(), saved);
        }
        let mut other = DataMemory::new(&parameters);
        prop_assert!(other.load(&memory.saved()));
        for one in after {
            prop_assert_eq!(memory.access(&access(one)), other.access(&access(one)));
        }
        prop_assert_eq!(memory.history(), other.history());
    }
}

#[test]
fn a_state_of_another_processor_is_refused() {
    let small = DataMemory::new(&parameters(0, 0)).saved();
    let mut zen5 = DataMemory::new(&Processor::built_in("zen5").unwrap().caches);
    assert!(!zen5.load(&small));
}

#[test]
fn lines_cost_more_after_a_span_in_which_they_did_not_fit() {
    let parameters = parameters(0, 0);
    let own = parameters.cost_of(2);
    let mut paths = shared::SharedPaths::default();
    let costs = |paths: &shared::SharedPaths| {
        let cost = paths.cost(2, own);
        (cost.line_ticks, cost.miss_ticks)
    };
    // A span of 1000 cycles has room for 500 lines of 2000 ticks.
    let mut after = |now, lines| {
        paths.renew(&parameters, now, &[lines, 0, 0]);
        costs(&paths)
    };
    assert_eq!(after(1000, 500), (5000, 9000));
    assert_eq!(after(2000, 1000), (10_000, 10_000), "twice as many");
    assert_eq!(after(3000, 500), (10_000, 10_000), "they fit now");
    assert_eq!(after(4000, 400), (8000, 9000));
    assert_eq!(after(5000, 10), (5000, 9000));
    assert_eq!(after(7000, 2000), (10_000, 10_000), "a span of 2000 cycles");
    assert_eq!(after(7001, u64::MAX), (1_000_000, 1_000_000), "the most");
    assert_eq!(paths.dearest(), 1_000_000);
    assert_eq!(
        paths.cost(1, own),
        own,
        "the second level is each core's own"
    );
}
