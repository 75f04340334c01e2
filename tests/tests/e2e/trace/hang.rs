//! Jobs that come to no end are explained.

use std::time::Duration;

use belljar_tests::{Dir, Scenario};
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
    let words = ["mpirun", "-np", "2", "-ppn", "1", "--limit", "60s"];
    let more = ["--set", "trace.frames=2", "--out", "out", "./dead"];
    let (_, error, code) = dir.call(&[&words[..], &more].concat());
    assert_ne!(code, Some(0), "{error}");
    let verdict = "deadlock: rank 0 in MPI_Recv waits for rank 1 in MPI_Recv waits for rank 0";
    assert!(
        error.contains(&format!("no rank can proceed: {verdict}")),
        "{error}"
    );
    let summary = std::fs::read_to_string(dir.path("out.incomplete/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).expect("this is JSON");
    let end = summary["virtual_time_ps"].as_u64().unwrap();

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
        // The run ends 0.6 to 0.8 s after the last call.
        let since = found["since_ps"].as_u64().unwrap();
        assert!(
            (600_000_000_000..=800_000_000_000).contains(&(end - since)),
            "{found}"
        );
    }
}

#[test]
fn a_resumed_run_ends_at_the_same_time_with_the_same_verdict() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "dead", DEAD, &["-g", "-O1"]) {
        return;
    }
    let command = "mpiexec.hydra -n 2 -ppn 1 ./dead";
    let scenario = Scenario::new(2, command)
        .working("files = { \"dead\" = \"dead\" }")
        .with("[checkpoint]\nevery = \"100 ms\"");
    let whole = dir.run(&scenario, "whole", &[]);
    assert!(
        whole.stderr.contains("no rank can proceed"),
        "{}",
        whole.stderr
    );
    // Between the last call and the end.
    dir.run_to_checkpoint(&scenario, "parts", 5, &[]);
    let (_, error, code) = dir.call(&["resume", "parts", "--quiet"]);
    assert_ne!(code, Some(0), "{error}");
    assert!(error.contains("no rank can proceed"), "{error}");
    let summary = |name: &str| std::fs::read_to_string(dir.path(name)).unwrap();
    let [one, other] = [
        "whole.incomplete/summary.json",
        "parts.incomplete/summary.json",
    ];
    assert_eq!(summary(one), summary(other));
}

/// Ranks in different collective operations; a rank that ends MPI, and one whose attribute's function sends then.
const MIXED: &str = r#"#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int last_words(MPI_Comm comm, int key, void *value, void *extra)
{
    int word = 7;
    sleep(1);
    return MPI_Send(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
}
int main(int argc, char **argv)
{
    int rank, key, word = 1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(argv[1], "callback") && rank == 1) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, last_words, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, &word);
    } else if (!strcmp(argv[1], "callback") && rank == 0) {
        MPI_Recv(&word, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("got %d\n", word);
    } else if (strcmp(argv[1], "callback") && rank != 1) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strcmp(argv[1], "operations")) {
        MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
"#;

#[test]
fn collective_operations_that_differ_and_ranks_that_end_are_named() {
    for compiler in ["mpicc.mpich", "mpicc.openmpi"] {
        let Some(dir) = Dir::new() else { return };
        if !compiled(&dir, compiler, "mixed", MIXED, &["-O1"]) {
            return;
        }
        let run = |case: &str| {
            let words = ["mpirun", "-np", "3", "-ppn", "1", "--limit", "8s", "--out"];
            dir.call(&[&words[..], &[case, "./mixed", case]].concat())
        };
        let (_, error, code) = run("operations");
        assert_ne!(code, Some(0), "{error}");
        let verdict = "no rank can proceed: deadlock: different collective operations: ranks 0, 2 in MPI_Barrier(comm=MPI_COMM_WORLD); rank 1 in MPI_Allreduce(";
        assert!(error.contains(verdict), "{compiler}: {error}");
        let (text, error, code) = dir.call(&["trace", "hang", "operations.incomplete"]);
        assert_eq!(code, Some(0), "{error}");
        let begin = "Deadlock: different collective operations: ranks 0, 2 in MPI_Barrier(";
        assert!(text.starts_with(begin), "{text}");

        let (_, error, code) = run("finalize");
        assert_ne!(code, Some(0), "{error}");
        let verdict = "rank 0 in MPI_Barrier waits for rank 1, which is in MPI_Finalize";
        assert!(error.contains(verdict), "{compiler}: {error}");
        assert!(error.contains("no rank can proceed"), "{compiler}: {error}");

        let (output, error, code) = run("callback");
        assert_eq!(code, Some(0), "{compiler}: {error}");
        assert!(output.contains("got 7"), "{compiler}: {output}");
    }
}

/// Programs that look stuck by their calls until something besides MPI wakes a rank, and one that nothing wakes.
const WOKEN: &str = include_str!("woken.c");

/// Jobs one after the other, each with another waker, with signals to both ranks by timers and other processes.
const WAKERS: &str = "for waker in rank late pipe timer thread process; do \
    mpiexec.hydra -disable-auto-cleanup -n 2 -ppn 1 ./woken $waker || exit 1; done; \
    mpiexec.hydra -disable-auto-cleanup -n 2 -ppn 1 ./woken exit";

#[test]
fn a_run_whose_ranks_something_wakes_continues() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "woken", WOKEN, &["-g", "-pthread"]) {
        return;
    }
    let scenario = Scenario::new(2, &WAKERS.replace("\\\n", ""));
    let scenario = scenario.working("files = { woken = \"woken\" }");
    let run = dir.run(&scenario, "out", &["--set", "workload.limit=60 s"]);
    assert_ne!(run.code, Some(0), "{}", run.stderr);
    let verdict =
        "rank 6.0 in MPI_Recv waits for rank 6.1, which exited with status 0 without ending MPI";
    assert!(run.stderr.contains(verdict), "{}", run.stderr);
    let output = std::fs::read_to_string(dir.path("out.incomplete/stdout")).unwrap();
    // Without the complaints of UCX about partners that have ended.
    let lines = output.lines().filter(|line| !line.starts_with('['));
    let mut lines: Vec<&str> = lines.collect();
    lines.sort_unstable();
    let signals = ["signal"; 4];
    let others = ["late 0", "late 1", "pipe 0", "pipe 1", "rank 0", "rank 1"];
    assert_eq!(
        lines,
        [&others[..], &signals[..], &["thread 0", "thread 1"]].concat()
    );
}

#[test]
fn a_run_continues_to_its_limit_on_request() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.openmpi", "dead", DEAD, &["-O1"]) {
        return;
    }
    for (setting, ending) in [
        ("true", "no rank can proceed"),
        ("false", "the limit of virtual time"),
    ] {
        let setting = format!("workload.stop-when-stuck={setting}");
        let words = [
            "mpirun",
            "-np",
            "2",
            "--limit",
            "5s",
            "--out",
            setting.as_str(),
        ];
        let (_, error, code) = dir.call(&[&words[..], &["--set", &setting, "./dead"]].concat());
        assert_ne!(code, Some(0), "{error}");
        assert!(
            error.contains(ending) && error.contains("waits for rank 1"),
            "{error}"
        );
    }
}

#[test]
fn queues_of_a_run_in_progress_name_receives_and_messages() {
    let Some(dir) = Dir::new() else { return };
    let crossed = DEAD.replace(
        "MPI_Recv(&got",
        "if (!rank) MPI_Ssend(&rank, 1, MPI_INT, 1, 6, MPI_COMM_WORLD); MPI_Recv(&got",
    );
    if !compiled(&dir, "mpicc.mpich", "crossed", &crossed, &["-O1"]) {
        return;
    }
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 -ppn 1 ./crossed");
    let scenario = scenario.working("files = { crossed = \"crossed\" }\nstop-when-stuck = false");
    let mut child = dir.start(&scenario, "out");
    let queues = belljar_tests::lab::wait_for(Duration::from_secs(120), || {
        let (text, _, _) = dir.call(&["watch", "--queues", "out"]);
        text.contains("in MPI_Recv")
            .then_some(text)
            .filter(|text| text.contains("in MPI_Ssend"))
    });
    belljar_tests::interrupt(&child);
    child.wait().expect("the run ends");
    let queues = queues.expect("both ranks wait");
    let rows: Vec<Vec<&str>> = queues
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    // A message from rank 0 to rank 1 with tag 6 that no receive took, and a receive of rank 1 from rank 0 with tag 5.
    let place = |words: &str| {
        queues
            .lines()
            .position(|line| line == words)
            .expect("a title")
    };
    assert_eq!(
        rows[place("Messages that no receive took") + 2],
        ["0", "1", "6", "1"],
        "{queues}"
    );
    assert_eq!(
        rows[place("Receives that no message reached") + 2],
        ["0", "1", "5", "1"],
        "{queues}"
    );
    let (_, error, code) = dir.call(&["watch", "--queues", "out"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("belljar trace hang"), "{error}");
}

/// Jobs of Open MPI that another process, their launcher or a signal ends, and one that nothing ends.
const ENDED: &str = "timeout 3 mpirun -np 2 -N 1 ./dead; echo timeout $?; \
    mpirun --timeout 3 -np 2 -N 1 ./dead; echo launcher $?; \
    (sleep 3; killall -9 dead) & mpirun -np 2 -N 1 ./dead; echo signal $?; \
    mpirun -np 2 -N 1 ./dead; echo never $?";

#[test]
fn a_job_that_a_time_limit_ends_does_not_end_its_run() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.openmpi", "dead", DEAD, &["-O1"]) {
        return;
    }
    let scenario = Scenario::new(2, ENDED).on("bookworm-openmpi");
    let scenario = scenario.working("files = { dead = \"dead\" }");
    let run = dir.run(&scenario, "out", &["--set", "workload.limit=60 s"]);
    assert_ne!(run.code, Some(0), "{}", run.stderr);
    let verdict = "no rank can proceed: deadlock: rank 3.0 in MPI_Recv waits for rank 3.1";
    assert!(run.stderr.contains(verdict), "{}", run.stderr);
    let output = std::fs::read_to_string(dir.path("out.incomplete/stdout")).unwrap();
    let endings = output.lines().filter_map(|line| line.split_once(' '));
    let ended: Vec<&str> = endings.map(|(by, _)| by).collect();
    assert_eq!(ended, ["timeout", "launcher", "signal"], "{output}");
}

/// A rank that kills itself while the other one is in `MPI_Finalize`, which the launcher then kills.
const KILLED: &str = r#"#include <mpi.h>
#include <signal.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        usleep(50000);
        kill(getpid(), SIGKILL);
    }
    MPI_Finalize();
}
"#;

#[test]
fn killed_ranks_of_a_workload_that_failed_are_named_with_their_signal() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "killed", KILLED, &["-O1"]) {
        return;
    }
    let words = [
        "mpirun", "-np", "2", "-ppn", "1", "--limit", "8s", "--out", "out",
    ];
    let (_, error, code) = dir.call(&[&words[..], &["./killed"]].concat());
    assert_ne!(code, Some(0), "{error}");
    let (text, error, code) = dir.call(&["trace", "hang", "out"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(
        text.contains("was ended by signal 9 (SIGKILL) after MPI_Comm_rank"),
        "{text}"
    );
    assert!(!text.contains("  in MPI_Finalize()"), "{text}");
}
