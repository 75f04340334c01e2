//! Runs exported into other tools' formats are imported as run directories that every command
//! accepts.

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// A ring, and an allreduce; a separate communicator.
const RING: &str = r#"#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, size;
    char out[4000] = {0}, in[4000];
    double mine = 1, all;
    MPI_Comm row;
    MPI_Request r[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &row);
    for (int step = 0; step < 20; step++) {
        int bytes = 200 * (step + 1);
        MPI_Irecv(in, bytes, MPI_BYTE, (rank + size - 1) % size, 3, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out, bytes, MPI_BYTE, (rank + 1) % size, 3, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, row);
        if (step % 5 == 0)
            MPI_Bcast(out, 1000, MPI_BYTE, step % size, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"#;

fn told(dir: &Dir, arguments: &[&str]) -> Value {
    let (told, error, code) = dir.call(arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {error}");
    serde_json::from_str(&told).unwrap_or_else(|why| panic!("{why}: {told}"))
}

/// Calls and bytes of each function that moves data.
fn moved(dir: &Dir, run: &str) -> Vec<Value> {
    let stat = told(dir, &["trace", "stat", "--json", run]);
    let all = stat["functions"].as_array().expect("functions");
    let moves = all.iter().filter(|of| of["sent"].as_u64() > Some(0));
    let mut moves: Vec<Value> = moves
        .map(|of| serde_json::json!([of["function"], of["calls"], of["sent"], of["total_ps"]]))
        .collect();
    moves.sort_by_key(ToString::to_string);
    moves
}

#[test]
fn a_run_comes_back_from_other_formats() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "ring", RING, &["-O1"]) {
        return;
    }
    let scenario = Scenario::new(4, "mpiexec.hydra -n 4 ./ring");
    let scenario = scenario.working("files = { ring = \"ring\" }");
    let _ = dir.run(&scenario, "run", &[]).success();
    let formats = [
        ("otf2", "archive", "archive/traces.otf2"),
        ("goal", "schedule.goal", "schedule.goal"),
        ("goal-binary", "schedule.bin", "schedule.bin"),
        ("ti", "ti", "ti"),
    ];
    for (format, out, file) in formats {
        let (_, error, code) =
            dir.call(&["trace", "export", "run", "--format", format, "--out", out]);
        assert_eq!(code, Some(0), "{format}: {error}");
        let imported = format!("from-{format}");
        let (_, error, code) = dir.call(&["trace", "import", file, "--out", &imported]);
        assert_eq!(code, Some(0), "{format}: {error}");
        // Data that the format lacks is reported.
        assert!(error.contains("note: "), "{format}: {error}");
        let replay = told(&dir, &["replay", &imported, "--json"]);
        assert_eq!(
            replay["stuck"].as_array().map(Vec::len),
            Some(0),
            "{replay}"
        );
        assert!(replay["messages"].as_u64() >= Some(80), "{replay}");
        let matrix = told(&dir, &["trace", "matrix", "--json", &imported]);
        let pairs = matrix["pairs"].as_array().expect("pairs");
        assert!(pairs.len() >= 4, "{format}: {matrix}");
    }
    assert_eq!(moved(&dir, "from-otf2"), moved(&dir, "run"));
    let of = |run: &str| told(&dir, &["trace", "matrix", "--json", run])["pairs"].clone();
    assert_eq!(of("from-otf2"), of("run"));
    dir.write("none.txt", "this is no trace\n");
    let (_, error, code) = dir.call(&["trace", "import", "none.txt", "--out", "none"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("none.txt") && !dir.path("none").exists(),
        "{error}"
    );
}
