//! Waiting in a program that delays its processes by known times.

use std::collections::BTreeMap;

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// Rank 0 sends 20 ms late, rank 2 reaches the last barrier 10 ms late, and rank 3 receives messages from any
/// source, with rank 1 5 ms late.
const LATE: &str = r#"#include <mpi.h>
#include <stdio.h>
static void spin(double seconds)
{
    for (double until = MPI_Wtime() + seconds; MPI_Wtime() < until;)
        ;
}
int main(int argc, char **argv)
{
    int rank, data = 0;
    MPI_Status status;
    MPI_Request requests[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        spin(0.020);
        MPI_Send(&data, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(&data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        spin(0.005);
    if (rank < 2)
        MPI_Ssend(&data, 1, MPI_INT, 3, 2 + rank, MPI_COMM_WORLD);
    if (rank == 3) {
        int of_others[2];
        for (int i = 0; i < 2; i++)
            MPI_Irecv(&of_others[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < 2; i++)
            MPI_Wait(&requests[i], &status);
    }
    if (rank == 2)
        spin(0.010);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"#;

/// When a rank's only call of a function was entered, in picoseconds.
fn entry(dir: &Dir, rank: u64, function: &str) -> u64 {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", "out"]);
    assert_eq!(code, Some(0), "{error}");
    let events = dump.lines().map(|line| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        event
    });
    let own = events.filter(|event| event["rank"] == rank && event["function"] == function);
    let entries: Vec<u64> = own.filter_map(|event| event["entry_ps"].as_u64()).collect();
    let [entry] = entries[..] else {
        panic!("{function} of rank {rank}: {entries:?}");
    };
    entry
}

#[test]
fn waiting_times_are_those_that_the_program_made() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "late", LATE, &["-O1"]) {
        return;
    }
    let scenario = Scenario::new(4, "mpiexec.hydra -n 4 ./late");
    let scenario = scenario.working("files = { late = \"late\" }");
    let _ = dir.run(&scenario, "out", &[]).success();
    let (told, error, code) = dir.call(&["trace", "wait", "--json", "out"]);
    assert_eq!(code, Some(0), "{error}");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    for unknown in [
        "lone_sends",
        "lone_receives",
        "lone_collectives",
        "unresolved",
    ] {
        assert_eq!(told[unknown], 0, "{told:#}");
    }
    assert_eq!(
        (&told["messages"], &told["collectives"]),
        (&3.into(), &3.into())
    );

    let longest = told["longest"].as_array().expect("calls");
    let of = |kind: &str, function: &str| -> Vec<(u64, u64, u64)> {
        let own = longest
            .iter()
            .filter(|call| call["kind"] == kind && call["function"] == function);
        let row = |call: &Value| {
            let number = |key: &str| call[key].as_u64().expect("a number");
            (number("rank"), number("for_rank"), number("waiting_ps"))
        };
        own.map(row).collect()
    };
    // The time between a barrier's end and the next call is less than this.
    let near =
        |found: u64, milliseconds: u64| found.abs_diff(milliseconds * 1_000_000_000) < 300_000_000;
    let [(1, 0, late)] = of("late-sender", "MPI_Recv")[..] else {
        panic!("{told:#}");
    };
    assert!(near(late, 20), "{late}");
    let exact = entry(&dir, 0, "MPI_Send") - entry(&dir, 1, "MPI_Recv");
    assert_eq!(late, exact, "from the receive's entry to the send's");

    let [(3, 1, late)] = of("late-sender", "MPI_Wait")[..] else {
        panic!("{told:#}");
    };
    assert!(near(late, 5), "{late}");
    let barriers = of("barrier", "MPI_Barrier");
    let for_rank_2: BTreeMap<u64, u64> = barriers
        .iter()
        // Rank 2 may start some milliseconds later than others, too.
        .filter(|(_, by, late)| *by == 2 && *late > 3_000_000_000)
        .map(|(rank, _, late)| (*rank, *late))
        .collect();
    assert!(near(for_rank_2[&0], 10), "{for_rank_2:?}");
    assert!(near(for_rank_2[&1], 5), "{for_rank_2:?}");
    assert!(near(for_rank_2[&3], 5), "{for_rank_2:?}");

    // The critical path: rank 0 until it sent, and rank 2 before the last barrier.
    let (path, error, code) = dir.call(&["trace", "path", "--json", "out"]);
    assert_eq!(code, Some(0), "{error}");
    let path: Value = serde_json::from_str(&path).expect("JSON");
    let ranks = path["ranks"].as_array().expect("ranks");
    let of_rank = |rank: u64| {
        let own = ranks.iter().find(|part| part["rank"] == rank);
        own.map_or(0, |part| part["path_ps"].as_u64().expect("a time"))
    };
    assert!(of_rank(0) > 20_000_000_000, "{path:#}");
    assert!(of_rank(2) > 10_000_000_000, "{path:#}");
    // They query the time until they are late, and make no other calls on the path.
    let functions = path["functions"].as_array().expect("functions");
    let asking = functions
        .iter()
        .find(|part| part["function"] == "MPI_Wtime");
    let asking = asking.map_or(0, |part| part["path_ps"].as_u64().expect("a time"));
    assert!(asking > 28_000_000_000, "{path:#}");
    let parts = ranks.iter().map(|part| part["path_ps"].as_u64());
    let whole: u64 = parts.flatten().sum();
    let ends = |key: &str| path[key].as_u64().expect("a time");
    assert_eq!(whole, ends("to_ps") - ends("from_ps"), "without a gap");
}
