//! Data for replays: bounds of datatypes as the MPI libraries have them, and messages of receives without a status.

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// Makes datatypes and prints their bounds in the library.
const TYPES: &str = r#"#include <mpi.h>
#include <stdio.h>
static void tell(MPI_Datatype type)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type, &lb, &extent);
    printf("BOUNDS %ld %ld\n", (long)lb, (long)extent);
}
int main(int argc, char **argv)
{
    MPI_Datatype wide, tail, type;
    int lengths[3] = {2, 0, 3}, places[3] = {5, 9, -2};
    int sizes[2] = {6, 8}, parts[2] = {2, 3}, starts[2] = {1, 4};
    int spread[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, grid[2] = {1, 1};
    int defaults[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
    MPI_Aint bytes[3] = {40, 1000, -24};
    MPI_Init(&argc, &argv);
    MPI_Type_create_resized(MPI_DOUBLE, -4, 24, &wide), tell(wide);
    {
        int few[3] = {1, 3, 1};
        MPI_Aint at[3] = {0, 8, 16};
        MPI_Datatype of[3] = {MPI_DOUBLE, MPI_CHAR, MPI_SHORT_INT};
        MPI_Type_create_struct(2, few, at, of, &tail), tell(tail);
        MPI_Type_create_struct(3, few, at, of, &type), tell(type);
        of[1] = MPI_DOUBLE_INT;
        MPI_Type_create_struct(2, few, at, of, &type), tell(type);
    }
    MPI_Type_contiguous(7, wide, &type), tell(type);
    MPI_Type_contiguous(0, wide, &type), tell(type);
    MPI_Type_contiguous(3, tail, &type), tell(type);
    MPI_Type_dup(wide, &type), tell(type);
    MPI_Type_vector(3, 2, 5, MPI_INT, &type), tell(type);
    MPI_Type_vector(3, 2, -5, wide, &type), tell(type);
    MPI_Type_create_hvector(3, 1, 20, tail, &type), tell(type);
    MPI_Type_indexed(3, lengths, places, MPI_DOUBLE, &type), tell(type);
    MPI_Type_indexed(3, lengths, places, wide, &type), tell(type);
    MPI_Type_create_hindexed(3, lengths, bytes, tail, &type), tell(type);
    MPI_Type_create_indexed_block(3, 2, places, MPI_SHORT, &type), tell(type);
    MPI_Type_create_hindexed_block(3, 2, bytes, MPI_FLOAT, &type), tell(type);
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type), tell(type);
    MPI_Type_contiguous(2, type, &type), tell(type);
    MPI_Type_create_darray(1, 0, 2, sizes, spread, defaults, grid, MPI_ORDER_C, MPI_FLOAT, &type), tell(type);
    MPI_Type_create_resized(tail, 0, 11, &type), tell(type);
    MPI_Type_contiguous(3, type, &type), tell(type);
    MPI_Finalize();
    return 0;
}
"#;

/// Receives without a status, of messages that only one send can match; the first is sent 5 ms late.
const IGNORED: &str = r#"#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, size, data[3] = {0};
    MPI_Request requests[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        for (double until = MPI_Wtime() + 0.005; MPI_Wtime() < until;)
            ;
        for (int tag = 3; tag < 6; tag++)
            MPI_Send(data, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(data, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 2; i++)
            MPI_Irecv(data + i, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, requests + i);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    for (int turn = 0; turn < 10; turn++) {
        MPI_Irecv(data, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, requests);
        MPI_Send(data + 1, 1, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD);
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
"#;

fn events(dir: &Dir, out: &str) -> Vec<Value> {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", out]);
    assert_eq!(code, Some(0), "{error}");
    let event = |line| serde_json::from_str(line).expect("JSON");
    dump.lines().map(event).collect()
}

/// Each implementation: its compiler, its image, and its command for starting processes.
const BOTH: [(&str, &str, &str); 2] = [
    ("mpicc.mpich", "bookworm-mpich", "mpiexec.hydra -n"),
    ("mpicc.openmpi", "bookworm-openmpi", "mpirun -np"),
];

#[test]
fn bounds_of_datatypes_are_those_that_the_library_has() {
    for (compiler, image, start) in BOTH {
        let Some(dir) = Dir::new() else { return };
        if !compiled(&dir, compiler, "types", TYPES, &["-O1"]) {
            return;
        }
        let scenario = Scenario::new(1, &format!("{start} 1 ./types")).on(image);
        let scenario = scenario.working("files = { types = \"types\" }");
        let run = dir.run(&scenario, "out", &[]).success();
        let told: Vec<(i64, i64)> = run
            .console(0)
            .lines()
            .filter_map(|line| line.trim().strip_prefix("BOUNDS ")?.split_once(' '))
            .map(|(lower, extent)| (lower.parse().unwrap(), extent.parse().unwrap()))
            .collect();
        assert_eq!(told.len(), 21, "{}", run.console(0));
        let events = events(&dir, "out");
        let bounds = |event: &&Value| !event["bounds"].is_null();
        let found: Vec<(i64, i64)> = events
            .iter()
            .filter(bounds)
            .map(|event| {
                assert_ne!(event["function"], "MPI_Type_get_extent", "{event}");
                let number = |key: &str| event["bounds"][key].as_i64().unwrap();
                (number("lower"), number("extent"))
            })
            .collect();
        assert_eq!(found, told, "{compiler}");
    }
}

#[test]
fn what_was_received_without_a_status_is_deduced() {
    for (compiler, image, start) in BOTH {
        let Some(dir) = Dir::new() else { return };
        if !compiled(&dir, compiler, "ignored", IGNORED, &["-O1"]) {
            return;
        }
        let scenario = Scenario::new(3, &format!("{start} 3 ./ignored")).on(image);
        let scenario = scenario.working("files = { ignored = \"ignored\" }");
        let _ = dir.run(&scenario, "out", &[]).success();
        let (told, error, code) = dir.call(&["trace", "wait", "--json", "out"]);
        assert_eq!(code, Some(0), "{error}");
        let told: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!(told["messages"], 3 + 30, "{told:#}");
        for unknown in ["lone_sends", "lone_receives", "unresolved"] {
            assert_eq!(told[unknown], 0, "{told:#}");
        }
        let longest = told["longest"].as_array().expect("calls");
        let of = |call: &&Value| call["function"] == "MPI_Recv";
        let late = longest.iter().find(of).expect("a late message");
        assert_eq!((&late["rank"], &late["for_rank"]), (&1.into(), &0.into()));
        let waited = late["waiting_ps"].as_u64().expect("a time");
        assert!(waited.abs_diff(5_000_000_000) < 300_000_000, "{waited}");
    }
}
