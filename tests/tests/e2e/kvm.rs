//! The kvm engine: on this host as far as possible, and in a machine with KVM.

mod links;
mod processor;
mod programs;

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;

use belljar_tests::{Dir, Machine, Scenario};

const WORKLOAD: &str = "mpiexec.hydra -n 2 ring 1000 2";

/// Coarse enough for an emulated processor.
const NETWORK: &str = "[network]\nbandwidth = \"10 Gb/s\"\nlatency = \"20 ms\"";

fn scenario() -> Scenario {
    Scenario::new(2, WORKLOAD).with(NETWORK).limited("600 s")
}

/// `belljar run` of the scenario in the machine, with further options.
const RUN: &str = "belljar run /given/scenario.toml --quiet --set engine=kvm \
    --set image.recipe=/given/images/bookworm-mpich.toml";

#[test]
fn both_engines_see_the_same_calls() {
    let Some(dir) = Dir::new() else { return };
    let Some(machine) = Machine::new(&dir, "bookworm-mpich") else {
        return;
    };
    machine.write("scenario.toml", &scenario().text());
    let script = format!(
        "mv /dev/kvm /dev/kept; belljar doctor; mv /dev/kept /dev/kvm
        belljar doctor
        set -- --set image.recipe=/given/images/bookworm-mpich.toml
        belljar snapshot /given/scenario.toml --set engine=kvm \"$@\" --out snapshot || exit
        {RUN} --snapshot snapshot --out kvm || exit
        {RUN} --snapshot snapshot --out register --set kvm.tsc=register || exit
        belljar check /given/scenario.toml --set engine=auto \"$@\""
    );
    let returned = machine.run(&script, "results");
    let output = &returned.output;
    assert_eq!(returned.code, "0", "{output}");
    let told: Vec<&str> = output
        .lines()
        .filter(|line| line.contains("engine kvm  "))
        .collect();
    assert!(told[0].contains("there is no /dev/kvm"), "{output}");
    assert!(told[1].starts_with("ok"), "{output}");
    assert!(output.contains(", engine kvm\n"), "{output}");
    let console = dir.outcome("results/kvm").console(0);
    assert!(console.contains("0 wrong"), "{console}");

    let exact = dir.run(&scenario(), "exact", &[]).success();
    assert!(exact.console(0).contains("0 wrong"));
    let exact = dir.calls("exact");
    assert_eq!(exact.len(), 2);
    assert!(exact[&[0, 0]].len() > 8, "{exact:?}");
    assert_eq!(dir.calls("results/kvm"), exact);
    assert_eq!(dir.calls("results/register"), exact);

    // A snapshot of this engine continues under the other one.
    let more = ["--snapshot", "results/snapshot"];
    let other = dir.run(&scenario(), "kvm-then-exact", &more).success();
    assert!(other.console(0).contains("0 wrong"));
    assert_eq!(dir.calls("kvm-then-exact"), exact);
}

/// A snapshot of the exact engine continues. With hardware breakpoints the guest has its
/// INT3s for itself. Without them the library calls by INT3, and the guest has its debug
/// registers for itself, too.
#[test]
fn clones_of_the_other_engine_call_by_either_kind_of_breakpoint() {
    let Some(dir) = Dir::new() else { return };
    let Some(machine) = Machine::new(&dir, "bookworm-mpich") else {
        return;
    };
    boot_exactly(&dir, &machine, &scenario());
    programs::build(&dir, &machine);
    let unwinding = "LD_LIBRARY_PATH=. ./unwinding";
    let command = format!("./debugger\n./caller\n{unwinding}\n{WORKLOAD}");
    let with_programs = Scenario::new(2, &command)
        .with(NETWORK)
        .limited("600 s")
        .with(&programs::files());
    machine.write("scenario.toml", &with_programs.text());
    let run = format!("{RUN} --snapshot /given/snapshot");
    let script = format!(
        "{run} --set kvm.breakpoints=hardware --out hardware || exit
        {run} --set kvm.breakpoints=int3 --out int3"
    );
    let returned = machine.run(&script, "results");
    // One of them calls the library's stubs directly.
    let library = ["--set", "trace.library=true"];
    let exact = dir.run(&with_programs, "exact", &library);
    let exact = exact.success().console(0);
    assert!(exact.contains(programs::CALLED), "{exact}");
    assert!(
        programs::UNWOUND.iter().all(|line| exact.contains(line)),
        "{exact}"
    );
    let agrees = |breakpoints: &str, watched: u32| {
        let results = format!("results/{breakpoints}");
        let console = dir.outcome(&results).console(0);
        let own = format!("own traps: 3, watched: {watched}\n");
        assert!(console.contains(&own), "{breakpoints}: {console}");
        let called = console.contains(programs::CALLED);
        assert!(called, "{breakpoints}: {console}");
        for line in programs::UNWOUND {
            assert!(
                console.contains(line),
                "{breakpoints}: {line:?} in {console}"
            );
        }
        assert!(console.contains("0 wrong"), "{breakpoints}: {console}");
        assert_eq!(dir.calls(&results), dir.calls("exact"), "{breakpoints}");
        let told = dir.outcome(&results).summary()["warnings"].to_string();
        let lost = told.matches("breakpoints of its own").count();
        assert_eq!(lost, usize::from(watched == 0), "{breakpoints}: {told}");
    };
    agrees("hardware", 0);
    let broken = |line: &&str| line.contains("at a traced call from user code");
    if let Some(told) = returned.output.lines().find(broken) {
        eprintln!(
            "SKIPPED: this QEMU's processor does not stop at a guest's INT3 where virtualisation asks for that: {told}"
        );
        return;
    }
    assert_eq!(returned.code, "0", "{}", returned.output);
    agrees("int3", 1);
}

/// The crate's own tests, which only have a bare guest.
#[test]
fn the_engines_own_tests_hold_on_genuine_kvm() {
    let Some(dir) = Dir::new() else { return };
    let Some(program) = std::env::var_os("BELLJAR_KVM_TESTS") else {
        eprintln!("SKIPPED: BELLJAR_KVM_TESTS does not name belljar-kvm's test program");
        return;
    };
    let Some(machine) = Machine::new(&dir, "bookworm-mpich") else {
        return;
    };
    std::fs::copy(program, machine.path("tests")).expect("the program can be copied");
    let script = "/given/tests --test-threads 1 --nocapture 2>&1";
    let returned = machine.run(script, "results");
    assert_eq!(returned.code, "0", "{}", returned.output);
    let skipped = |line: &&str| line.contains("SKIPPED");
    for line in returned.output.lines().filter(skipped) {
        assert!(line.contains("at a traced call from user code"), "{line}");
        eprintln!("{line}");
    }
}

#[test]
fn a_kernel_boots_by_itself() {
    let Some(dir) = Dir::new() else { return };
    let Some(machine) = Machine::new(&dir, "bookworm-mpich") else {
        return;
    };
    let script = "belljar boot --engine kvm --no-input --limit '600 s' \
        --kernel /given/cache/*/vmlinuz --initrd /given/cache/*/initrd.cpio 2>&1";
    let returned = machine.run(script, "results");
    assert_eq!(returned.code, "0", "{}", returned.output);
    let said = "there is no disk /dev/vda";
    assert!(returned.output.contains(said), "{}", returned.output);
    let last = returned.output.lines().last().unwrap_or_default();
    assert!(last.ends_with(" of virtual time"), "{}", returned.output);
}

/// A kernel without a root file system panics, and then resets by a triple fault, as
/// configured.
#[test]
fn a_triple_fault_is_told_with_what_came_before() {
    let Some(dir) = Dir::new() else { return };
    let Some(machine) = Machine::new(&dir, "bookworm-mpich") else {
        return;
    };
    let script = "belljar boot --engine kvm --no-input --limit '600 s' \
        --append 'reboot=t quiet' --kernel /given/cache/*/vmlinuz 2>&1";
    let returned = machine.run(script, "results");
    let told = &returned.output;
    assert_eq!(returned.code, "1", "{told}");
    assert!(told.contains("Unable to mount root fs"), "{told}");
    assert!(told.contains("last first: "), "{told}");
    let last = told.lines().last().unwrap_or_default();
    let expected = "error: the guest's processor shut down: triple fault";
    assert!(last.starts_with(expected), "{told}");
}

/// The exact engine boots a node of `scenario`, whose snapshot the machine gets.
fn boot_exactly(dir: &Dir, machine: &Machine<'_>, scenario: &Scenario) {
    machine.write("scenario.toml", &scenario.text());
    let file = dir.write("scenario.toml", &scenario.text());
    let file = file.to_str().expect("a plain path");
    let (_, error, code) = dir.call(&["snapshot", file, "--out", "work/snapshot"]);
    assert_eq!(code, Some(0), "{error}");
}

#[test]
fn two_processors_of_a_node_take_turns() {
    let Some(dir) = Dir::new() else { return };
    let Some(machine) = Machine::new(&dir, "bookworm-smp") else {
        return;
    };
    let command = "echo processors: $(nproc); \
                   for mask in 1 2; do taskset $mask sh -c 'echo counted $(seq 1000 | wc -l)'; done; \
                   grep LOC: /proc/interrupts";
    let scenario = Scenario::new(1, command).vcpus(2).booting_each();
    machine.write("scenario.toml", &scenario.limited("600 s").text());
    let script = "belljar run /given/scenario.toml --quiet --set engine=kvm \
        --set image.recipe=/given/images/bookworm-smp.toml --out kvm";
    let returned = machine.run(script, "results");
    assert_eq!(returned.code, "0", "{}", returned.output);
    let run = dir.outcome("results/kvm");
    let plan = String::from_utf8_lossy(&run.bytes("plan.txt")).into_owned();
    assert!(plan.contains("2 vCPUs in turns of 1.000 ms"), "{plan}");
    let console = run.console(0);
    assert!(console.contains("processors: 2"), "{console}");
    assert_eq!(console.matches("counted 1000").count(), 2, "{console}");
    let line = console.lines().find(|line| line.trim().starts_with("LOC:"));
    let timers = line.expect("timer interrupts").split_whitespace().skip(1);
    let timers: Vec<u32> = timers.map_while(|word| word.parse().ok()).collect();
    assert_eq!(timers.len(), 2, "{console}");
    assert!(timers.iter().all(|&count| count > 0), "{timers:?}");
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
        let kernel = dir.image("bookworm-mpich").join("vmlinuz");
        let kernel = kernel.to_str().expect("a plain path");
        let (_, told, code) = dir.call(&["boot", "--engine", "kvm", "--kernel", kernel]);
        assert_eq!(code, Some(1));
        assert!(told.contains("use engine = \"exact\""), "{told}");
    }
}

/// A user without access receives the name of the group with access, or the message that no
/// group has it.
#[test]
fn a_device_that_is_not_for_this_user_is_told_with_its_group() {
    const NOBODY: u32 = 65_534;
    let Some(dir) = Dir::new() else { return };
    let Ok(device) = std::fs::metadata("/dev/kvm") else {
        eprintln!("SKIPPED: this host has no /dev/kvm to be kept from");
        return;
    };
    let everybody = device.mode() & 0o006 == 0o006;
    let doctor = dir.command(&["doctor"]).uid(NOBODY).gid(NOBODY).output();
    let Some(output) = doctor.ok().filter(|_| !everybody) else {
        eprintln!("SKIPPED: it takes root, a binary and a /dev/kvm that others may not use");
        return;
    };
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = told.lines().find(|line| line.contains("engine kvm"));
    let line = line.expect("doctor tells of every engine");
    assert!(line.starts_with("--"), "{line}");
    assert!(line.contains("-aG "), "{line}");
    assert!(!line.contains("-aG root"), "{line}");
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
