//! Collective operations as the library's messages, compared with the library's own counts.

use std::process::Command;

use belljar_tests::{Dir, Scenario};

use super::matrix::{Pairs, matrix, pairs};
use crate::mpirun::compiled;

/// All collective operations, with a counter between Open MPI and its point-to-point layer.
const ALL: &str = include_str!("collectives.c");

/// The counts of Open MPI's monitoring in a native run of `program` with four ranks; `None`, with a message, if it is not
/// available.
fn counted(dir: &Dir, program: &[&str]) -> Option<Pairs> {
    let mut command = Command::new("mpirun.openmpi");
    command.current_dir(dir.path(""));
    for (name, value) in [
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_pml_monitoring_enable", "1"),
        ("OMPI_MCA_btl", "self,tcp"),
        ("OMPI_MCA_btl_tcp_if_include", "lo"),
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ] {
        command.env(name, value);
    }
    let output = command
        .args(["--oversubscribe", "-n", "4"])
        .args(program)
        .output();
    let text = String::from_utf8_lossy(&output.ok()?.stdout).into_owned();
    let lines = text.lines().filter_map(|line| line.strip_prefix("SENT "));
    let counted: Pairs = lines
        .filter_map(|line| {
            let numbers: Vec<u64> = line.split(' ').map_while(|it| it.parse().ok()).collect();
            let [from, to, messages, bytes] = numbers[..] else {
                return None;
            };
            Some(((from, to), (messages, bytes)))
        })
        .collect();
    if counted.is_empty() {
        eprintln!("SKIPPED: the host's Open MPI has no monitoring (apt install openmpi-bin)");
        return None;
    }
    Some(counted)
}

#[test]
fn open_mpi_sends_what_its_own_monitoring_counts() {
    let Some(dir) = Dir::new() else { return };
    let flags = ["-O1", "-rdynamic"];
    if !compiled(&dir, "mpicc.openmpi", "all", ALL, &flags) {
        return;
    }
    // Its rules do not depend on the placement: two ranks on each node send the same, here by the operations whose rules
    // depend on the reduction.
    for (nodes, program) in [(4, &["./all"][..]), (2, &["./all", "ordered"])] {
        let Some(counted) = counted(&dir, program) else {
            return;
        };
        let scenario = Scenario::new(
            nodes,
            &format!("mpirun --oversubscribe -np 4 {}", program.join(" ")),
        );
        let scenario = scenario
            .on("bookworm-openmpi")
            .working("files = { all = \"all\" }");
        let run = dir.run(&scenario, "out", &[]).success();
        let by_message = matrix(&dir, "out", &["--by", "message"]);
        assert_eq!(by_message["unknown"].as_array().map(Vec::len), Some(0));
        assert_eq!(pairs(&by_message, "bytes"), counted, "{program:?}");

        if nodes < 4 {
            continue;
        }
        // On the wire are the headers of Open MPI's messages, and its launcher's messages, too.
        let wire = pairs(&matrix(&dir, "out", &["--by", "wire"]), "payload");
        for (pair, (_, bytes)) in &counted {
            let carried = wire.get(pair).map_or(0, |(_, payload)| *payload);
            assert!(carried >= *bytes, "{pair:?}: {carried} of {bytes}");
        }
        std::fs::remove_dir_all(run.folder()).expect("the run directory can be removed");
    }
}
