//! Dumps of a small trace, and filters.

use belljar_archive::{TraceReader, TraceWriter};
use belljar_sim::{Frequency, Time};
use belljar_trace::{MpiLibrary, TraceHeader, TraceState, TraceSummary};
use belljar_tracer::scripted::{Guest, int};
use belljar_tracer::{NodeTracer, Selection};

use super::{DumpFormat, Filter, argument_words, dump, statistics};

const WORLD: u64 = 0x4400_0000;
const DOUBLE: u64 = 0x4c00_080b;

/// Writes a trace and returns its path: on rank 1 of node 0 a send, a receive, a broken call, an abort.
fn trace(directory: &std::path::Path) -> std::path::PathBuf {
    let frequency = Frequency::from_hz(2_000_000_000).unwrap();
    let header = TraceHeader::new("dump", &[frequency]);
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let mut guest = Guest::mpich(&mut tracer, 1);
    let send = [0x5000, int(4), DOUBLE, int(0), int(7), WORLD];
    guest.call(&mut tracer, "MPI_Send", &send);
    let status = guest.room(20);
    let receive = [0x5000, int(4), DOUBLE, int(-2), int(-1), WORLD, status];
    guest.call_with(&mut tracer, "MPI_Recv", &receive, |guest, _| {
        guest.put_status(status, 0, 9, 24);
    });
    guest.call(&mut tracer, "MPI_Wait", &[0x10, 1]);
    guest.enter(&mut tracer, "MPI_Abort", &[WORLD, int(3)]);
    let path = directory.join("trace.bjt");
    let mut writer = TraceWriter::create(&path, &header, false).unwrap();
    for event in tracer.take_events().into_iter().chain(tracer.open_calls()) {
        writer.push(event).unwrap();
    }
    let summary = TraceSummary {
        nodes: vec![tracer.summary(9999)],
        ending: String::new(),
    };
    writer.finish(&summary).unwrap();
    path
}

#[test]
fn arguments_in_words_have_no_addresses() {
    let directory = tempfile::tempdir().unwrap();
    let mut reader = TraceReader::open(&trace(directory.path())).unwrap();
    let words = argument_words(&reader.next().unwrap());
    assert_eq!(
        words,
        "count=4, datatype=MPI_DOUBLE, dest=0, tag=7, comm=MPI_COMM_WORLD"
    );
}

#[test]
fn constants_of_the_standard_abi_have_names() {
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let mut guest = Guest::standard_abi(&mut tracer, MpiLibrary::Unknown, 1);
    let status = guest.room(32);
    let receive = [0x5000, int(4), 0x214, int(-1), int(-2), 0x101, status];
    let reduce = [0x5000, 0x6000, int(4), 0x209, 0x21, 0x101];
    let send = [0x5000, int(4), 0x24f, int(-3), int(-1), 0x101];
    guest.call_with(&mut tracer, "MPI_Recv", &receive, |guest, _| {
        guest.put_status(status, 0, 9, 24);
    });
    guest.call(&mut tracer, "MPI_Allreduce", &reduce);
    guest.call(&mut tracer, "MPI_Send", &send);
    let events = tracer.take_events();
    let words: Vec<String> = events.iter().map(argument_words).collect();
    assert_eq!(
        words,
        [
            "count=4, datatype=MPI_DOUBLE, source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, comm=MPI_COMM_WORLD",
            "count=4, datatype=MPI_INT, op=MPI_SUM, comm=MPI_COMM_WORLD",
            "count=4, datatype=type#591(2 B), dest=MPI_PROC_NULL, tag=-1, comm=MPI_COMM_WORLD",
        ]
    );
    // An unknown library may have its count anywhere.
    let received = &events[0].transfers[0];
    assert_eq!((received.bytes, received.exact), (32, false));
    assert_eq!(events[0].status, None);
}

fn lines(filter: &Filter, format: DumpFormat) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let path = trace(directory.path());
    let mut out = Vec::new();
    let state = dump(&path, filter, format, None, &mut out).unwrap();
    assert_eq!(state, TraceState::Complete);
    let text = String::from_utf8(out).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn text_says_what_happened() {
    let lines = lines(&Filter::default(), DumpFormat::Text);
    assert_eq!(
        lines[0],
        "    0.000000505000 rank 1    node 0    MPI_Send(buf=0x5000, count=4, \
         datatype=MPI_DOUBLE, dest=0, tag=7, comm=MPI_COMM_WORLD) = MPI_SUCCESS <50.00 ns> \
         [sends 32 B to rank 0]"
    );
    assert!(lines[1].contains("source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG"));
    assert!(lines[1].contains("[receives 24 B from MPI_ANY_SOURCE] [24 B from 0 with tag 9]"));
    assert!(lines[2].contains("MPI_Wait(request=0x10, status=MPI_STATUS_IGNORE)"));
    assert!(lines[2].ends_with("[bad pointer: request]"));
    assert!(lines[3].ends_with("MPI_Abort(comm=MPI_COMM_WORLD, errorcode=3) did not return"));
    assert_eq!(lines.len(), 4);
}

#[test]
fn json_lines_are_objects() {
    let lines = lines(&Filter::default(), DumpFormat::Json);
    let values: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(values[0]["function"], "MPI_Send");
    assert_eq!(values[0]["entry"], 1010);
    assert_eq!(values[0]["entry_ps"], 505_000);
    assert_eq!(values[0]["duration_ps"], 50_000);
    assert_eq!(values[0]["transfers"][0]["peer_world_rank"], 0);
    assert_eq!(values[0]["transfers"][0]["bytes"], 32);
    assert_eq!(values[1]["status"]["tag"], 9);
    assert_eq!(values[2]["bad"], "request");
    assert!(values[3].get("exit").is_none());
    assert_eq!(values[3]["arguments"]["errorcode"], "3");
}

#[test]
fn filters_pick_by_rank_function_and_time() {
    let count = |filter: Filter| lines(&filter, DumpFormat::Text).len();
    let filter = Filter::default;
    assert_eq!(
        count(Filter {
            ranks: vec![0],
            ..filter()
        }),
        0
    );
    assert_eq!(
        count(Filter {
            ranks: vec![0, 1],
            ..filter()
        }),
        4
    );
    let functions = vec!["MPI_*e*".to_owned(), "MPI_Abort".to_owned()];
    assert_eq!(
        count(Filter {
            functions,
            ..filter()
        }),
        3
    );
    // The send lasts from 505 to 555 ns, the receive from 560 to 610 ns.
    let at = |ns: u64| Some(Time::from_ps(1000 * ns));
    assert_eq!(
        count(Filter {
            to: at(560),
            ..filter()
        }),
        1
    );
    assert_eq!(
        count(Filter {
            from: at(556),
            ..filter()
        }),
        3
    );
    assert_eq!(
        count(Filter {
            from: at(555),
            to: at(561),
            ..filter()
        }),
        2
    );
}

#[test]
fn statistics_of_a_file_know_what_was_not_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let path = trace(directory.path());
    let (all, state) = statistics(&path, &Filter::default()).unwrap();
    assert_eq!(state, TraceState::Complete);
    let send = all.functions.iter().find(|it| it.function == "MPI_Send");
    assert_eq!(send.unwrap().seen, Some(1));
    let filter = Filter {
        functions: vec!["MPI_Recv".into()],
        ..Filter::default()
    };
    let (some, _) = statistics(&path, &filter).unwrap();
    assert_eq!(some.functions.len(), 1);
    assert_eq!(
        (some.functions[0].received, some.functions[0].seen),
        (24, None)
    );
}

#[test]
fn a_receive_from_any_source_has_its_sender() {
    let lines = lines(&Filter::default(), DumpFormat::Json);
    let receive: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(receive["arguments"]["source"], "MPI_ANY_SOURCE");
    assert_eq!(receive["transfers"][0]["peer"], "0");
    assert_eq!(receive["transfers"][0]["tag"], 9);
    assert_eq!(receive["status"]["observed"], false);
}
