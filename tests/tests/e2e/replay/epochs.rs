//! Waiting without a message of the program as its cause: epochs on windows, locks of others, partitions that are not ready.

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use super::replayed;
use crate::mpirun::compiled;

/// Each rank except the late one waits for it some milliseconds, in another function each time.
const WINDOWS: &str = r#"#include <mpi.h>
#include <stdio.h>
static void work(double ms)
{
    for (double until = MPI_Wtime() + ms / 1000; MPI_Wtime() < until;)
        ;
}
int main(int argc, char **argv)
{
    int rank, size, data[8] = {0}, one, done = 0;
    MPI_Win win, other;
    MPI_Group all, some;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &other);
    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_get_group(win, &all);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Rank 0 exposes its memory 5 ms late; rank 1 is done with it 3 ms late. */
    one = 1 - rank;
    if (rank == 0) {
        MPI_Group_incl(all, 1, &one, &some);
        work(5);
        MPI_Win_post(some, 0, win);
        MPI_Win_wait(win);
    } else if (rank == 1) {
        MPI_Group_incl(all, 1, &one, &some);
        MPI_Win_start(some, 0, win);
        MPI_Put(data, 1, MPI_INT, 0, 1, 1, MPI_INT, win);
        work(3);
        MPI_Win_complete(win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* The other way round, and rank 1 asks whether it is over. */
    if (rank == 0) {
        MPI_Win_start(some, 0, win);
        MPI_Win_complete(win);
    } else if (rank == 1) {
        MPI_Win_post(some, 0, win);
        while (!done)
            MPI_Win_test(win, &done);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* Rank 0 has the lock for 8 ms; a window of the same communicator is another one's. */
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win);
        MPI_Put(data, 1, MPI_INT, 2, 1, 1, MPI_INT, win);
        MPI_Win_flush(2, win);
        MPI_Barrier(MPI_COMM_WORLD);
        work(8);
        MPI_Win_unlock(2, win);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, other);
            MPI_Win_unlock(2, other);
            MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win);
            MPI_Get(data, 1, MPI_INT, 2, 1, 1, MPI_INT, win);
            MPI_Win_unlock(2, win);
        } else {
            /* MPICH answers only within MPI. */
            MPI_Recv(data, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    if (rank == 1)
        MPI_Send(data, 1, MPI_INT, 2, 5, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
#ifdef PARTITIONS
    /* The last of four partitions is ready 6 ms late. */
    MPI_Request request;
    int arrived = 0;
    for (int turn = 0; turn < 2; turn++) {
        if (rank == 0) {
            if (turn == 0)
                MPI_Psend_init(data, 4, 2, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
            MPI_Start(&request);
            MPI_Pready_range(0, 1, request);
            MPI_Pready(2, request);
            work(6);
            MPI_Pready(3, request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            if (turn == 0)
                MPI_Precv_init(data, 4, 2, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
            MPI_Start(&request);
            while (turn == 1 && !arrived)
                MPI_Parrived(request, 3, &arrived);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank < 2)
        MPI_Request_free(&request);
#endif
    MPI_Win_free(&win);
    MPI_Win_free(&other);
    MPI_Finalize();
    return 0;
}
"#;

/// Milliseconds that all ranks waited in a function, by a replay.
fn waited(told: &Value, function: &str) -> f64 {
    let all = told["functions"].as_array().expect("functions");
    let of = all.iter().find(|of| of["function"] == function);
    let of = of.unwrap_or_else(|| panic!("no {function}: {told}"));
    of["waited_ps"].as_f64().unwrap() / 1e9
}

fn waits_are_explained(compiler: &str, image: &str, start: &str, late: &[(&str, f64)]) {
    let Some(dir) = Dir::new() else { return };
    let flags: &[&str] = match image {
        "bookworm-mpich" => &["-O1", "-DPARTITIONS"],
        _ => &["-O1"],
    };
    if !compiled(&dir, compiler, "windows", WINDOWS, flags) {
        return;
    }
    let scenario = Scenario::new(3, &format!("{start} 3 ./windows")).on(image);
    let scenario = scenario.working("files = { windows = \"windows\" }");
    let _ = dir.run(&scenario, "out", &[]).success();
    let told = replayed(&dir, "out", &[]);
    assert_eq!(told["stuck"].as_array().map(Vec::len), Some(0), "{told}");
    for (function, ms) in late {
        let found = waited(&told, function);
        assert!(
            (ms * 0.8..ms * 1.2).contains(&found),
            "{function}: {found} ms, {ms} ms late: {told}"
        );
    }
    // The unchanged replay gives the same times: it does not depend on unrecorded data.
    let (total, traced) = (told["total_ps"].as_f64(), told["traced_ps"].as_f64());
    let ratio = total.unwrap() / traced.unwrap();
    assert!((0.999..1.001).contains(&ratio), "{ratio}");
    let (dump, error, _) = dir.call(&["trace", "dump", "--json", "out"]);
    let events: Vec<Value> = dump
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let groups: Vec<&Value> = events.iter().map(|it| &it["group"]).collect();
    for with in [[0], [1]] {
        let expected = serde_json::json!(with);
        let found = groups.iter().filter(|group| ***group == expected).count();
        assert_eq!(found, 2, "{dump}{error}");
    }
}

#[test]
fn epochs_locks_and_partitions_of_mpich_wait_for_whom_they_wait() {
    let late = [
        ("MPI_Win_start", 5.0),
        ("MPI_Win_wait", 3.0),
        ("MPI_Win_lock", 8.0),
        ("MPI_Wait", 6.0),
        ("MPI_Parrived", 6.0),
    ];
    waits_are_explained("mpicc.mpich", "bookworm-mpich", "mpiexec.hydra -n", &late);
}

#[test]
fn epochs_of_open_mpi_wait_for_whom_they_wait() {
    // The wait is at the end of the accesses. Without `pt2pt` there is no window over TCP.
    let late = [("MPI_Win_complete", 2.0), ("MPI_Win_unlock", 8.0)];
    let start = "mpirun --mca osc pt2pt -np";
    waits_are_explained("mpicc.openmpi", "bookworm-openmpi", start, &late);
}
