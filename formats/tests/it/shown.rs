//! Traces for viewers: Perfetto's protobuf by its own schema, Chromium's JSON as generic JSON.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_formats::{Source, chrome, perfetto};
use serde_json::Value;

/// Prints a line of JSON for each event: type, track, time, name, arguments, flows, ends of flows.
const READ: &str = r#"
import json, sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
trace = Trace(); trace.ParseFromString(open(sys.argv[1], 'rb').read())
names, arguments, tracks = {}, {}, {}
for p in trace.packet:
    for n in p.interned_data.event_names: names[n.iid] = n.name
    for n in p.interned_data.debug_annotation_names: arguments[n.iid] = n.name
    if p.HasField('track_descriptor'):
        d = p.track_descriptor
        tracks[d.uuid] = d.process.process_name if d.HasField('process') else tracks[d.parent_uuid]
    if p.HasField('track_event'):
        e = p.track_event
        args = {arguments[a.name_iid]: a.string_value or a.int_value for a in e.debug_annotations}
        print(json.dumps([e.type, tracks[e.track_uuid], p.timestamp, names.get(e.name_iid, ''), args,
            list(e.flow_ids), list(e.terminating_flow_ids)]))
"#;

/// Returns the events of the trace at `trace`, according to Perfetto's schema. Prints the reason and returns `None` if the
/// schema is missing.
fn read(trace: &Path, folder: &Path) -> Option<Vec<Value>> {
    let path = folder.join("trace.pftrace");
    let mut out = std::fs::File::create(&path).expect("a file");
    let mut source = Source::open(trace).expect("a trace");
    perfetto::write(&mut source, &mut out).expect("it is written");
    let ended = crate::python::read("perfetto.protos", READ, &path)?;
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{told}");
    let lines = String::from_utf8(ended.stdout).expect("text");
    Some(
        lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect(),
    )
}

#[test]
fn perfetto_has_the_calls_and_their_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = crate::program::stencil(folder.path(), 50);
    let Some(events) = read(&trace, folder.path()) else {
        return;
    };
    let mut calls = Vec::new();
    for event in TraceReader::open(&trace).expect("a trace") {
        let track = format!("rank {} on node{}", event.rank, event.node);
        // Nodes have 1 GHz, so cycles are nanoseconds.
        calls.push((track.clone(), event.entry, 1, event.name().to_owned()));
        calls.push((track, event.exit.expect("it returned"), 2, String::new()));
    }
    let mut read = Vec::new();
    let mut flows: BTreeMap<u64, Vec<(String, String)>> = BTreeMap::new();
    for event in &events {
        let track = event[1].as_str().expect("a track").to_owned();
        let kind = event[0].as_u64().expect("a type");
        for (side, place) in [("to", 5), ("from", 6)] {
            for flow in event[place].as_array().expect("flows") {
                let other = format!("{}: {}", side, event[4][side]);
                assert_eq!(event[4]["bytes"], 8192);
                let ends = flows.entry(flow.as_u64().expect("a number")).or_default();
                ends.push((track.clone(), other));
            }
        }
        if kind != 3 {
            let name = event[3].as_str().expect("a name").to_owned();
            read.push((track, event[2].as_u64().expect("a time"), kind, name));
        }
    }
    calls.sort();
    read.sort();
    assert!(calls == read, "{} calls, {} read", calls.len(), read.len());
    assert_eq!(flows.len(), 50 * 14);
    for ends in flows.values_mut() {
        ends.sort_by_key(|(_, other)| other.starts_with("from"));
        let [(sender, to), (receiver, from)] = &ends[..] else {
            panic!("a flow has two ends: {ends:?}");
        };
        let rank = |track: &str| track.split(' ').nth(1).expect("a rank").to_owned();
        assert_eq!(*to, format!("to: {}", rank(receiver)));
        assert_eq!(*from, format!("from: {}", rank(sender)));
    }
}

#[test]
fn perfetto_has_what_is_cancelled_unknown_or_never_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = crate::program::small(folder.path());
    let Some(events) = read(&trace, folder.path()) else {
        return;
    };
    let of = |kind: u64| events.iter().filter(move |event| event[0] == kind);
    assert_eq!(of(1).count(), of(2).count() + 1);
    let received: Vec<_> = of(3).map(|event| event[4]["tag"].clone()).collect();
    assert_eq!(received, [5]);
    let broadcast = of(1).find(|event| event[3] == "MPI_Bcast").expect("a call");
    assert_eq!(broadcast[4]["bytes sent"], 64);
    assert_eq!(broadcast[4]["in the call (ticks)"], 100);
}

#[test]
fn json_has_the_modelled_processor_of_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |trace: &std::path::Path| {
        let mut out = Vec::new();
        let mut source = Source::open(trace).expect("a trace");
        chrome::write(&mut source, &mut out).expect("it is written");
        serde_json::from_slice::<Value>(&out).expect("JSON")["otherData"].clone()
    };
    let modelled = crate::program::small_on(folder.path(), "zen5 (01)");
    assert_eq!(of(&modelled)["processors"][0], "zen5 (01)");
    let plain = crate::program::small(folder.path());
    assert_eq!(of(&plain), Value::Null);
}

#[test]
fn json_has_calls_to_the_picosecond_and_flows_with_two_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = crate::program::stencil(folder.path(), 20);
    let mut out = Vec::new();
    let mut source = Source::open(&trace).expect("a trace");
    chrome::write(&mut source, &mut out).expect("it is written");
    let json: Value = serde_json::from_slice(&out).expect("JSON");
    let events = json["traceEvents"].as_array().expect("events");
    let of = |kind: &'static str| events.iter().filter(move |event| event["ph"] == kind);
    let calls = TraceReader::open(&trace).expect("a trace");
    let mut number = 0;
    for (event, shown) in calls.zip(of("X")) {
        assert_eq!(shown["name"], event.name());
        assert_eq!(shown["pid"], event.rank);
        let microseconds = shown["ts"].as_f64().expect("a time");
        assert_eq!((microseconds * 1000.0).round() as u64, event.entry);
        number += 1;
    }
    assert_eq!(of("X").count(), number);
    let ids = |kind| {
        let mut ids: Vec<_> = of(kind).map(|it| it["id"].as_u64()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids("s"), ids("f"));
    assert_eq!(ids("s").len(), 20 * 14);
}
