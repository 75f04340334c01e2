//! `workload.shared-folder`: all nodes have the `/root` of node 0, by NFS of their kernels.

use belljar_tests::{Dir, Scenario};

/// Ranks write into a folder that the script makes; locks exclude each other, and a program that one node writes runs on another.
const SHARING: &str = "set -e
mkdir made
cd made
mpiexec.hydra -n 3 sh -c 'echo $PMI_RANK on $(hostname) >rank.$PMI_RANK; pwd >>rank.$PMI_RANK'
cat rank.*
belljar-rsh node1 'cd /root; printf \"#!/bin/sh\\necho run on \\$(hostname)\\n\" >program; chmod 755 program'
belljar-rsh node2 /root/program
belljar-rsh node2 'cd /root; cat own; rm own; mv program made/moved; ls -1'
ls -1 . ..
i=0
while [ $i -lt 3 ]; do
    belljar-rsh node$i 'cd /root; for n in 1 2 3 4 5; do
        until mkdir lock 2>/dev/null; do usleep 1000; done
        read v <sum; echo $((v + 1)) >sum; rmdir lock; done' &
    i=$((i + 1))
done
wait
cat ../sum
";

fn sharing() -> Scenario {
    let files = "files = { own = { text = \"own\\n\" }, sum = { text = \"0\\n\" } }";
    let scenario = Scenario::new(3, SHARING).working("shared-folder = true");
    scenario
        .working(files)
        .working("outputs = [\"made/*\", \"/tmp/*\"]")
}

#[test]
fn nodes_have_one_root_folder_on_one_host_and_on_two() {
    let Some(dir) = Dir::new() else { return };
    let run = dir.run(&sharing(), "alone", &[]).success();
    let ranks: String = (0..3)
        .map(|rank| format!("{rank} on node{rank}\n/root/made\n"))
        .collect();
    let rest = "run on node2\nown\nmade\nsum\n\
                .:\nmoved\nrank.0\nrank.1\nrank.2\n\n..:\nmade\nsum\n15\n";
    assert_eq!(run.text("stdout"), format!("{ranks}{rest}"));
    for name in ["moved", "rank.0", "rank.1", "rank.2"] {
        assert!(!run.bytes(&format!("files/node0/made/{name}")).is_empty());
    }
    let outputs = &run.summary()["outputs"];
    let files: Vec<u64> = outputs
        .as_array()
        .expect("one for each node")
        .iter()
        .map(|node| node["files"].as_u64().expect("a number"))
        .collect();
    assert_eq!(files, [4, 0, 0], "{outputs}");
    assert!(run.text("plan.txt").contains("shared     /root of node 0"));

    let local = ["--launch", "local", "--hosts", "one,two", "--threads", "1"];
    run.assert_same(&dir.run(&sharing(), "two", &local).success());
}
