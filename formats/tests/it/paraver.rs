//! Paraver's traces, read by the rules of its format, compared with the trace.

use std::collections::BTreeMap;

use belljar_archive::TraceReader;
use belljar_formats::{Source, paraver};

/// Returns the fields of a line, as numbers.
fn fields(line: &str) -> Vec<u64> {
    let numbers = line.split(':');
    numbers.map(|it| it.parse().expect("a number")).collect()
}

#[test]
fn records_are_in_order_and_those_of_the_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = crate::program::stencil(folder.path(), 40);
    let mut source = Source::open(&trace).expect("a trace");
    paraver::write(&mut source, folder.path()).expect("it is written");
    assert_eq!(source.left_out().alone, 0);
    let read = |name| std::fs::read_to_string(folder.path().join(name)).expect("a file");
    let text = read("trace.prv");
    let mut lines = text.lines();
    let head = lines.next().expect("a head");
    assert!(head.starts_with("#Paraver (01/01/00 at 00:00):"), "{head}");
    let end = "_ns:6(1,1,1,1,1,1):1:6(1:1,1:2,1:3,1:4,1:5,1:6),1";
    assert!(head.ends_with(end), "{head}");
    assert_eq!(lines.next(), Some("c:1:1:6:1:2:3:4:5:6"));
    let names: BTreeMap<u64, String> = read("trace.pcf")
        .lines()
        .filter_map(|line| line.split_once("    "))
        .filter(|(_, name)| name.starts_with("MPI_"))
        .map(|(number, name)| (number.parse().expect("a number"), name.to_owned()))
        .collect();
    let mut calls = Vec::new();
    for event in TraceReader::open(&trace).expect("a trace") {
        let task = u64::from(event.rank) + 1;
        // Nodes have 1 GHz, so cycles are nanoseconds.
        calls.push((event.entry, task, event.name().to_owned()));
        calls.push((event.exit.expect("it returned"), task, String::new()));
    }
    let (mut shown, mut messages, mut last) = (Vec::new(), Vec::new(), 0);
    let mut inside: BTreeMap<u64, u64> = BTreeMap::new();
    for line in lines {
        let of = fields(line);
        assert!(of[5] >= last, "{line}");
        last = of[5];
        assert_eq!((of[1], of[2], of[4]), (of[3], 1, 1), "{line}");
        match (of[0], of.len()) {
            // States follow one another without gaps and overlaps.
            (1, 8) => {
                let before = inside.insert(of[3], of[6]);
                assert!(before.is_none_or(|before| before == of[5]), "{line}");
            }
            (2, 8) if of[7] == 0 => shown.push((of[5], of[3], String::new())),
            (2, 8) => shown.push((of[5], of[3], names[&of[7]].clone())),
            (3, 15) => messages.push((of[3], of[9], of[13], of[14])),
            _ => panic!("{line}"),
        }
    }
    calls.sort();
    shown.sort();
    assert!(
        calls == shown,
        "{} calls, {} shown",
        calls.len(),
        shown.len()
    );
    assert_eq!(messages.len(), 40 * 14);
    let ours = |(from, to, bytes, tag): &(u64, u64, u64, u64)| {
        let apart = from.abs_diff(*to);
        (apart == 1 || apart == 3) && (*bytes, *tag) == (8192, 0)
    };
    assert!(messages.iter().all(ours));
}

#[test]
fn what_lacks_its_other_side_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = crate::program::small(folder.path());
    let mut source = Source::open(&trace).expect("a trace");
    paraver::write(&mut source, folder.path()).expect("it is written");
    // The message whose receive has no status.
    assert_eq!(source.left_out().alone, 1);
    let text = std::fs::read_to_string(folder.path().join("trace.prv")).expect("a file");
    let messages = text.lines().filter(|line| line.starts_with("3:"));
    assert_eq!(
        messages.collect::<Vec<_>>(),
        ["3:1:1:1:1:150:150:2:1:2:1:195:200:1000:5"]
    );
}
