//! Loops and event flow graphs of a program with known counts.

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// Ten steps: a broadcast, three allreduces, a ring of messages, and a barrier in the even ones.
const LOOPS: &str = r#"#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, size, data = 0, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int step = 1; step <= 10; step++) {
        MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD);
        for (int round = 0; round < 3; round++)
            MPI_Allreduce(&data, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Sendrecv(&data, 1, MPI_INT, (rank + 1) % size, 0, &sum, 1, MPI_INT,
            (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (step % 2 == 0)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"#;

fn told(dir: &Dir, arguments: &[&str]) -> Value {
    let (text, error, code) = dir.call(arguments);
    assert_eq!(code, Some(0), "{error}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn loops_have_the_counts_of_the_program() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "loops", LOOPS, &["-O1"]) {
        return;
    }
    let scenario = Scenario::new(4, "mpiexec.hydra -n 4 ./loops");
    let scenario = scenario.working("files = { loops = \"loops\" }");
    let _ = dir.run(&scenario, "out", &[]).success();

    let loops = told(&dir, &["trace", "loops", "--json", "out"]);
    let classes = loops["classes"].as_array().expect("classes");
    assert_eq!(classes.len(), 1, "all ranks of a ring are alike: {loops:#}");
    let class = &classes[0];
    assert_eq!(class["name"], "all 4 ranks");
    assert_eq!(loops["left_out"], 8, "ranks and sizes asked for");
    let steps = &class["body"][1];
    assert_eq!(steps["kind"], "loop", "{class:#}");
    assert_eq!(
        (&steps["iterations"]["min"], &steps["iterations"]["max"]),
        (&10.into(), &10.into())
    );
    assert_eq!(steps["calls"], 4 * (10 * 5 + 5));
    let body = steps["body"].as_array().expect("a body");
    let function = |part: usize| &body[part]["calls"][0]["function"];
    assert_eq!(function(0), "MPI_Bcast");
    let rounds = &body[1];
    assert_eq!(rounds["iterations"]["min"], 3, "{steps:#}");
    assert_eq!(rounds["iterations"]["max"], 3);
    assert_eq!(rounds["iterations"]["total"], 4 * 30);
    assert_eq!(function(2), "MPI_Sendrecv");
    assert_eq!(body[2]["calls"][0]["text"], "MPI_Sendrecv to +1 from -1");
    assert_eq!(function(3), "MPI_Barrier");
    let when = &body[3]["when"];
    let even = serde_json::json!({
        "in": "iterations",
        "labels": [{ "first": 2, "last": 10, "stride": 2, "block": 1 }],
        "of": 10,
    });
    assert_eq!(*when, even);

    let graph = told(&dir, &["trace", "graph", "--json", "--unfolded", "out"]);
    let nodes = graph["graphs"][0]["nodes"].as_array().expect("nodes");
    let visits = |function: &str| {
        let own = nodes
            .iter()
            .find(|node| node["calls"][0]["function"] == function);
        own.map(|node| node["visits"]["total"].as_u64().expect("a count"))
    };
    assert_eq!(visits("MPI_Allreduce"), Some(120));
    assert_eq!(visits("MPI_Barrier"), Some(20));
    for (format, begin) in [("--dot", "digraph"), ("--graphml", "<?xml")] {
        let (text, error, code) = dir.call(&["trace", "graph", format, "out"]);
        assert_eq!(code, Some(0), "{error}");
        assert!(text.starts_with(begin), "{text}");
    }
}
