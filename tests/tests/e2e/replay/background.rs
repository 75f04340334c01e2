//! Traced jobs that share the network with running nodes.

use std::fs;

use belljar_tests::{Dir, Outcome, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// The ranks repeatedly exchange large messages at once, and print the time.
const EXCHANGE: &str = r#"#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, rounds = atoi(argv[1]);
    static char out[300000], in[300000];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int i = 0; i < rounds; i++)
        MPI_Sendrecv(out, sizeof out, MPI_CHAR, 1 - rank, 0, in, sizeof in,
                     MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        printf("took %.0f us\n", (MPI_Wtime() - begun) * 1e6);
    MPI_Finalize();
}
"#;

/// Two nodes at two switches, as are the hosts of background jobs: all share the link between the
/// switches.
fn on_tree(dir: &Dir, rounds: u32, places: &str) -> Scenario {
    let network = format!(
        "[network]\ntopology = \"tree\"\nfanout = 2\nbandwidth = \"1 Gb/s\"\n\
         statistics = \"1 ms\"\nplaces = {places}\n"
    );
    let program = dir.path("exchange");
    Scenario::new(2, &format!("mpiexec.hydra -n 2 ./exchange {rounds}"))
        .with(&network)
        .working(&format!("files = {{ exchange = {program:?} }}"))
}

fn took(run: &Outcome) -> f64 {
    let console = run.console(0);
    let line = console.lines().find_map(|line| {
        let (_, rest) = line.split_once("took ")?;
        rest.split_whitespace().next()?.parse().ok()
    });
    line.expect("a time")
}

fn summary(run: &Outcome) -> Value {
    serde_json::from_slice(&run.bytes("summary.json")).expect("JSON")
}

/// A folder with the program, and a run of it for the background.
fn traced() -> Option<Dir> {
    let dir = Dir::new()?;
    if !compiled(&dir, "mpicc.mpich", "exchange", EXCHANGE, &["-O2"]) {
        return None;
    }
    let scenario = on_tree(&dir, 20, "[0, 1]");
    let _ = dir.run(&scenario, "traced", &[]).success();
    Some(dir)
}

/// With that run on two other hosts, which share the link between the switches.
fn beside(dir: &Dir, rounds: u32) -> Scenario {
    on_tree(dir, rounds, "[0, 2, 1, 3]").with(
        "[checkpoint]\nevery = \"20 ms\"\n[[background]]\nrun = \"traced\"\nstart = \"1 ms\"\n",
    )
}

#[test]
fn neighbours_slow_nodes_down_and_nodes_slow_neighbours_down() {
    let Some(dir) = traced() else { return };
    let alone = on_tree(&dir, 40, "[0, 2, 1, 3]");
    let idle = "[[background]]\nrun = \"traced\"\nstart = \"1000 s\"\n";
    let alone = dir.run(&alone.with(idle), "alone", &[]).success();
    let both = dir.run(&beside(&dir, 40), "both", &[]).success();
    // Two that need the whole link get about half of it each, as TCP does not share fairly.
    let ratio = took(&both) / took(&alone);
    assert!(
        ratio > 1.3 && ratio < 3.0,
        "{} and {}",
        took(&both),
        took(&alone)
    );
    let told = summary(&both);
    let job = &told["background"][0];
    assert_eq!(
        (job["name"].as_str(), job["ranks"].as_u64()),
        (Some("traced"), Some(2))
    );
    assert!(job["ended"].as_u64() > Some(3), "{job}");
    let [shortest, longest] = ["shortest_ps", "longest_ps"].map(|key| job[key].as_f64().unwrap());
    // How much depends on how TCP shares the link.
    assert!(longest > 1.1 * shortest, "{job}");
    let idle = &summary(&alone)["background"][0];
    assert_eq!(idle["frames"].as_u64(), Some(0));
}

#[test]
fn threads_cut_turns_hosts_and_broken_off_runs_change_no_byte() {
    let Some(dir) = traced() else { return };
    let scenario = beside(&dir, 40);
    let one = dir.run(&scenario, "one", &["--threads", "1"]).success();
    let rough = [("BELLJAR_ROUGH_ROUNDS", "7")];
    let rough = dir.run_under(&rough, &scenario, "rough", &["--threads", "2"]);
    one.assert_same(&rough.success());
    dir.run_to_checkpoint(&scenario, "broken", 2, &["--threads", "2"]);
    // The prepared job is in the run's directory: the traced run is not needed any more.
    fs::rename(dir.path("traced"), dir.path("elsewhere")).unwrap();
    let local = ["--launch", "local", "--threads", "1", "--hosts", "a,b"];
    one.assert_same(&dir.resume("broken", &local));
}

#[test]
fn what_cannot_be_played_is_refused_by_its_key() {
    let Some(dir) = Dir::new() else { return };
    let refused = |table: &str| {
        let scenario = Scenario::new(2, "true").with(&format!("[[background]]\n{table}\n"));
        let file = dir.write("s.toml", &scenario.text());
        let (_, error, code) = dir.call(&["check", file.to_str().unwrap()]);
        assert_ne!(code, Some(0), "{table}");
        error
    };
    let nowhere = refused("run = \"nowhere\"");
    assert!(nowhere.contains("background.run: cannot read"), "{nowhere}");
    fs::create_dir(dir.path("empty")).unwrap();
    let empty = refused("run = \"empty\"");
    assert!(empty.contains("it has no trace"), "{empty}");
    dir.write("other.job", "no job at all, and nothing like one");
    let other = refused("run = \"other.job\"");
    assert!(other.contains("no job that was prepared"), "{other}");
    let none = refused("run = \"other.job\"\ncopies = 0");
    assert!(none.contains("background.copies is 0"), "{none}");
    let never = refused("run = \"other.job\"\ntimes = 0");
    assert!(never.contains("background.times is 0"), "{never}");
    let scale = refused("run = \"other.job\"\ncompute-scale = -1.0");
    assert!(scale.contains("background.compute-scale is -1"), "{scale}");
}
