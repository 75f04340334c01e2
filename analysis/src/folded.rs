//! Tests that each analysis treats a folded record like the separate calls that it stands for.
//!
//! Each analysis gives the same result for both, except for medians and similar figures, which need single calls. Run by the test
//! runner.

use std::path::{Path, PathBuf};

use belljar_archive::TraceWriter;
use belljar_trace::{Account, Accounts, Event, Folder, TraceSummary};
use belljar_tracer::scripted::int;
use serde_json::{Value, json};

use crate::ranks::{ANY, Ranks, WORLD};
use crate::{Detail, Filter, FrameNames, GraphsOf, Ratio, TimesMode, WaitBy};

/// A rank that repeatedly polls for a message and then receives it; it also reads clocks and tests a request.
fn events() -> (belljar_trace::TraceHeader, Vec<Event>) {
    let mut ranks = Ranks::new(2);
    let mut clock = 2000;
    for turn in 0..4u64 {
        for poll in 0..3 + turn {
            let flag = ranks.guests[1].words(&[0]);
            let arguments = [int(ANY), int(7), WORLD, flag, 1];
            let entry = clock + 300 * poll;
            ranks.call(1, entry, entry + 120 + 10 * poll, "MPI_Iprobe", &arguments);
        }
        clock += 5000;
        ranks.send(0, (clock - 2000, clock - 1500), 1, 7);
        ranks.receive(1, (clock, clock + 700), 0, 0, 7);
        for poll in 0..2 {
            let entry = clock + 1000 + 500 * poll;
            ranks.call(1, entry, entry + 110, "MPI_Wtime", &[]);
        }
        clock += 3000;
    }
    let mut trace = ranks.trace();
    for event in &mut trace.events {
        let sums = [event.entry, event.exit.unwrap()].map(|cycle| Account {
            instructions: cycle / 2,
            caches: cycle / 5,
            memory: cycle / 7,
            idle: cycle / 11,
        });
        event.accounts = Accounts(Some(sums));
        if let Some(polls) = &mut event.folded.0 {
            polls.account = sums[1].since(&sums[0]);
        }
    }
    (trace.header, trace.events)
}

/// Writes the traces of the calls, separate and folded.
fn traces(directory: &Path) -> [PathBuf; 2] {
    let (header, mut events) = events();
    events.sort_by_key(|event| (event.exit, event.node));
    let mut folder = Folder::default();
    let mut folded = Vec::new();
    let mut next = |event| {
        folded.push(event);
        Ok::<_, ()>(())
    };
    for event in events.clone() {
        folder.take(event, &mut next).unwrap();
    }
    folder.finish(&mut next).unwrap();
    // Each iteration has one record of polls, and one of clock readings.
    assert_eq!((events.len(), folded.len()), (18 + 8 + 8, 4 + 8 + 4));
    [("each.bjt", events), ("folded.bjt", folded)].map(|(name, events)| {
        let path = directory.join(name);
        let mut writer = TraceWriter::create(&path, &header, true).unwrap();
        for event in events {
            writer.push(event).unwrap();
        }
        writer.finish(&TraceSummary::default()).unwrap();
        path
    })
}

/// Removes figures that need separate calls: medians, and extremes of the time between calls.
fn without(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(members) => {
            members.retain(|key, _| !keys.contains(&key.as_str()));
            members.values_mut().for_each(|it| without(it, keys));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| without(it, keys)),
        _ => {}
    }
}

fn held_against(what: fn(&Path) -> Value, keys: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let [each, folded] = traces(directory.path()).map(|path| {
        let mut value = what(&path);
        without(&mut value, keys);
        value
    });
    assert!(!each.is_null());
    assert_eq!(folded, each);
}

#[test]
fn statistics_are_the_same_but_for_what_is_not_told() {
    let statistics = |path: &Path| json!(crate::statistics(path, &Filter::default()).unwrap().0);
    held_against(
        statistics,
        &["median_ps", "harmonic_mean_cycles", "harmonic_mean_s"],
    );
}

#[test]
fn waiting_and_the_critical_path_are_the_same() {
    const BY: WaitBy = WaitBy {
        frames: None,
        phases: true,
        delays: true,
        loops: true,
    };
    held_against(
        |path| json!(crate::waiting(path, &Filter::default(), BY).unwrap().0),
        &[],
    );
    held_against(
        |path| json!(crate::critical_path(path, true).unwrap().0),
        &[],
    );
}

#[test]
fn cycles_per_instruction_are_the_same() {
    held_against(
        |path| {
            let ratio = Ratio {
                cycles: 1,
                instructions: 1,
            };
            json!(crate::cpi(path, &Filter::default(), ratio).unwrap().0)
        },
        &[],
    );
}

#[test]
fn graphs_and_loops_are_the_same() {
    let all = |path: &Path| {
        let filter = Filter::default();
        json!(
            crate::loops(path, &filter, Detail::Tag, true, TimesMode::Read)
                .unwrap()
                .0
        )
    };
    held_against(all, &[]);
    let graphs = |path: &Path| {
        let filter = Filter::default();
        let of = (GraphsOf::default(), false);
        json!(
            crate::flow_graphs(path, &filter, Detail::Tag, of.0, of.1, TimesMode::Read)
                .unwrap()
                .0
        )
    };
    // The shortest and the longest time between two polls.
    held_against(graphs, &["min_ps", "max_ps"]);
}

#[test]
fn sites_are_the_same() {
    let sites = |path: &Path| json!(crate::call_sites(path, &Filter::default(), None).unwrap().0);
    held_against(sites, &["min_ps", "max_ps", "harmonic_mean_s"]);
}

#[test]
fn a_trace_differs_in_nothing_from_its_folded_self() {
    let directory = tempfile::tempdir().unwrap();
    let [each, folded] = traces(directory.path());
    let unnamed = [(); 2].map(|()| FrameNames::new(|_, _| Vec::new()));
    let (diff, _) = crate::diff(&each, &folded, true, unnamed).unwrap();
    assert!(diff.functions.iter().all(|own| own.calls.a == own.calls.b));
    assert!(
        diff.functions
            .iter()
            .all(|own| own.total_ps.a == own.total_ps.b)
    );
    assert!(diff.equal, "{diff:?}");
}

#[test]
fn listings_say_how_many_calls_a_record_is() {
    let directory = tempfile::tempdir().unwrap();
    let [_, folded] = traces(directory.path());
    let listed = |format| {
        let mut out = Vec::new();
        crate::dump(&folded, &Filter::default(), format, None, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let line = text.lines().find(|line| line.contains("Iprobe"));
        line.unwrap().to_owned()
    };
    let text = listed(crate::DumpFormat::Text);
    let told = "MPI_SUCCESS <390.0 ns in 3 calls until 0.000002740000>";
    assert!(text.ends_with(told), "{text}");
    let object: Value = serde_json::from_str(&listed(crate::DumpFormat::Json)).unwrap();
    let figures = [
        "calls",
        "entry",
        "exit",
        "duration_ps",
        "shortest_ps",
        "longest_ps",
    ];
    let figures = figures.map(|key| object[key].as_u64().unwrap());
    assert_eq!(figures, [3, 2000, 2740, 390_000, 120_000, 140_000]);
}
