//! Recorded messages of a run, compared with the messages that the library's rules give for the calls.

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use super::matrix::{Pairs, matrix, pairs};
use crate::mpirun::compiled;

/// Messages of all kinds, and collective operations of two sizes, some of them nonblocking; the first one has no data.
const PROGRAM: &str = r#"#include <mpi.h>
enum { MOST = 3000 };
static double out[8 * MOST], in[8 * MOST];
int main(int argc, char **argv)
{
    int rank, size, sent = 5;
    MPI_Request request;
    MPI_Datatype column;
    MPI_Comm twin;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Type_vector(10, 1, 4, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Irecv(in, 10, MPI_DOUBLE, from, 3, twin, &request);
    MPI_Send(out, 1, column, to, 3, twin);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Send_init(&sent, 1, MPI_INT, to, 4, twin, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        MPI_Recv(in, 1, MPI_INT, from, 4, twin, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    if (rank == 0)
        MPI_Ssend(out, MOST, MPI_DOUBLE, 1, 5, twin);
    else if (rank == 1)
        MPI_Recv(in, MOST, MPI_DOUBLE, 0, 5, twin, MPI_STATUS_IGNORE);
    for (int n = 0; n <= MOST; n += MOST / 2) {
        MPI_Barrier(twin);
        MPI_Bcast(out, n, MPI_DOUBLE, size - 1, twin);
        MPI_Ibcast(out, n, MPI_DOUBLE, 1, twin, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Reduce(out, in, n, MPI_DOUBLE, MPI_SUM, 1, twin);
        MPI_Allreduce(out, in, n, MPI_DOUBLE, MPI_SUM, twin);
        MPI_Gather(out, n, MPI_DOUBLE, in, n, MPI_DOUBLE, 0, twin);
        MPI_Scatter(out, n, MPI_DOUBLE, in, n, MPI_DOUBLE, 0, twin);
        MPI_Allgather(out, n, MPI_DOUBLE, in, n, MPI_DOUBLE, twin);
        MPI_Alltoall(out, n, MPI_DOUBLE, in, n, MPI_DOUBLE, twin);
        MPI_Reduce_scatter_block(out, in, n, MPI_DOUBLE, MPI_SUM, twin);
        MPI_Scan(out, in, n, MPI_DOUBLE, MPI_SUM, twin);
        MPI_Iallreduce(out, in, n, MPI_DOUBLE, MPI_SUM, twin, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
"#;

/// A library's messages and bytes on this number of nodes agree with its rules; and recording changes nothing.
fn agree(dir: &Dir, library: &str, nodes: u32) {
    let command = match library {
        "mpich" => format!("mpiexec.hydra -n {nodes} ./program-mpich"),
        _ => format!("mpirun -np {nodes} ./program-openmpi"),
    };
    let file = format!("program-{library}");
    let scenario = Scenario::new(nodes, &command)
        .on(&format!("bookworm-{library}"))
        .working(&format!("files = {{ {file} = \"{file}\" }}"));
    let looking = scenario
        .clone()
        .with("[trace]\nmessages = true\nframes = 1");
    let out = format!("{library}-{nodes}");
    let run = dir.run(&looking, &out, &[]).success();
    let message = matrix(dir, &out, &["--by", "message"]);
    assert_eq!(message["unknown"].as_array().map(Vec::len), Some(0));
    let told = matrix(dir, &out, &["--by", "seen"]);
    let mut seen = pairs(&told, "bytes");
    // MPICH sends parts to the sender itself, too.
    seen.retain(|(from, to), _| from != to);
    let expected: Pairs = pairs(&message, "bytes");
    assert!(expected.len() as u32 >= 2 * nodes);
    assert_eq!(seen, expected, "{out}");
    // All except the messages for making the communicator.
    let unknown = told["unknown"].as_array().expect("a list");
    assert!(unknown.len() <= 1, "{unknown:?}");
    assert!(
        unknown
            .iter()
            .all(|it| it["what"].as_str().is_some_and(|it| it.contains("itself")))
    );
    assert_sites(dir, &out);
    if nodes == 3 {
        let plain = dir.run(&scenario, &format!("{out}-plain"), &[]).success();
        assert!(plain.bytes("wire.csv") == run.bytes("wire.csv"));
        let text = |out: &str| dir.call(&["trace", "dump", out, "--function", "MPI_*"]).0;
        assert_eq!(text(&format!("{out}-plain")), text(&out));
    }
}

/// Each message has the call in which it was sent, and the call site of that function of the library.
fn assert_sites(dir: &Dir, out: &str) {
    let (dump, error, code) = dir.call(&[
        "trace",
        "dump",
        "--json",
        "--sites",
        "--function",
        "message",
        out,
    ]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    for line in dump.lines() {
        let message: Value = serde_json::from_str(line).expect("JSON");
        let within = message["within"].as_str().unwrap_or_default();
        assert!(within.starts_with("MPI_"), "{line}");
        let object = message["site"][0]["object"].as_str().unwrap_or_default();
        // Open MPI's MPI_Start jumps to the layer below, and leaves no frame.
        assert!(object.contains("/lib") || within == "MPI_Start", "{line}");
    }
    let (sites, error, code) = dir.call(&["trace", "sites", "--json", out]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let sites: Value = serde_json::from_str(&sites).expect("JSON");
    let of_probes = sites["probes"].as_array().expect("sites of probes").iter();
    let calls = of_probes.filter(|it| it["probe"] == "message");
    let calls: u64 = calls.map(|it| it["calls"].as_u64().expect("calls")).sum();
    assert_eq!(calls, dump.lines().count() as u64);
}

#[test]
fn messages_seen_are_those_that_decisions_of_mpich_make() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "program-mpich", PROGRAM, &["-O1"]) {
        return;
    }
    agree(&dir, "mpich", 3);
    agree(&dir, "mpich", 4);
}

#[test]
fn messages_seen_are_those_that_decisions_of_open_mpi_make() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.openmpi", "program-openmpi", PROGRAM, &["-O1"]) {
        return;
    }
    agree(&dir, "openmpi", 3);
    agree(&dir, "openmpi", 4);
}

/// Operations that MPICH divides by nodes, of sizes on both sides of its limits. Each node has a root: one of its two ranks,
/// in turns.
const DIVIDED: &str = r#"#include <mpi.h>
enum { MOST = 5000 };
static double out[MOST], in[MOST];
int main(int argc, char **argv)
{
    int sizes[] = { 1, 256, 257, 1600, MOST }, size;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 5; i++)
        for (int node = 0; node < size / 2; node++) {
            int n = sizes[i], root = 2 * node + (node + i) % 2;
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Bcast(out, n, MPI_DOUBLE, root, MPI_COMM_WORLD);
            MPI_Reduce(out, in, n, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
            MPI_Allreduce(out, in, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            MPI_Ibcast(out, n, MPI_DOUBLE, root, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Ireduce(out, in, n, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn messages_of_ranks_that_share_nodes_are_those_of_compositions() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "divided", DIVIDED, &["-O1"]) {
        return;
    }
    // Three nodes of two ranks, and four nodes of two: the number of nodes is a power of two, or not.
    for ranks in [6, 8] {
        let (out, ranks) = (format!("divided-{ranks}"), ranks.to_string());
        let words = [
            "mpirun",
            "--quiet",
            "--image",
            "bookworm-mpich",
            "-n",
            &ranks,
            "-ppn",
            "2",
            "--set",
            "trace.messages=true",
            "--out",
            &out,
            "./divided",
        ];
        let (stdout, stderr, code) = dir.call(&words);
        assert_eq!(code, Some(0), "{stdout}\n{stderr}");
        let message = matrix(&dir, &out, &["--by", "message"]);
        assert_eq!(message["unknown"].as_array().map(Vec::len), Some(0));
        let seen = matrix(&dir, &out, &["--by", "seen"]);
        let (expected, seen_pairs) = (pairs(&message, "bytes"), pairs(&seen, "bytes"));
        for (pair, found) in &seen_pairs {
            assert_eq!(Some(found), expected.get(pair), "{ranks} ranks: {pair:?}");
        }
        // For the others, the address of the receiving end is unknown: its first message was in shared memory.
        let missing = expected
            .iter()
            .filter(|(pair, _)| !seen_pairs.contains_key(pair));
        let missing: u64 = missing.map(|(_, (messages, _))| messages).sum();
        let unknown = seen["unknown"].as_array().expect("a list").iter();
        let unknown: u64 = unknown.filter_map(|it| it["count"].as_u64()).sum();
        assert_eq!(missing, unknown, "{ranks} ranks");
        assert!(seen_pairs.len() >= expected.len() / 2, "{expected:?}");
    }
}
