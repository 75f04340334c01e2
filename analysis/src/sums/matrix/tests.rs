//! Matrices of programs with known properties.

use belljar_collectives::Tables;
use belljar_tracer::scripted::int;

use super::*;
use crate::generated::Stencil;
use crate::ranks::{BUFFER, BYTE, Ranks, SUM, Trace, WORLD};
use belljar_job::{Collector, Communicators};
use belljar_trace::Event;

/// Tables with one algorithm for each operation.
const TABLES: &str = r#"{
    "collective=allreduce": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
    "collective=reduce": {"is_commutative=yes": {"algorithm=MPIR_Reduce_intra_binomial": {}}},
    "collective=bcast": {"algorithm=MPIR_Bcast_intra_binomial": {}},
    "collective=barrier": {"algorithm=MPIR_Barrier_intra_dissemination": {}},
    "collective=gatherv": {"algorithm=MPIR_Gatherv_allcomm_linear": {}},
    "collective=alltoallv": {"algorithm=MPIR_Alltoallv_intra_scattered": {}},
    "collective=ialltoall": {"algorithm=MPIR_Ialltoall_intra_sched_brucks": {}},
    "collective=ibcast": {"algorithm=MPIR_Ibcast_intra_sched_binomial": {}},
    "collective=iallreduce": {"algorithm=MPIR_Iallreduce_intra_sched_recursive_doubling": {}},
    "collective=scan": {"algorithm=MPIR_Scan_intra_smp": {}}
}"#;

fn tables() -> Tables {
    Tables::parse(TABLES.as_bytes()).unwrap()
}

fn matrix(trace: &Trace, tables: Option<&Tables>) -> Matrix {
    let of = TrafficOf::default();
    let mut collector = TrafficCollector::new(&trace.header, &trace.communicators, of, tables);
    for event in &trace.events {
        collector.observe(event, true);
    }
    collector.finish()
}

/// Returns messages and bytes from one rank to another.
fn pair(matrix: &Matrix, from: u32, to: u32) -> (u64, u64) {
    let mut pairs = matrix.pairs.iter();
    let pair = pairs.find(|pair| (pair.from, pair.to) == (from, Some(to)));
    pair.map_or((0, 0), |pair| (pair.messages, pair.bytes))
}

const STENCIL: Stencil = Stencil {
    width: 3,
    height: 2,
    steps: 10,
    rounds: 2,
    report: 5,
};

fn of_stencil(tables: Option<&Tables>) -> Matrix {
    let header = STENCIL.header();
    let mut collector = Collector::new();
    let events: Vec<Event> = STENCIL.events().collect();
    events
        .iter()
        .for_each(|event| collector.observe(event, &header));
    let trace = Trace {
        communicators: collector.resolve(),
        header,
        events,
    };
    matrix(&trace, tables)
}

#[test]
fn a_stencil_as_called_has_its_halos_and_everybody_with_everybody() {
    let matrix = of_stencil(None);
    assert!(matrix.unknown.is_empty(), "{:?}", matrix.unknown);
    let ranks = STENCIL.ranks();
    for from in 0..ranks {
        for to in (0..ranks).filter(|to| *to != from) {
            let halos = u64::from(STENCIL.neighbors(from).contains(&to)) * 10;
            let reports = u64::from(to == 0) * 2;
            let all = 20 + reports;
            let expected = (halos + all, halos * 8192 + all * 8);
            assert_eq!(pair(&matrix, from, to), expected, "{from} to {to}");
        }
        assert_eq!(pair(&matrix, from, from), (0, 0));
    }
}

#[test]
fn a_stencil_by_message_has_what_the_algorithms_send() {
    let tables = tables();
    let matrix = of_stencil(Some(&tables));
    let silent = matrix.unknown.iter().map(|unknown| unknown.count);
    assert_eq!(silent.sum::<u64>(), 0, "{:?}", matrix.unknown);
    // Six ranks: 0 and 2 send to 1 and 3 and get the result back; 1, 3, 4 and 5 exchange.
    let halos = |from: u32, to| u64::from(STENCIL.neighbors(from).contains(&to)) * 10;
    // In 20 allreductions and, up a binomial tree to 0, in two reductions.
    for (from, to, small) in [
        (0, 1, 20),
        (1, 0, 20 + 2),
        (1, 3, 20),
        (3, 1, 20),
        (4, 5, 20),
        (1, 4, 20),
        (3, 5, 20),
        (2, 0, 2),
        (4, 0, 2),
        (3, 2, 20 + 2),
        (5, 4, 20 + 2),
        (0, 5, 0),
    ] {
        let halos = halos(from, to);
        let expected = (halos + small, halos * 8192 + small * 8);
        assert_eq!(pair(&matrix, from, to), expected, "{from} to {to}");
    }
    let allreduce = &matrix.algorithms[1];
    assert_eq!(allreduce.algorithm, "AllreduceRecursiveDoubling");
    assert_eq!(
        (allreduce.calls, allreduce.messages),
        (120, 20 * (2 + 8 + 2))
    );
}

/// Three ranks that call operations with pieces.
fn uneven() -> Trace {
    let mut ranks = Ranks::new(3);
    for rank in 0..3 {
        let size = ranks.guests[rank].ints(&[3]);
        ranks.call(rank, 1_000, 1_100, "MPI_Comm_size", &[WORLD, size]);
        let sent = ranks.guests[rank].ints(&[1, 0, 10 * (1 + rank as i32)]);
        let from_each = [1, 0, 10 * (1 + rank as i32)];
        let received = match rank {
            0 => [1, 1, 1],
            1 => [0, 0, 0],
            _ => [10, 20, 30],
        };
        assert_eq!(from_each[rank], received[rank]);
        let received = ranks.guests[rank].ints(&received);
        let displacements = ranks.guests[rank].ints(&[0, 0, 0]);
        let arguments = [
            BUFFER,
            sent,
            displacements,
            BYTE,
            BUFFER,
            received,
            displacements,
            BYTE,
            WORLD,
        ];
        ranks.call(rank, 2_000, 2_500, "MPI_Alltoallv", &arguments);
        let counts = ranks.guests[rank].ints(&[5, 6, 7]);
        let own = 5 + rank as i32;
        let arguments = [
            BUFFER,
            int(own),
            BYTE,
            BUFFER,
            counts,
            displacements,
            BYTE,
            int(1),
            WORLD,
        ];
        ranks.call(rank, 3_000, 3_500, "MPI_Gatherv", &arguments);
    }
    ranks.trace()
}

#[test]
fn pieces_go_to_those_they_are_for() {
    let trace = uneven();
    let tables = tables();
    for matrix in [matrix(&trace, None), matrix(&trace, Some(&tables))] {
        assert!(matrix.unknown.is_empty(), "{:?}", matrix.unknown);
        let expected = [
            (0, 1, (1, 5)),
            (0, 2, (1, 10)),
            (1, 0, (1, 1)),
            (1, 2, (1, 20)),
            (2, 0, (1, 1)),
            (2, 1, (1, 7)),
        ];
        for (from, to, expected) in expected {
            assert_eq!(pair(&matrix, from, to), expected, "{from} to {to}");
        }
        assert_eq!(matrix.span_ps, 1_500_000, "from the first to the last");
        assert_eq!(matrix.rate(matrix.bytes()), 44 * 1_000_000 * 10 / 15);
    }
}

/// Two ranks that prepare operations with `init` calls, and start each `starts` times.
fn persistent(prepared: &[(&str, &[u64])], starts: u64) -> Trace {
    let mut ranks = Ranks::new(2);
    for rank in 0..2 {
        let size = ranks.guests[rank].ints(&[2]);
        ranks.call(rank, 1_000, 1_100, "MPI_Comm_size", &[WORLD, size]);
        for (at, (name, arguments)) in (2u64..).zip(prepared) {
            let handle = 0xac00_0050 + at;
            let request = ranks.guests[rank].handles(&[handle]);
            let arguments = [*arguments, &[request]].concat();
            ranks.call(rank, at * 1_000, at * 1_000 + 200, name, &arguments);
            for start in 0..starts {
                let entry = at * 1_000 + 300 + start * 200;
                ranks.call(rank, entry, entry + 150, "MPI_Start", &[request]);
            }
        }
    }
    ranks.trace()
}

/// Of `MPI_INFO_NULL`.
const INFO: u64 = 0x1c00_0000;

#[test]
fn each_start_of_a_persistent_operation_is_one() {
    let bcast = [BUFFER, int(8), BYTE, int(1), WORLD, INFO];
    let allreduce = [BUFFER, BUFFER, int(4), BYTE, SUM, WORLD, INFO];
    let prepared: [(&str, &[u64]); 2] = [
        ("MPI_Bcast_init", &bcast),
        ("MPI_Allreduce_init", &allreduce),
    ];
    let trace = persistent(&prepared, 3);
    let tables = tables();
    for matrix in [matrix(&trace, None), matrix(&trace, Some(&tables))] {
        assert!(matrix.unknown.is_empty(), "{:?}", matrix.unknown);
        assert_eq!(pair(&matrix, 0, 1), (3, 12));
        assert_eq!(pair(&matrix, 1, 0), (6, 36));
    }
    // Preparation alone sends nothing.
    let trace = persistent(&prepared, 0);
    assert!(matrix(&trace, None).pairs.is_empty());
}

#[test]
fn a_start_of_one_of_two_that_look_alike_is_known_by_its_request() {
    let arguments = [BUFFER, BUFFER, int(4), BYTE, SUM, WORLD, INFO];
    let trace = persistent(
        &[
            ("MPI_Allreduce_init", &arguments),
            ("MPI_Exscan_init", &arguments),
        ],
        1,
    );
    let matrix = matrix(&trace, None);
    // Both send to the higher rank, and the allreduction to the lower one, too.
    assert_eq!(pair(&matrix, 0, 1), (2, 8));
    assert_eq!(pair(&matrix, 1, 0), (1, 4));
    assert!(matrix.unknown.is_empty(), "{:?}", matrix.unknown);
}

#[test]
fn what_cannot_be_worked_out_is_counted_with_the_reason() {
    let mut ranks = Ranks::new(2);
    for rank in 0..2 {
        let scan = [BUFFER, BUFFER, int(4), BYTE, SUM, WORLD];
        ranks.call(rank, 1_000, 1_100, "MPI_Scan", &scan);
        // An unknown handle of an operation.
        let own = [BUFFER, BUFFER, int(4), BYTE, 0x9800_0000, WORLD];
        ranks.call(rank, 2_000, 2_100, "MPI_Allreduce", &own);
    }
    let mut trace = ranks.trace();
    let tables = tables();
    let by_message = matrix(&trace, Some(&tables));
    let reasons: Vec<_> = by_message
        .unknown
        .iter()
        .map(|one| (one.what, one.count))
        .collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(
        reasons[0].0.contains("algorithm") && reasons[0].1 == 2,
        "{reasons:?}"
    );
    assert!(
        reasons[1].0.contains("commutative") && reasons[1].1 == 2,
        "{reasons:?}"
    );
    assert!(by_message.pairs.is_empty());
    assert_eq!(
        pair(&matrix(&trace, None), 0, 1),
        (2, 8),
        "calls are known all the same"
    );
    trace.communicators = Communicators::default();
    assert!(matrix(&trace, None).pairs.is_empty());
}

#[test]
fn a_matrix_is_written_in_every_form() {
    let matrix = matrix(&uneven(), None);
    let written = |write: &dyn Fn(&mut dyn std::io::Write) -> std::io::Result<()>| {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = written(&|out| matrix.write(out));
    assert!(text.starts_with("Traffic as called: 6 messages of 44 B in 1.500 us, 29.33 MB/s\n"));
    assert!(text.contains("\n  1  1 B    .  20 B\n"), "{text}");
    let csv = written(&|out| matrix.write_csv(out));
    assert!(csv.contains("\n0,1,0,2,1,20,13333333\n"), "{csv}");
    let json = written(&|out| matrix.write_json(out));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["pairs"][3]["bytes"], 20, "{json:#}");
    let svg = written(&|out| matrix.write_svg(out));
    assert!(svg.contains("<title>1 to 2: 20 B in 1</title>"), "{svg}");
    assert_eq!(svg.matches("<title>").count(), 6);
}

#[test]
fn the_wire_is_read_back() {
    let text = "from,to,frames,bytes,payload\n0,1,3,300,100\n0,*,1,60,0\n";
    let matrix = Matrix::of_wire(text, 1_000_000_000_000).unwrap();
    assert_eq!((matrix.messages(), matrix.bytes()), (4, 360));
    assert_eq!(matrix.pairs[0].payload, Some(100));
    let mut out = Vec::new();
    matrix.write(&mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(
        out.contains("Payload from node (row) to node (column)"),
        "{out}"
    );
    for wrong in [
        "",
        "from\n",
        "from,to,frames,bytes,payload\n0,1,3,300\n",
        "x,1",
    ] {
        assert!(Matrix::of_wire(wrong, 1).is_err(), "{wrong}");
    }
}

#[test]
fn counts_need_no_times() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.bjt");
    let header = STENCIL.header();
    let mut writer = belljar_archive::TraceWriter::create(&path, &header, false).unwrap();
    for event in STENCIL.events() {
        writer.push(event).unwrap();
    }
    writer
        .finish(&belljar_trace::TraceSummary::default())
        .unwrap();
    // Chunks of times have kind 5; their bytes are all overwritten.
    let mut bytes = std::fs::read(&path).unwrap();
    let mut at = 10;
    while at < bytes.len() {
        let length = bytes[at + 1..at + 5].try_into().unwrap();
        let end = at + 9 + u32::from_le_bytes(length) as usize;
        if bytes[at] == 5 {
            bytes[at + 9..end].fill(0x5a);
        }
        at = end;
    }
    std::fs::write(&path, bytes).unwrap();
    for tables in [None, Some(&tables())] {
        let timed = of_stencil(tables);
        let of = TrafficOf::default();
        let (found, state) = untimed_traffic(&path, &Filter::default(), of, tables).unwrap();
        assert_eq!(state, TraceState::Complete);
        let expected = Matrix {
            span_ps: 0,
            ..timed
        };
        assert_eq!(found, expected);
        assert!(found.messages() > 0);
    }
}
