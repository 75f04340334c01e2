//! Counts of a trace whose times are all overwritten equal those of the whole trace.

use std::fs;
use std::path::{Path, PathBuf};

use belljar_archive::TraceWriter;
use belljar_trace::{Account, Folded, Polls, TraceState, TraceSummary};
use serde_json::{Value, json};

use super::TimesMode;
use crate::generated::Stencil;
use crate::{Detail, Filter, GraphsOf, Statistics, counts, flow_graphs, loops, statistics};

const STENCIL: Stencil = Stencil {
    width: 3,
    height: 2,
    steps: 40,
    rounds: 2,
    report: 10,
};

/// Writes the stencil's trace, with three polls in each report's record, and a copy with its times overwritten.
fn traces(folder: &Path) -> [PathBuf; 2] {
    let paths = ["whole.bjt", "damaged.bjt"].map(|name| folder.join(name));
    let mut writer = TraceWriter::create(&paths[0], &STENCIL.header(), false).unwrap();
    for mut event in STENCIL.events() {
        if event.name() == "MPI_Reduce" {
            let mut polls = Polls::one(10, Account::default(), 0);
            (polls.calls, polls.inside) = (3, 30);
            event.folded = Folded(Some(Box::new(polls)));
        }
        writer.push(event).unwrap();
    }
    writer.finish(&TraceSummary::default()).unwrap();
    let mut bytes = fs::read(&paths[0]).unwrap();
    // Chunks begin after magic and version; those of times have kind 5.
    let mut at = 10;
    while at < bytes.len() {
        let length = bytes[at + 1..at + 5].try_into().unwrap();
        let end = at + 9 + u32::from_le_bytes(length) as usize;
        if bytes[at] == 5 {
            bytes[at + 9..end].fill(0x5a);
        }
        at = end;
    }
    fs::write(&paths[1], bytes).unwrap();
    paths
}

/// Times are 0, and the order of reading is irrelevant.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|key, _| key != "untimed" && key != "balance");
            for (key, member) in members {
                match key.ends_with("_ps") {
                    true => *member = json!(0),
                    false => without_times(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}

fn agree(whole: &impl serde::Serialize, damaged: &impl serde::Serialize) {
    let [whole, damaged] = [json!(whole), json!(damaged)].map(|mut value| {
        without_times(&mut value);
        value
    });
    assert_eq!(whole, damaged);
}

#[test]
fn statistics_count_without_times() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, damaged] = traces(folder.path());
    for ranks in [Vec::new(), vec![4]] {
        let filter = Filter {
            ranks,
            ..Filter::default()
        };
        let (timed, _) = statistics(&whole, &filter).unwrap();
        let (counted, state) = counts(&damaged, &filter).unwrap();
        assert_eq!(state, TraceState::Complete);
        let calls = |it: &Statistics| {
            let each = it.functions.iter();
            let mut each: Vec<_> = each
                .map(|it| (it.function, it.calls, it.sent, it.received))
                .collect();
            each.sort_unstable();
            each
        };
        assert_eq!(calls(&timed), calls(&counted));
        let reports = calls(&counted).into_iter().find(|it| it.0 == "MPI_Reduce");
        let members = if filter.ranks.is_empty() { 6 } else { 1 };
        assert_eq!(reports.unwrap().1, members * 3 * 4);
        assert_eq!(
            (timed.sizes, timed.traffic),
            (counted.sizes.clone(), counted.traffic.clone())
        );
        let mut text = Vec::new();
        counted.write(&mut text).unwrap();
        counted.write_json(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("total") && !text.contains("_ps"), "{text}");
    }
}

#[test]
fn graphs_and_loops_are_the_same_without_times() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, damaged] = traces(folder.path());
    let filter = Filter::default();
    let (timed, _) = loops(&whole, &filter, Detail::Peer, false, TimesMode::Read).unwrap();
    let (counted, state) =
        loops(&damaged, &filter, Detail::Peer, false, TimesMode::Unread).unwrap();
    assert_eq!(state, TraceState::Complete);
    assert!(counted.untimed && !timed.untimed);
    agree(&timed, &counted);
    let graphs = |path: &Path, times| {
        flow_graphs(path, &filter, Detail::Peer, GraphsOf::Classes, true, times)
            .unwrap()
            .0
    };
    let counted = graphs(&damaged, TimesMode::Unread);
    agree(&graphs(&whole, TimesMode::Read), &counted);
    let mut text = Vec::new();
    counted.write(&mut text).unwrap();
    counted.write_dot(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        !text.contains("in each call") && !text.contains(" ps"),
        "{text}"
    );
}
