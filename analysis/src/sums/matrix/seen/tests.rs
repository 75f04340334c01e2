//! Messages whose sides are known by names, by jobs, or not at all.

use std::fs::File;

use belljar_archive::{ProbesHeader, ProbesWriter, TraceWriter};
use belljar_trace::{
    MESSAGE, PROBES_FILE, ProbeAt, ProbeValue, ProbesEnd, TRACE_FILE, TraceSummary, ValueKind,
};

use super::*;
use crate::ranks::{Ranks, WORLD};

fn probe(purpose: ProbePurpose) -> Probe {
    let arguments = match purpose.is_message() {
        true => MESSAGE.map(|(.., kind)| kind).to_vec(),
        false => vec![ValueKind::Pointer],
    };
    let at = match purpose.is_message() {
        true => ProbeAt::Entry,
        false => ProbeAt::Call,
    };
    Probe {
        name: "x".to_owned(),
        file: "y".to_owned(),
        at,
        arguments,
        result: None,
        purpose,
    }
}

fn record(probe: u32, rank: u32, within: Option<&str>, arguments: &[Option<u64>]) -> ProbeRecord {
    let number = |name| FUNCTIONS.iter().position(|it| it.name == name).unwrap() as u16;
    let value = |word: &Option<u64>| word.map_or(ProbeValue::Missing, ProbeValue::Word);
    ProbeRecord {
        probe,
        node: rank,
        vcpu: 0,
        task: 0,
        process: Some(0),
        thread: 0,
        rank: Some(rank),
        program: "".into(),
        depth: 0,
        entry: 1000,
        exit: None,
        known: 1000,
        arguments: arguments.iter().map(value).collect(),
        result: None,
        within: within.map(number),
        site: Default::default(),
    }
}

/// Returns the matrix of a run of three ranks with these records.
fn seen(records: Vec<ProbeRecord>, filter: &Filter) -> Matrix {
    let mut ranks = Ranks::new(3);
    (0..3).for_each(|rank| ranks.call(rank, 100, 900, "MPI_Barrier", &[WORLD]));
    let trace = ranks.trace();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(TRACE_FILE);
    let mut writer = TraceWriter::create(&path, &trace.header, false).unwrap();
    let events = trace.events.into_iter();
    events.for_each(|event| writer.push(event).unwrap());
    writer.finish(&TraceSummary::default()).unwrap();
    let header = ProbesHeader {
        trace: trace.header,
        probes: [
            ProbePurpose::UcxAddress,
            ProbePurpose::UcxSend,
            ProbePurpose::OpenMpiIsend,
        ]
        .map(probe)
        .to_vec(),
    };
    let probes = folder.path().join(PROBES_FILE);
    let file = File::create(&probes).unwrap();
    let mut writer = ProbesWriter::over(file, &probes, &header).unwrap();
    records.into_iter().for_each(|it| writer.push(it).unwrap());
    writer.finish(ProbesEnd::default()).unwrap();
    let seen = seen_traffic(&path, filter, TrafficOf::default()).unwrap();
    let (matrix, state) = seen.unwrap();
    assert_eq!(state, TraceState::Complete);
    matrix
}

fn pairs(matrix: &Matrix) -> Vec<(u32, Option<u32>, u64, u64)> {
    let pairs = matrix.pairs.iter();
    pairs
        .map(|it| (it.from, it.to, it.messages, it.bytes))
        .collect()
}

#[test]
fn receivers_are_known_by_the_names_that_processes_tell_of_themselves() {
    let name = |rank: u64| Some(0xaaaa_0000 + rank);
    let sent = |rank: u32, within, to: u64, bytes| {
        let words = [name(rank.into()), name(to), Some(1), Some(0), bytes];
        record(1, rank, within, &words)
    };
    let records = || {
        vec![
            record(0, 0, Some("MPI_Init"), &[name(0)]),
            // Rank 1 never sends, and its name is recorded last.
            sent(0, Some("MPI_Bcast"), 1, Some(80)),
            sent(0, Some("MPI_Bcast"), 1, None),
            sent(2, Some("MPI_Send"), 0, Some(7)),
            sent(2, Some("MPI_Comm_dup"), 0, Some(4)),
            sent(2, None, 0, Some(4)),
            sent(2, Some("MPI_Send"), 9, Some(4)),
            record(0, 1, Some("MPI_Init"), &[name(1)]),
        ]
    };
    let matrix = seen(records(), &Filter::default());
    assert_eq!(pairs(&matrix), [(0, Some(1), 2, 80), (2, Some(0), 1, 7)]);
    let unknown = matrix.unknown.iter().map(|it| (it.what, it.count));
    let unknown: BTreeMap<&str, u64> = unknown.collect();
    let expected = [(OF_ITSELF, 2), (SIDES_UNSEEN, 1), (BYTES_UNSEEN, 1)];
    assert_eq!(unknown, BTreeMap::from(expected));
    let calls: u64 = matrix.calls.iter().map(|it| it.messages).sum();
    assert_eq!(calls, 6);

    // A filter for a function includes the internal messages in it.
    let filter = Filter {
        functions: vec!["MPI_Comm_*".to_owned()],
        ..Filter::default()
    };
    assert_eq!(pairs(&seen(records(), &filter)), [(2, Some(0), 1, 4)]);
    let filter = Filter {
        ranks: vec![0],
        ..Filter::default()
    };
    assert_eq!(pairs(&seen(records(), &filter)), [(0, Some(1), 2, 80)]);
}

#[test]
fn processes_of_open_mpi_that_send_nothing_are_known_by_their_job() {
    let name = |rank: u64| Some(0x7_0001 << 32 | rank);
    let words = [name(2), name(1), Some(1), Some(0), Some(5)];
    let elsewhere = [name(2), Some(0x8_0001 << 32), Some(1), Some(0), Some(5)];
    let sent = |words: &[Option<u64>]| record(2, 2, Some("MPI_Send"), words);
    let matrix = seen(vec![sent(&words), sent(&elsewhere)], &Filter::default());
    assert_eq!(pairs(&matrix), [(2, Some(1), 1, 5)]);
    assert_eq!(matrix.unknown[0].what, SIDES_UNSEEN);
}
