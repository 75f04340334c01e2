//! Statistics of some iterations, compared with those of all.

use std::path::Path;

use belljar_archive::TraceWriter;
use belljar_thinning::{COLLECTED_FILE, Collector};
use belljar_trace::{TRACE_FILE, TraceError, TraceSummary};

use super::*;
use crate::generated::Stencil;
use crate::sums::stat::Statistics;
use crate::{counts, statistics};

const STENCIL: Stencil = Stencil {
    width: 3,
    height: 2,
    steps: 300,
    rounds: 2,
    report: 10,
};

/// Writes the trace, and for a trace of some iterations the file of dropped calls.
fn write(folder: &Path, iterations: Option<u64>) {
    let path = folder.join(TRACE_FILE);
    let mut writer = TraceWriter::create(&path, &STENCIL.header(), false).unwrap();
    let mut push = |event| writer.push(event);
    if let Some(iterations) = iterations {
        let mut collector = Collector::new(iterations);
        let mut events = STENCIL.events();
        let taken = events.try_for_each(|event| collector.take(event, &mut push));
        taken.unwrap();
        let text = collector.collected().text();
        std::fs::write(folder.join(COLLECTED_FILE), text).unwrap();
    } else {
        STENCIL.events().try_for_each(push).unwrap();
    }
    writer.finish(&TraceSummary::default()).unwrap();
}

fn both() -> [tempfile::TempDir; 2] {
    [None, Some(10)].map(|iterations| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), iterations);
        folder
    })
}

/// Removes the figures that need single calls.
fn whole(mut of: Statistics) -> Statistics {
    of.functions.iter_mut().for_each(|it| it.median_ps = 0);
    for intervals in of
        .ranks
        .iter_mut()
        .map(|it| &mut it.intervals)
        .chain([&mut of.intervals])
    {
        // Sums in another order differ in the last digits.
        intervals.harmonic_mean_cycles = (intervals.harmonic_mean_cycles * 1e6).round();
        intervals.harmonic_mean_s = (intervals.harmonic_mean_s * 1e15).round();
    }
    (of.sizes, of.traffic, of.kept) = (Vec::new(), Vec::new(), None);
    // Efficiencies are of whole traces.
    of.efficiency = None;
    of
}

#[test]
fn statistics_of_some_iterations_are_those_of_all() {
    let folders = both();
    let [all, some] = folders.each_ref().map(|it| it.path().join(TRACE_FILE));
    let one = Filter {
        ranks: vec![4],
        ..Filter::default()
    };
    for filter in [Filter::default(), one] {
        let (expected, _) = statistics(&all, &filter).unwrap();
        let (found, _) = statistics(&some, &filter).unwrap();
        let kept = found.kept.unwrap();
        assert!(
            kept.counted && kept.dropped_calls > STENCIL.calls() / 2,
            "{kept:?}"
        );
        assert_eq!(whole(found), whole(expected));
        let (expected, _) = counts(&all, &filter).unwrap();
        let (found, _) = counts(&some, &filter).unwrap();
        assert_eq!(whole(found), whole(expected));
    }
}

#[test]
fn sums_are_not_added_to_a_part_that_they_do_not_tell() {
    let [_, some] = both();
    let path = some.path().join(TRACE_FILE);
    let filter = Filter {
        functions: vec!["MPI_Allreduce".to_owned()],
        ..Filter::default()
    };
    let (found, _) = statistics(&path, &filter).unwrap();
    assert!(!found.kept.unwrap().counted);
    assert!(
        found.functions[0].calls < 6 * 2 * 150,
        "{:?}",
        found.functions
    );
    std::fs::write(some.path().join(COLLECTED_FILE), "[]").unwrap();
    let error = statistics(&path, &Filter::default()).unwrap_err();
    assert!(matches!(error, TraceError::Lacks { .. }), "{error}");
}

#[test]
fn sums_of_any_size_are_told() {
    let [_, some] = both();
    let file = some.path().join(COLLECTED_FILE);
    let text = std::fs::read(&file).unwrap();
    let mut told: serde_json::Value = serde_json::from_slice(&text).unwrap();
    for thread in told["threads"].as_array_mut().unwrap() {
        for sums in thread["functions"].as_object_mut().unwrap().values_mut() {
            sums["nested"] = u64::MAX.into();
            for key in ["count", "sum", "most"] {
                sums["cycles"]["kept"][key] = u64::MAX.into();
            }
            sums["cycles"]["dropped"] = sums["cycles"]["kept"].clone();
        }
        thread["gaps"]["sum"] = u64::MAX.into();
        thread["gaps"]["count"] = u64::MAX.into();
    }
    std::fs::write(&file, told.to_string()).unwrap();
    let path = some.path().join(TRACE_FILE);
    for found in [
        statistics(&path, &Filter::default()),
        counts(&path, &Filter::default()),
    ] {
        let (found, _) = found.unwrap();
        let mut out = Vec::new();
        found.write(&mut out).unwrap();
        found.write_json(&mut out).unwrap();
    }
}
