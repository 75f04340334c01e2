//! Unmodified nodes boot, run a command and switch off.
#![allow(clippy::print_stderr)]

use belljar_tests::{Dir, Scenario, root};

#[test]
fn a_debian_node_boots_and_runs_a_command() {
    let Some(dir) = Dir::new() else { return };
    let run = dir.run(
        &Scenario::new(1, "uname -sr; cat /proc/sys/kernel/hostname; nproc"),
        "out",
        &[],
    );
    let run = run.success();
    let console = run.console(0);
    assert!(console.contains("Linux version 6.1"), "{console}");
    assert!(
        console.contains("\nLinux 6.1.") && console.contains("\nnode0\n"),
        "{console}"
    );
    assert_eq!(run.summary()["exit_code"], 0);
    assert_eq!(
        run.summary()["warnings"].as_array().map(Vec::len),
        Some(0),
        "{}",
        run.summary()
    );
}

/// The guest's kernel and its C library detect exactly the requested level.
#[test]
fn a_node_has_exactly_the_level_that_its_scenario_names() {
    let Some(dir) = Dir::new() else { return };
    let (doctor, ..) = dir.call(&["doctor"]);
    let command = "/lib64/ld-linux-x86-64.so.2 --help | grep -E 'x86-64-v[234]'; \
                   grep -m1 flags /proc/cpuinfo; echo | sha256sum";
    for level in 1..=4 {
        let name = format!("x86-64-v{level}");
        if !doctor.contains(&name) {
            eprintln!("SKIPPED: this host cannot run guests of {name}");
            continue;
        }
        let set = format!("nodes.level={name}");
        let run = dir.run(&Scenario::new(1, command), &name, &["--set", &set]);
        let run = run.success();
        let console = run.console(0);
        for other in 2..=4 {
            let supported = format!("x86-64-v{other} (supported, searched)");
            assert_eq!(console.contains(&supported), other <= level, "{console}");
        }
        let has = |flag: &str| console.contains(&format!(" {flag} "));
        assert_eq!(has("xsave"), level >= 3, "{console}");
        assert!(!has("aes") && !has("sha_ni"), "{console}");
        let warnings = run.summary()["warnings"].as_array().map(Vec::len);
        assert_eq!(warnings, Some(0), "{}", run.summary());
    }
}

#[test]
fn the_workloads_exit_code_is_belljars() {
    let Some(dir) = Dir::new() else { return };
    let run = dir.run(&Scenario::new(1, "exit 37"), "out", &[]);
    assert_eq!(run.code, Some(37));
    assert_eq!(run.summary()["exit_code"], 37);
}

#[test]
fn files_and_environment_reach_every_node() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "cat greeting; echo $COLOUR; belljar-rsh node1 cat /root/greeting")
        .with("[workload.files]\ngreeting = { text = \"good day\\n\" }\n[workload.environment]\nCOLOUR = \"green\"");
    let console = dir.run(&scenario, "out", &[]).success().console(0);
    assert!(console.contains("good day\ngreen\ngood day\n"), "{console}");
}

/// The image's record: every file of a package has the package's content, and all other
/// files are listed.
#[test]
fn kernel_and_userland_are_the_distributions_own_bytes() {
    let Some(dir) = Dir::new() else { return };
    let (stdout, stderr, code) = dir.call(&[
        "image",
        "build",
        "--keep-lock",
        root().join("images/bookworm-mpich.toml").to_str().unwrap(),
    ]);
    assert_eq!(code, Some(0), "{stderr}");
    let manifest =
        std::fs::read_to_string(std::path::Path::new(stdout.trim()).join("manifest.toml")).unwrap();
    let verified = manifest
        .lines()
        .find_map(|line| line.strip_prefix("verified_files = "));
    let verified: u32 = verified
        .and_then(|count| count.parse().ok())
        .expect("the manifest counts verified files");
    assert!(verified > 20, "{manifest}");
    let lock = std::fs::read_to_string(root().join("images/bookworm-mpich.lock")).unwrap();
    assert!(lock.contains("sha256") && lock.contains("mpich"), "{lock}");
}

#[test]
fn stopping_often_changes_nothing() {
    let Some(dir) = Dir::new() else { return };
    let scenario = |latency: &str| {
        Scenario::new(1, "dgemm 64 2").with(&format!("[network]\nlatency = \"{latency}\""))
    };
    // The lookahead determines how often a node stops; it must not affect a single node.
    let often = dir.run(&scenario("100 ns"), "often", &[]).success();
    let seldom = dir.run(&scenario("50 us"), "seldom", &[]).success();
    assert_eq!(often.console(0), seldom.console(0));
}
