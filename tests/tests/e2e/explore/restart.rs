//! A node that loses power, and starts again as after its boot.

use std::fs;

use belljar_tests::{Dir, Outcome, Scenario};

/// Leaves a file on node 1, and asks node 1 for it until it is gone.
const ASK: &str = r#"belljar-rsh node1 'echo before >/tmp/mark'
for i in $(seq 99); do
    if timeout 0.3 belljar-rsh node1 'hostname; ls /tmp/mark 2>/dev/null || echo fresh' >out 2>/dev/null; then
        cat out
        if grep -q fresh out; then exit 0; fi
    fi
    sleep 0.02
done
exit 3
"#;

/// The workload on three nodes, of which node 1 has these failures.
fn asking(dir: &Dir, fails: &str) -> Scenario {
    fs::write(dir.path("ask.sh"), ASK).expect("a writable folder");
    Scenario::new(3, "sh ask.sh")
        .working("files = { \"ask.sh\" = \"ask.sh\" }")
        .with(&format!("[checkpoint]\nevery = \"40 ms\"\n{fails}"))
        .limited("12 s")
}

fn restart(at: &str, length: &str) -> String {
    format!("[[nodes.fail]]\nnode = 1\nat = \"{at}\"\nkind = \"restart\"\nfor = \"{length}\"\n")
}

/// The number of boots in the console of a node.
fn boots(outcome: &Outcome, node: u32) -> usize {
    let console = outcome.text(&format!("console/node{node}.log"));
    console.matches("Linux version").count()
}

#[test]
fn a_node_starts_again_as_after_its_boot_on_any_host_and_over_checkpoints() {
    let Some(dir) = Dir::new() else { return };
    let scenario = asking(&dir, &restart("3.6 s", "60 ms"));
    let one = dir.run(&scenario, "one", &["--threads", "1"]).success();
    let said = one.text("stdout");
    let kept = said.matches("node1\n/tmp/mark\n").count();
    assert!(kept > 0, "{said}");
    assert_eq!(said.matches("node1\nfresh\n").count(), 1, "{said}");
    assert!(said.ends_with("node1\nfresh\n"), "{said}");
    assert_eq!([0, 1, 2].map(|node| boots(&one, node)), [1, 2, 1]);
    let three = dir.run(&scenario, "three", &["--threads", "3"]);
    one.assert_same(&three.success());
    let local = ["--launch", "local", "--hosts", "a,b"];
    dir.run_to_checkpoint(&scenario, "two", 3, &local);
    one.assert_same(&dir.resume("two", &["--threads", "2"]));
}

#[test]
fn a_node_of_two_processors_starts_again_twice() {
    let Some(dir) = Dir::new() else { return };
    let fails = restart("3.6 s", "60 ms") + &restart("3.7 s", "7 ms");
    let scenario = asking(&dir, &fails).on("bookworm-smp");
    let more = ["--set", "nodes.vcpus=2", "--threads"];
    let with = |threads| [&more[..], &[threads]].concat();
    let one = dir.run(&scenario, "one", &with("1")).success();
    assert!(one.text("stdout").ends_with("node1\nfresh\n"));
    assert_eq!([0, 1].map(|node| boots(&one, node)), [1, 3]);
    one.assert_same(&dir.run(&scenario, "two", &with("2")).success());
}
