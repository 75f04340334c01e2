//! The kvm engine: on this host as far as that goes, and in a machine that has KVM.

use belljar_tests::{Dir, Machine, Scenario};

const WORKLOAD: &str = "mpiexec.hydra -n 2 ring 1000 2";

fn scenario() -> Scenario {
    // Coarse enough for a processor that is emulated.
    let network = "[network]\nbandwidth = \"10 Gb/s\"\nlatency = \"20 ms\"";
    Scenario::new(2, WORKLOAD).with(network).limited("600 s")
}

#[test]
fn both_engines_see_the_same_calls() {
    let Some(dir) = Dir::new() else { return };
    let Some(machine) = Machine::new(&dir, "bookworm-mpich") else {
        return;
    };
    machine.write("scenario.toml", &scenario().text());
    let file = dir.write("scenario.toml", &scenario().text());
    let file = file.to_str().expect("a plain path");
    let (_, error, code) = dir.call(&["snapshot", file, "--out", "work/snapshot"]);
    assert_eq!(code, Some(0), "{error}");
    let script = "belljar doctor
        set -- --set image.recipe=/given/images/bookworm-mpich.toml
        belljar snapshot /given/scenario.toml --set engine=kvm \"$@\" --out snapshot || exit
        belljar run /given/scenario.toml --quiet --set engine=kvm \"$@\" --snapshot snapshot --out kvm || exit
        belljar run /given/scenario.toml --quiet --set engine=kvm \"$@\" --snapshot /given/snapshot --out exact-then-kvm || exit
        belljar check /given/scenario.toml --set engine=auto \"$@\"";
    let returned = machine.run(script, "results");
    assert_eq!(returned.code, "0", "{}", returned.output);
    let usable = returned
        .output
        .lines()
        .find(|line| line.contains("engine kvm"));
    assert!(
        usable.is_some_and(|line| line.starts_with("ok")),
        "{}",
        returned.output
    );
    assert!(
        returned.output.contains(", engine kvm\n"),
        "{}",
        returned.output
    );
    let console = dir.outcome("results/kvm").console(0);
    assert!(console.contains("0 wrong"), "{console}");

    let exact = dir.run(&scenario(), "exact", &[]).success();
    assert!(exact.console(0).contains("0 wrong"));
    let (kvm, exact) = (dir.calls("results/kvm"), dir.calls("exact"));
    assert_eq!(exact.len(), 2);
    assert!(exact[&0].len() > 8, "{exact:?}");
    assert_eq!(kvm, exact);

    // What one engine booted goes on under the other.
    assert_eq!(dir.calls("results/exact-then-kvm"), exact);
    let more = ["--snapshot", "results/snapshot"];
    let other = dir.run(&scenario(), "kvm-then-exact", &more).success();
    assert!(other.console(0).contains("0 wrong"));
    assert_eq!(dir.calls("kvm-then-exact"), exact);
}

#[test]
fn a_host_without_usable_kvm_says_so_and_auto_does_without() {
    let Some(dir) = Dir::new() else { return };
    let (told, ..) = dir.call(&["doctor"]);
    let line = told.lines().find(|line| line.contains("engine kvm"));
    let line = line.expect("doctor tells of every engine");
    let scenario = Scenario::new(1, "true");
    let auto = dir
        .run(&scenario, "auto", &["--set", "engine=auto"])
        .success();
    let plan = String::from_utf8_lossy(&auto.bytes("plan.txt")).into_owned();
    let kvm = dir.run(&scenario, "kvm", &["--set", "engine=kvm"]);
    if line.starts_with("ok") {
        assert!(plan.contains("engine kvm"), "{plan}");
        assert_eq!(kvm.code, Some(0), "{}", kvm.stderr);
    } else {
        assert!(plan.contains("engine exact"), "{plan}");
        assert_eq!(kvm.code, Some(1));
        assert!(
            kvm.stderr.contains("use engine = \"exact\""),
            "{}",
            kvm.stderr
        );
    }
}

#[test]
fn what_only_the_exact_engine_can_is_refused_by_name() {
    let Some(dir) = Dir::new() else { return };
    let refused = |more: &[&str]| {
        let arguments: Vec<&str> = ["--set", "engine=kvm"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        let run = dir.run(&Scenario::new(1, "true"), "out", &arguments);
        assert_eq!(run.code, Some(1));
        run.stderr
    };
    let told = refused(&["--set", "nodes.cycles-per-instruction=2.0"]);
    assert!(told.contains("nodes.cycles-per-instruction"), "{told}");
    let told = refused(&["--state-hash", "1000"]);
    assert!(told.contains("--state-hash"), "{told}");
}
