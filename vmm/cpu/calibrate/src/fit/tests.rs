//! Files from given measurements: of the model of a known processor, and impossible ones.

use belljar_pipeline::processor::BUILT_IN;

use super::*;
use crate::loops::{self, accesses};
use crate::measure::CacheSize;
use crate::predict::Round;

const ZEN5: &str = BUILT_IN[0].1;

/// A processor that differs from the base of the fit in many parameters.
fn known() -> (Table, Processor) {
    let mut text = ZEN5.to_owned();
    for (from, to) in [
        ("dispatch = 8 ", "dispatch = 6 "),
        ("retire = 8", "retire = 6"),
        ("mispredict = 20", "mispredict = 14"),
        ("taken = 0", "taken = 1"),
        ("\nload = 4\nvector-load = 7", "\nload = 5\nvector-load = 6"),
        ("\nforward = 7", "\nforward = 5"),
        ("vector-forward = 9", "vector-forward = 6"),
        ("alu = 6", "alu = 4"),
        ("load = 4\nvector-load = 2", "load = 2\nvector-load = 2"),
        ("store = 2", "store = 1"),
        ("multiply = 3\ndivide", "multiply = 1\ndivide"),
        (
            "\nmultiply = { latency = 3 }",
            "\nmultiply = { latency = 4 }",
        ),
        ("latency = 3, chained = 2", "latency = 4, chained = 4"),
        (
            "fp-multiply = { latency = 3 }",
            "fp-multiply = { latency = 5 }",
        ),
        ("latency = 13, occupancy = 4", "latency = 15, occupancy = 8"),
        ("to-vector = { latency = 7 }", "to-vector = { latency = 3 }"),
        (
            "vector-logic = { latency = 2 }",
            "vector-logic = { latency = 1 }",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    (
        text.parse().unwrap(),
        Processor::parse("known", &text).unwrap(),
    )
}

/// The measurements of a host with this processor, by the model; its caches are given.
fn measurements(processor: &Processor) -> Measurements {
    let mut loops: BTreeMap<String, f64> = loops::all()
        .iter()
        .map(|one| {
            let cycles = Round::of(one).unwrap().cycles(processor);
            (one.name.to_owned(), cycles / f64::from(one.operations))
        })
        .collect();
    // The jumps of the loop are in blocks of their own, whose costs have the same part of a cycle.
    loops.insert("branch-rate".to_owned(), 0.34);
    loops.insert("rep-movs-32".to_owned(), 12.0);
    loops.insert("rep-movs-unaligned-4096".to_owned(), 50.0 + 4096.0 / 16.0);
    loops.insert("rep-movs-unaligned-12288".to_owned(), 50.0 + 12288.0 / 16.0);
    loops.insert("rep-movs-4096".to_owned(), 30.0 + 4096.0 / 32.0);
    loops.insert("rep-movs-12288".to_owned(), 30.0 + 12288.0 / 32.0);
    let jump = loops::all()
        .into_iter()
        .find(|one| one.name == accesses::MISPREDICTED)
        .unwrap();
    let round = Round::of(&jump).unwrap();
    let both = round.cycles(processor) + round.mispredicted_cycles(processor);
    loops.insert(accesses::MISPREDICTED.to_owned(), both / 2.0);
    let size = |kib, ways| CacheSize { kib, ways };
    Measurements {
        name: "A processor".to_owned(),
        level: 3,
        megahertz: 3_210.0,
        loops,
        caches: vec![size(32, 8), size(512, 8), size(16_384, 16)],
        lists: vec![
            (16, 5.0),
            (128, 17.0),
            (256, 17.0),
            (1024, 45.0),
            (8192, 47.0),
            (65_536, 305.0),
        ],
        streams: vec![(16, 0.5), (512, 2.0), (2048, 3.5), (98_304, 7.0)],
        misses: vec![(512, 2.0), (2048, 6.0), (65_536, 31.04)],
        pages: vec![
            (16, 5.0),
            (64, 5.1),
            (96, 12.0),
            (1024, 24.0),
            (2048, 24.0),
            (4096, 77.0),
        ],
        windows: vec![(65, 300.0), (209, 320.0), (225, 590.0), (241, 600.0)],
    }
}

#[test]
fn the_parameters_of_a_known_processor_are_found() {
    let (table, processor) = known();
    let fitted = Fitted::new("mine", ZEN5, &measurements(&processor)).unwrap();
    let mut differences = fitted.differences(&table);
    differences.retain(|key, _| {
        !["caches", "tlb", "string"]
            .iter()
            .any(|table| key.starts_with(table))
    });
    // The loops do not tell more occupancy of the conditional moves from fewer units.
    differences.remove("classes.select.occupancy");
    differences.remove("core.window");
    differences.retain(|_, (_, known)| known.is_some());
    assert!(differences.is_empty(), "{differences:?}");
    let found = fitted.processor().unwrap();
    assert_eq!((found.name.as_str(), found.level), ("mine", 3));
    let measured = found.measured.unwrap_or_default();
    assert!(measured.contains("A processor, 3.21 GHz"), "{measured}");
}

#[test]
fn caches_are_those_of_cpuid_with_measured_costs() {
    let (_, processor) = known();
    let fitted = Fitted::new("mine", ZEN5, &measurements(&processor)).unwrap();
    for (key, value) in [
        ("caches.l1d.kib", 32),
        ("caches.l2.kib", 512),
        ("caches.l2.latency", 12),
        ("caches.l2.line-ticks", 2_000),
        ("caches.l3.kib", 16_384),
        ("caches.l3.latency", 40),
        // Without the time of the second level.
        ("caches.l3.line-ticks", 1_500),
        ("caches.l3.miss-ticks", 6_000),
        ("caches.memory.latency", 300),
        ("caches.memory.line-ticks", 5_000),
        ("caches.memory.miss-ticks", 31_000),
        ("tlb.first", 64),
        ("tlb.latency", 7),
        ("tlb.walk", 60),
        ("string.bytes-per-cycle", 32),
        ("string.start", 30),
        ("string.short", 9),
        ("string.unaligned", 20),
        ("string.unaligned-bytes-per-cycle", 16),
        ("core.window", 224),
    ] {
        assert_eq!(number(&fitted.table, key), Some(value), "{key}");
    }
    assert!(fitted.notes().is_empty(), "{:?}", fitted.notes());
    assert!(fitted.text().contains("hidden = 200   # not measured"));
}

#[test]
fn a_third_level_that_loads_do_not_find_is_divided() {
    let (_, processor) = known();
    let mut measured = measurements(&processor);
    measured.lists = vec![
        (16, 5.0),
        (1024, 45.0),
        (2048, 55.0),
        (4096, 400.0),
        (65_536, 405.0),
    ];
    measured.streams = vec![
        (16, 0.5),
        (512, 2.0),
        (2048, 3.5),
        (16_384, 3.6),
        (98_304, 7.0),
    ];
    let fitted = Fitted::new("mine", ZEN5, &measured).unwrap();
    let of = |key| number(&fitted.table, key).unwrap();
    assert_eq!((of("caches.l3.kib"), of("caches.l3.latency")), (2048, 45));
    assert_eq!(
        (of("caches.l4.kib"), of("caches.l4.latency")),
        (16_384, 400)
    );
    assert!(
        fitted.notes()[0].contains("16384 KiB"),
        "{:?}",
        fitted.notes()
    );
    fitted.processor().unwrap();
    // Streams find no more of it than loads do: there is no fourth level.
    measured.streams = vec![
        (16, 0.5),
        (512, 2.0),
        (2048, 3.5),
        (16_384, 7.0),
        (98_304, 7.0),
    ];
    let fitted = Fitted::new("mine", ZEN5, &measured).unwrap();
    assert_eq!(number(&fitted.table, "caches.l3.kib"), Some(2048));
    assert_eq!(number(&fitted.table, "caches.l4.kib"), None);
}

#[test]
fn missing_and_impossible_measurements_are_named() {
    let (_, processor) = known();
    let mut all = measurements(&processor);
    let error = |all: &Measurements| Fitted::new("mine", ZEN5, all).unwrap_err().to_string();
    all.loops.remove("load-latency");
    assert_eq!(
        error(&all),
        "the measurement `load-latency` is missing; it must be a positive number of cycles"
    );
    all.loops.insert("load-latency".to_owned(), -1.0);
    assert!(error(&all).contains("`load-latency` is -1"));
    all.loops.insert("load-latency".to_owned(), 4.0);
    all.caches.truncate(1);
    assert!(error(&all).contains("caches of two levels"));
    let mut all = measurements(&processor);
    all.windows.truncate(2);
    assert!(error(&all).contains("`windows` is without an edge"));
}

/// Checks only the form of a real measurement: its values depend on the host.
#[test]
fn this_host_has_a_measurement_for_every_loop() {
    let measured = crate::measure::measure(|_| ()).unwrap();
    let here = loops::all()
        .into_iter()
        .filter(|one| one.extension.is_here());
    for one in here {
        let cycles = measured.loops[one.name];
        assert!(cycles.is_finite() && cycles > 0.0, "{}: {cycles}", one.name);
    }
    assert!((1..=4).contains(&measured.level));
    for curve in [
        &measured.lists,
        &measured.streams,
        &measured.misses,
        &measured.pages,
    ] {
        assert!(curve.iter().all(|(_, cycles)| *cycles > 0.0), "{curve:?}");
    }
}
