//! Errors in arguments, order and data of calls.

use belljar_trace::LostProcess;
use belljar_tracer::scripted::int;

use super::{FLOAT, IGNORE, INT, message};
use crate::check::{FindingKind, JobEnd, Severity};
use crate::ranks::{BUFFER, Ranks, SUM, WORLD};

/// `MPI_MAX` of MPICH.
const MAX: u64 = 0x5800_0001;
/// `MPI_COMM_NULL`, `MPI_DATATYPE_NULL` and `MPI_OP_NULL` of MPICH.
const NULL_COMMUNICATOR: u64 = 0x0400_0000;
const NULL_DATATYPE: u64 = 0x0c00_0000;
const NULL_OPERATOR: u64 = 0x1800_0000;

/// A broadcast of `count` elements from `root`.
fn broadcast(count: i32, datatype: u64, root: i32) -> [u64; 5] {
    [BUFFER, int(count), datatype, int(root), WORLD]
}

/// The kinds of findings in a job of two ranks that each make one call that does not return.
fn of_both(name: &str, one: &[u64], other: &[u64]) -> Vec<FindingKind> {
    let mut job = Ranks::started(2);
    job.enter(0, 3000, name, one);
    job.enter(1, 3000, name, other);
    let check = job.check();
    check.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn another_order_is_named_with_both_calls() {
    let mut job = Ranks::started(2);
    job.enter(0, 3000, "MPI_Barrier", &[WORLD]);
    job.enter(1, 3000, "MPI_Bcast", &broadcast(1, INT, 0));
    let check = job.check();
    let [finding] = &check.findings[..] else {
        panic!("{:?}", check.findings)
    };
    assert_eq!(
        (finding.kind, finding.severity),
        (FindingKind::CallOrder, Severity::Error)
    );
    assert_eq!(
        finding.text,
        "rank 0 calls MPI_Barrier where rank 1 calls MPI_Bcast"
    );
    let sides: Vec<_> = finding
        .calls
        .iter()
        .map(|call| (call.of.rank, call.function))
        .collect();
    assert_eq!(sides, [(0, "MPI_Barrier"), (1, "MPI_Bcast")]);
    assert!(check.has_errors());
}

#[test]
fn the_end_of_mpi_has_its_place_in_the_order() {
    let mut job = Ranks::started(2);
    job.enter(0, 3000, "MPI_Barrier", &[WORLD]);
    job.enter(1, 3000, "MPI_Finalize", &[]);
    let check = job.check();
    assert_eq!(
        check.findings[0].text,
        "rank 0 calls MPI_Barrier where rank 1 calls MPI_Finalize"
    );
}

#[test]
fn roots_operators_and_data_are_compared() {
    let root = of_both("MPI_Bcast", &broadcast(1, INT, 0), &broadcast(1, INT, 1));
    assert_eq!(root, [FindingKind::RootMismatch]);
    let size = of_both("MPI_Bcast", &broadcast(1, INT, 0), &broadcast(2, INT, 0));
    assert_eq!(size, [FindingKind::SizeMismatch]);
    let datatype = of_both("MPI_Bcast", &broadcast(1, INT, 0), &broadcast(1, FLOAT, 0));
    assert_eq!(datatype, [FindingKind::DatatypeMismatch]);
    let bytes = of_both(
        "MPI_Bcast",
        &broadcast(1, INT, 0),
        &broadcast(4, crate::ranks::BYTE, 0),
    );
    assert_eq!(bytes, []);
    let reduce = |operator| [BUFFER, BUFFER + 64, int(1), INT, operator, int(0), WORLD];
    let operator = of_both("MPI_Reduce", &reduce(SUM), &reduce(MAX));
    assert_eq!(operator, [FindingKind::OperatorMismatch]);
    assert_eq!(of_both("MPI_Reduce", &reduce(SUM), &reduce(SUM)), []);
}

#[test]
fn both_sides_of_a_difference_are_named() {
    let text = |name: &str, one: &[u64], other: &[u64]| {
        let mut job = Ranks::started(2);
        job.enter(0, 3000, name, one);
        job.enter(1, 3000, name, other);
        job.check().findings.remove(0).text
    };
    assert_eq!(
        text("MPI_Bcast", &broadcast(1, INT, 0), &broadcast(1, FLOAT, 0)),
        "MPI_Bcast: MPI_INT at rank 0, and MPI_FLOAT at rank 1"
    );
    let reduce = |operator| [BUFFER, BUFFER + 64, int(1), INT, operator, int(0), WORLD];
    assert_eq!(
        text("MPI_Reduce", &reduce(SUM), &reduce(MAX)),
        "MPI_Reduce: MPI_SUM at rank 0, and MPI_MAX at rank 1"
    );
}

#[test]
fn a_gather_compares_what_is_sent_with_what_the_root_receives() {
    let gather = |count, received: u64| {
        [
            BUFFER,
            int(count),
            INT,
            BUFFER + 64,
            int(2),
            received,
            int(0),
            WORLD,
        ]
    };
    assert_eq!(of_both("MPI_Gather", &gather(2, INT), &gather(2, INT)), []);
    let size = of_both("MPI_Gather", &gather(2, INT), &gather(3, INT));
    assert_eq!(size, [FindingKind::SizeMismatch]);
    // The receive type of others than the root means nothing.
    assert_eq!(
        of_both("MPI_Gather", &gather(2, INT), &gather(2, FLOAT)),
        []
    );
}

#[test]
fn data_of_matched_messages_is_compared() {
    let both = |sent: [u64; 6], received: [u64; 6]| {
        let mut job = Ranks::started(2);
        job.call(0, 3000, 3100, "MPI_Send", &sent);
        job.enter(1, 3000, "MPI_Recv", &[&received[..], &[IGNORE]].concat());
        let check = job.check();
        let found = check
            .findings
            .iter()
            .map(|finding| (finding.kind, finding.text.clone()));
        found.collect::<Vec<_>>()
    };
    let float = [BUFFER, int(4), FLOAT, int(0), int(5), WORLD];
    let text = "a message of MPI_INT is received as MPI_FLOAT".to_owned();
    assert_eq!(
        both(message(4, 1, 5), float),
        [(FindingKind::DatatypeMismatch, text)]
    );
    let text = "a message of 20 B is received into a buffer of 16 B".to_owned();
    assert_eq!(
        both(message(5, 1, 5), message(4, 0, 5)),
        [(FindingKind::Truncation, text)]
    );
    assert_eq!(both(message(3, 1, 5), message(4, 0, 5)), []);
}

#[test]
fn a_message_and_a_receive_that_differ_in_the_tag_are_named_together() {
    let mut job = Ranks::started(2);
    job.begin(0, 3000, "MPI_Isend", &message(4, 1, 5));
    job.begin(1, 3000, "MPI_Irecv", &message(4, 0, 6));
    let check = job.finalized(2).check();
    let found: Vec<_> = check
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::TagMismatch)
        .map(|finding| finding.text.as_str())
        .collect();
    let text = "rank 0 sends and rank 1 receives with different tags: 5 and 6";
    assert_eq!(found, [text]);
}

#[test]
fn invalid_arguments_are_named() {
    let of = |name: &str, arguments: &[u64]| {
        let mut job = Ranks::started(2);
        job.enter(0, 3000, name, arguments);
        job.call(1, 3000, 3100, "MPI_Wtime", &[]);
        let check = job.check();
        let found = check.findings.iter().map(|finding| finding.kind);
        found.collect::<Vec<FindingKind>>()
    };
    let send = |place: usize, word: u64| {
        let mut arguments = message(4, 1, 5);
        arguments[place] = word;
        of("MPI_Ssend", &arguments)
    };
    assert_eq!(send(3, int(1)), []);
    assert_eq!(send(0, 0), [FindingKind::InvalidBuffer]);
    assert_eq!(send(1, int(-1)), [FindingKind::InvalidCount]);
    assert_eq!(send(2, NULL_DATATYPE), [FindingKind::InvalidDatatype]);
    assert_eq!(send(3, int(2)), [FindingKind::InvalidRank]);
    // MPI_PROC_NULL is a rank, and MPI_ANY_SOURCE is none for sends.
    assert_eq!(send(3, int(-1)), []);
    assert_eq!(send(3, int(-2)), [FindingKind::InvalidRank]);
    assert_eq!(send(4, int(-7)), [FindingKind::InvalidTag]);
    assert_eq!(
        send(5, NULL_COMMUNICATOR),
        [FindingKind::InvalidCommunicator]
    );
    assert_eq!(
        of("MPI_Bcast", &broadcast(1, INT, 2)),
        [FindingKind::InvalidRoot]
    );
    assert_eq!(
        of("MPI_Bcast", &broadcast(1, INT, -3)),
        [FindingKind::InvalidRoot]
    );
    let reduce = [
        BUFFER,
        BUFFER + 64,
        int(1),
        INT,
        NULL_OPERATOR,
        int(0),
        WORLD,
    ];
    assert_eq!(of("MPI_Reduce", &reduce), [FindingKind::InvalidOperator]);
    let split = |color: i32| of("MPI_Comm_split", &[WORLD, int(color), int(0), BUFFER]);
    // MPI_UNDEFINED is a color.
    assert_eq!((split(0), split(-32766)), (Vec::new(), Vec::new()));
    assert_eq!(split(-7), [FindingKind::InvalidArgument]);
    let vector = |count: i32| {
        of(
            "MPI_Type_vector",
            &[int(count), int(1), int(2), INT, BUFFER],
        )
    };
    assert_eq!(
        (vector(0), vector(-1)),
        (Vec::new(), vec![FindingKind::InvalidCount])
    );
    let window = |unit: i32| {
        let words = [BUFFER, 64, int(unit), 0x1c00_0000, WORLD, BUFFER];
        of("MPI_Win_create", &words)
    };
    assert_eq!(
        (window(1), window(0)),
        (Vec::new(), vec![FindingKind::InvalidArgument])
    );
}

#[test]
fn calls_outside_of_mpi_are_named() {
    let mut job = Ranks::new(1);
    job.call(0, 100, 200, "MPI_Barrier", &[WORLD]);
    job.call(0, 300, 400, "MPI_Initialized", &[BUFFER]);
    job.call(0, 1000, 2000, "MPI_Init", &[0, 0]);
    job.call(0, 3000, 4000, "MPI_Finalize", &[]);
    job.call(0, 5000, 5100, "MPI_Finalized", &[BUFFER]);
    job.call(0, 6000, 6100, "MPI_Barrier", &[WORLD]);
    let check = job.check();
    let kinds: Vec<_> = check.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::BeforeInit, FindingKind::AfterFinalize]);

    let mut job = Ranks::started(2);
    job.call(1, 3000, 4000, "MPI_Finalize", &[]);
    let check = job.check();
    assert_eq!(check.findings[0].text, "rank 0 ended without MPI_Finalize");
}

/// The sizes of pieces at sender and receiver, in collective operations with a count for each member.
#[test]
fn pieces_have_the_same_size_at_both_sides() {
    let found = |counts: [[i32; 2]; 4]| {
        let mut job = Ranks::started(2);
        for rank in 0..2 {
            let [sent, received] =
                [counts[rank], counts[2 + rank]].map(|all| job.guests[rank].ints(&all));
            let places = job.guests[rank].ints(&[0, 8]);
            let arguments = [
                BUFFER,
                sent,
                places,
                INT,
                BUFFER + 64,
                received,
                places,
                INT,
                WORLD,
            ];
            job.call(rank, 3000, 3100, "MPI_Alltoallv", &arguments);
        }
        job.kinds(2)
    };
    assert_eq!(found([[1, 2], [3, 4], [1, 3], [2, 4]]), []);
    assert_eq!(
        found([[1, 2], [3, 4], [1, 3], [3, 4]]),
        [FindingKind::SizeMismatch]
    );
    assert_eq!(
        found([[1, 2], [3, 4], [1, 2], [2, 4]]),
        [FindingKind::SizeMismatch]
    );

    let gathered = |expected: i32| {
        let mut job = Ranks::started(2);
        for rank in 0..2 {
            let counts = job.guests[rank].ints(&[1, expected]);
            let places = job.guests[rank].ints(&[0, 8]);
            let arguments = [
                BUFFER,
                int(1 + rank as i32),
                INT,
                BUFFER + 64,
                counts,
                places,
                INT,
                int(0),
                WORLD,
            ];
            job.call(rank, 3000, 3100, "MPI_Gatherv", &arguments);
        }
        job.kinds(2)
    };
    assert_eq!(gathered(2), []);
    assert_eq!(gathered(3), [FindingKind::SizeMismatch]);
}

/// Both neighbours of a rank in a ring of two are the other one: data for the one ahead comes from the one behind there.
#[test]
fn neighbours_in_a_grid_exchange_the_same_data() {
    const GRID: u64 = 0x8400_0001;
    let kinds = |expected: [i32; 2]| {
        let mut job = Ranks::started(2);
        for rank in 0..2 {
            let guest = &mut job.guests[rank];
            let (dimensions, periods) = (guest.ints(&[2]), guest.ints(&[1]));
            let made = guest.handles(&[0]);
            let grid = [WORLD, int(1), dimensions, periods, int(0), made];
            job.call_and(rank, 3000, 3100, "MPI_Cart_create", &grid, |guest| {
                guest.put_handle(made, GRID);
            });
            let guest = &mut job.guests[rank];
            let [sent, received] = match rank {
                0 => [guest.ints(&[1, 2]), guest.ints(&[1, 1])],
                _ => [guest.ints(&[1, 1]), guest.ints(&expected)],
            };
            let places = guest.ints(&[0, 4]);
            let exchange = [
                BUFFER,
                sent,
                places,
                INT,
                BUFFER + 64,
                received,
                places,
                INT,
                GRID,
            ];
            job.call(rank, 4000, 4100, "MPI_Neighbor_alltoallv", &exchange);
            let freed = job.guests[rank].handles(&[GRID]);
            job.call(rank, 5000, 5100, "MPI_Comm_free", &[freed]);
        }
        job.kinds(2)
    };
    assert_eq!(kinds([2, 1]), []);
    assert_eq!(kinds([1, 2]), [FindingKind::SizeMismatch]);
}

/// A process of each rank, in its scripted job, with the status of its end.
fn ended(statuses: [u32; 2]) -> Vec<LostProcess> {
    let ranks = statuses.into_iter().zip(0..);
    let process = |(status, node)| LostProcess {
        node,
        process: 0,
        status: Some(status),
    };
    ranks.map(process).collect()
}

#[test]
fn a_rank_that_exits_without_ending_mpi_is_named() {
    let without = |end: JobEnd, waits: bool| {
        let mut job = Ranks::started(2);
        if waits {
            job.enter(0, 3000, "MPI_Finalize", &[]);
        }
        let check = job.check_ended(end);
        let texts = check
            .findings
            .iter()
            .filter(|it| it.kind == FindingKind::NoFinalize);
        let texts: Vec<String> = texts
            .map(|it| format!("{}: {}", it.text, it.count))
            .collect();
        (texts, check.failure)
    };
    let named = |rank: u32, count: u32| format!("rank {rank} ended without MPI_Finalize: {count}");
    // All ranks return from `main`, and the launcher does not mind.
    let well = JobEnd {
        exit_code: Some(0),
        ended: Vec::new(),
    };
    assert_eq!(without(well, false), (vec![named(0, 2)], None));
    // Rank 1 exits with status 5; rank 0 waits for it.
    let waits = JobEnd {
        exit_code: None,
        ended: ended([0x0f, 5 << 8])[1..].to_vec(),
    };
    let failure = "the job had not ended when the run did".to_owned();
    assert_eq!(without(waits, true), (vec![named(1, 1)], Some(failure)));
    // Rank 1 kills itself, and the launcher rank 0: neither exited.
    let killed = JobEnd {
        exit_code: Some(137),
        ended: ended([15, 9]),
    };
    let failure = "the job ended with exit code 137; rank 0 was ended by signal 15 (SIGTERM); rank 1 was ended by signal 9 (SIGKILL)".to_owned();
    assert_eq!(without(killed, false), (Vec::new(), Some(failure)));
}
