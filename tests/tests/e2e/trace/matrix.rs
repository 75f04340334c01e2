//! Traffic between ranks of a program with known traffic, compared with the frames on the wire.

use std::collections::BTreeMap;

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// Four ranks: messages in a ring, pieces of all sizes from each to each, broadcasts, reductions, and gathers in the two halves of even
/// and of odd ranks.
const TRAFFIC: &str = r#"#include <mpi.h>
#include <stdlib.h>
enum { N = 4, MOST = 1 << 20 };
int main(int argc, char **argv)
{
    int rank;
    int sent[N], received[N], places[N];
    MPI_Comm half;
    char *out = calloc(1, MOST), *in = calloc(1, MOST);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 10; i++)
        MPI_Sendrecv(out, 10000, MPI_BYTE, (rank + 1) % N, 1, in, 10000, MPI_BYTE, (rank + N - 1) % N, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int other = 0; other < N; other++) {
        sent[other] = received[other] = (rank + 1) * (other + 1) * 1000;
        places[other] = other * 16000;
    }
    MPI_Alltoallv(out, sent, places, MPI_BYTE, in, received, places, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < 5; i++)
        MPI_Bcast(out, 10000, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++)
        MPI_Allreduce(out, in, 40000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allgather(out, 50000, MPI_BYTE, in, 50000, MPI_BYTE, half);
    MPI_Finalize();
    return 0;
}
"#;

/// Messages and bytes by sender and receiver.
pub(super) type Pairs = BTreeMap<(u64, u64), (u64, u64)>;

pub(super) fn matrix(dir: &Dir, out: &str, more: &[&str]) -> Value {
    let arguments = [&["trace", "matrix", "--json", out], more].concat();
    let (told, error, code) = dir.call(&arguments);
    assert_eq!(code, Some(0), "{error}");
    serde_json::from_str(&told).expect("JSON")
}

/// The pairs of a matrix, with the bytes in the column `bytes`.
pub(super) fn pairs(matrix: &Value, bytes: &str) -> Pairs {
    let pairs = matrix["pairs"].as_array().expect("pairs").iter();
    let number = |value: &Value| value.as_u64();
    let known = pairs.filter_map(|pair| {
        let ends = (number(&pair["from"])?, number(&pair["to"])?);
        Some((ends, (number(&pair["messages"])?, number(&pair[bytes])?)))
    });
    known.collect()
}

/// Adds `messages` messages of `bytes` bytes each from each rank to the rank `to`.
fn add(pairs: &mut Pairs, to: impl Fn(u64) -> u64, messages: u64, bytes: u64) {
    for from in 0..4 {
        let pair = pairs.entry((from, to(from))).or_default();
        *pair = (pair.0 + messages, pair.1 + messages * bytes);
    }
}

/// The program's calls: equal traffic from each to each, except in the ring, the pieces, the halves, and from the root.
fn called() -> Pairs {
    let mut pairs = Pairs::new();
    add(&mut pairs, |rank| (rank + 1) % 4, 10, 10_000);
    add(&mut pairs, |rank| rank ^ 2, 1, 50_000);
    for distance in 1..4 {
        add(&mut pairs, |rank| (rank + distance) % 4, 3, 320_000);
    }
    for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
        if from != to {
            let pair = pairs.entry((from, to)).or_default();
            let root = if from == 1 { 5 } else { 0 };
            let bytes = (from + 1) * (to + 1) * 1000 + root * 80_000;
            *pair = (pair.0 + 1 + root, pair.1 + bytes);
        }
    }
    pairs
}

/// MPICH's messages for them: a dissemination barrier, a binomial tree below rank 1, halves and quarters in the reductions and
/// back.
fn sent() -> Pairs {
    let mut pairs = Pairs::new();
    add(&mut pairs, |rank| (rank + 1) % 4, 10, 10_000);
    add(&mut pairs, |rank| rank ^ 2, 1, 50_000);
    add(&mut pairs, |rank| (rank + 1) % 4, 1, 0);
    add(&mut pairs, |rank| (rank + 2) % 4, 1, 0);
    add(&mut pairs, |rank| rank ^ 1, 6, 160_000);
    add(&mut pairs, |rank| rank ^ 2, 6, 80_000);
    for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
        if from != to {
            let tree = [(1, 3), (1, 2), (3, 0)].contains(&(from, to));
            let broadcasts = if tree { 5 } else { 0 };
            let bytes = (from + 1) * (to + 1) * 1000 + broadcasts * 80_000;
            let pair = pairs.entry((from, to)).or_default();
            *pair = (pair.0 + 1 + broadcasts, pair.1 + bytes);
        }
    }
    pairs
}

#[test]
fn traffic_is_what_the_program_calls_the_library_sends_and_the_wire_carries() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "traffic", TRAFFIC, &["-O1"]) {
        return;
    }
    let scenario = Scenario::new(4, "mpiexec.hydra -n 4 ./traffic");
    let scenario = scenario.working("files = { traffic = \"traffic\" }");
    let run = dir.run(&scenario, "out", &[]).success();

    let by_call = matrix(&dir, "out", &[]);
    assert_eq!(pairs(&by_call, "bytes"), called());
    assert_eq!(by_call["unknown"].as_array().map(Vec::len), Some(0));

    let by_message = matrix(&dir, "out", &["--by", "message"]);
    let messages = pairs(&by_message, "bytes");
    assert_eq!(messages, sent());
    assert_eq!(by_message["unknown"].as_array().map(Vec::len), Some(0));

    // Without the trace's times the result is the same.
    for (by, timed) in [("call", &by_call), ("message", &by_message)] {
        let counts = matrix(&dir, "out", &["--by", by, "--counts"]);
        assert_eq!(
            (&counts["pairs"], &counts["span_ps"]),
            (&timed["pairs"], &0.into())
        );
    }

    // The wire has the same data, in addition to MPICH's headers and connections, and the launcher's messages.
    let wire = pairs(&matrix(&dir, "out", &["--by", "wire"]), "payload");
    for (pair, (_, bytes)) in &messages {
        let carried = wire.get(pair).map_or(0, |(_, payload)| *payload);
        assert!(carried >= *bytes, "{pair:?}: {carried} of {bytes}");
    }
    let sum = |pairs: &Pairs| pairs.values().map(|(_, bytes)| *bytes).sum::<u64>();
    let (of_messages, of_wire) = (sum(&messages), sum(&wire));
    let most = of_messages + of_messages / 100;
    assert!(of_wire <= most, "{of_wire} on the wire for {of_messages}");

    let halves = matrix(&dir, "out", &["--communicator", "2", "--rank", "1"]);
    let of_half = Pairs::from([((1, 3), (1, 50_000))]);
    assert_eq!(pairs(&halves, "bytes"), of_half);

    let hosts = ["--launch", "local", "--threads", "1", "--hosts", "one,two"];
    let apart = dir.run(&scenario, "apart", &hosts).success();
    assert_eq!(run.text("wire.csv"), apart.text("wire.csv"));
    assert_eq!(matrix(&dir, "apart", &["--by", "message"]), by_message);
}

#[test]
fn a_matrix_tells_what_it_lacks() {
    let Some(dir) = Dir::new() else { return };
    let refused = |arguments: &[&str]| {
        let (_, error, code) = dir.call(arguments);
        assert_eq!(code, Some(1), "{error}");
        error
    };
    let error = refused(&["trace", "matrix", "none", "--by", "wire"]);
    assert!(error.contains("summary.json"), "{error}");
    let error = refused(&["trace", "matrix", "none", "--by", "wire", "--rank", "1"]);
    assert!(error.contains("whole run"), "{error}");
    let error = refused(&["trace", "matrix", "none", "--by", "message"]);
    assert!(error.contains("--library"), "{error}");
    let library = dir.write("library.so", "\u{7f}ELF");
    let library = library.to_str().expect("a plain path");
    let error = refused(&[
        "trace",
        "matrix",
        "x",
        "--by",
        "message",
        "--library",
        library,
    ]);
    assert!(error.contains("decision tables"), "{error}");
}
