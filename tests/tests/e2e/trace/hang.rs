//! Jobs that come to no end are explained.

use belljar_tests::Dir;
use serde_json::Value;

use crate::mpirun::compiled;

/// Both ranks receive first.
const DEAD: &str = r#"#include <mpi.h>
static int exchange(int rank)
{
    int got = 0;
    MPI_Recv(&got, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&rank, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD);
    return got;
}
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    exchange(rank);
    MPI_Finalize();
}
"#;

#[test]
fn ranks_that_wait_for_each_other_are_named() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "dead", DEAD, &["-g", "-O1"]) {
        return;
    }
    let words = ["mpirun", "-np", "2", "-ppn", "1", "--limit", "4s"];
    let more = ["--set", "trace.frames=2", "--out", "out", "./dead"];
    let (_, error, code) = dir.call(&[&words[..], &more].concat());
    assert_ne!(code, Some(0), "{error}");
    let verdict = "deadlock: rank 0 in MPI_Recv waits for rank 1 in MPI_Recv waits for rank 0";
    assert!(error.contains(verdict), "{error}");

    let (text, error, code) = dir.call(&["trace", "hang", "out.incomplete"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.starts_with(&verdict.replacen('d', "D", 1)), "{text}");
    assert!(text.contains("exchange (dead.c:5)"), "{text}");
    let (json, error, code) = dir.call(&["trace", "hang", "--json", "out.incomplete"]);
    assert_eq!(code, Some(0), "{error}");
    let hang: Value = serde_json::from_str(&json).expect("this is JSON");
    assert_eq!(hang["verdict"], "deadlock");
    for (rank, other) in [(0, 1), (1, 0)] {
        let found = &hang["ranks"][rank];
        assert_eq!(found["function"], "MPI_Recv");
        assert_eq!(found["stuck"], true);
        assert_eq!(found["waits_for"][0]["rank"], other);
        assert!(
            found["for_ps"].as_u64() > Some(1_000_000_000_000),
            "{found}"
        );
    }
}
