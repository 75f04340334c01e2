//! Large files of the workload: nodes read them from a disk, and they are plain files of `/root`.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use belljar_tests::{Dir, Outcome, Scenario};

use crate::containers::{has, unpack};

const MIB: usize = 1 << 20;

/// 40 MiB without two equal blocks.
fn forty(path: &Path) -> Vec<u8> {
    let mut state = 1u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let bytes: Vec<u8> = words.take(40 * MIB / 8).flatten().collect();
    fs::write(path, &bytes).expect("a file");
    bytes
}

/// The digest as `sha256sum` prints it.
fn digest(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output();
    let text = String::from_utf8(output.expect("sha256sum").stdout).expect("text");
    text.split(' ').next().expect("a word").to_owned()
}

/// A command for both of two nodes, on any image.
fn on_both(command: &str) -> String {
    format!(
        "set -e\nPATH=$PATH:/run/belljar/system/bin\nfor node in node0 node1; do\nbelljar-rsh $node '{command}'\ndone\n"
    )
}

fn changing() -> Scenario {
    let command = on_both(
        "set -e; hostname; sha256sum in/big; cat in/small; echo end >> own; \
         printf start | dd of=own conv=notrunc status=none; rm gone; mv small in/new; \
         stat -c \"%n %s %a %u %g %Y\" in/big; ls . in | tr \"\\n\" \" \"; echo",
    );
    let files = "files = { \"in/big\" = \"big\", own = \"big\", gone = \"big\", \
                 \"in/small\" = { text = \"small\\n\" }, small = { text = \"x\" } }";
    let scenario = Scenario::new(2, &command).working("outputs = [\"own\", \"in/*\"]");
    scenario.working(files)
}

#[test]
fn programs_read_and_change_them_and_see_plain_files_on_one_host_and_on_two() {
    let Some(dir) = Dir::new() else { return };
    let mut bytes = forty(&dir.path("big"));
    let digest = digest(&dir.path("big"));
    let run = dir.run(&changing(), "alone", &[]).success();
    let of_node = |node| {
        format!(
            "node{node}\n{digest}  in/big\nsmall\nin/big {} 755 0 0 0\n.: in own  in: big new small \n",
            bytes.len()
        )
    };
    let words =
        |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    let expected = words(&format!("{}{}", of_node(0), of_node(1)));
    assert_eq!(words(&run.text("stdout")), expected);
    for node in 0..2 {
        let out = |name: &str| run.bytes(&format!("files/node{node}/{name}"));
        assert!(out("in/big") == bytes, "node {node}");
        assert_eq!(out("in/new"), b"x");
    }
    bytes[..5].copy_from_slice(b"start");
    bytes.extend(b"end\n");
    assert!(run.bytes("files/node1/own") == bytes);
    let plan = run.text("plan.txt");
    assert!(
        plan.contains("file       in/big, 41 943 040 bytes, read from a disk"),
        "{plan}"
    );

    let local = ["--launch", "local", "--hosts", "one,two", "--threads", "1"];
    run.assert_same(&dir.run(&changing(), "two", &local).success());
    let each = dir.run(&changing().booting_each(), "each", &[]).success();
    assert_eq!(words(&each.text("stdout")), expected);
}

#[test]
fn nodes_need_no_memory_for_them() {
    let Some(dir) = Dir::new() else { return };
    // Of 256 MiB, half of it for a file system in memory.
    let size = 200 * MIB as u64;
    let file = File::create(dir.path("big")).expect("a file");
    file.write_all_at(b"the end", size - 7).expect("room");
    let command = on_both("cat big | tail -c 7; echo; cat big big | wc -c");
    let scenario = Scenario::new(2, &command).working("files = { big = \"big\" }");
    let run = dir.run(&scenario, "run", &[]).success();
    let of_node = format!("the end\n{}\n", 2 * size);
    assert_eq!(run.text("stdout"), of_node.repeat(2));
}

#[test]
fn a_container_keeps_what_it_has_in_root() {
    let Some(dir) = Dir::new() else { return };
    if !has("fsck.erofs", "erofs-utils") {
        return;
    }
    unpack(&dir, "bookworm-mpich");
    fs::create_dir_all(dir.path("root/root/in")).expect("a folder");
    dir.write("root/root/in/own", "own\n");
    dir.write("root/root/.profile", "its own\n");
    let (_, error, code) = dir.call(&["image", "build", "root"]);
    assert_eq!(code, Some(0), "{error}");
    forty(&dir.path("big"));
    let digest = digest(&dir.path("big"));
    let command = on_both(
        "set -e; sha256sum in/big; cat in/own .profile; echo more >> in/own; \
         echo more >> in/big; cat in/own; tail -c 5 in/big; stat -c %a .",
    );
    let mode = fs::metadata(dir.path("root/root")).expect("a folder");
    let mode = mode.permissions().mode() & 0o7777;
    let scenario = Scenario::new(2, &command).on_root(&dir.path("root"));
    let scenario = scenario.working("files = { \"in/big\" = \"big\" }");
    let run = dir.run(&scenario, "run", &[]).success();
    let of_node = format!("{digest}  in/big\nown\nits own\nown\nmore\nmore\n{mode:o}\n");
    assert_eq!(run.text("stdout"), of_node.repeat(2));

    // Node 1 finds what node 0 has written.
    let shared = dir.run(&scenario.working("shared-folder = true"), "shared", &[]);
    let shared = shared.success().text("stdout");
    let mut seen = shared.lines().skip(of_node.lines().count());
    let changed = seen.next().expect("the digest on node 1");
    assert!(
        changed.ends_with("  in/big") && !changed.starts_with(&digest),
        "{shared}"
    );
    let rest: Vec<&str> = seen.collect();
    let mode = format!("{mode:o}");
    assert_eq!(
        rest,
        [
            "own", "more", "its own", "own", "more", "more", "more", &mode
        ]
    );
}

/// Reads the file repeatedly.
fn going_on() -> Scenario {
    let command = "i=0; while i=$((i + 1)); do\n\
                   dd if=big bs=64k skip=$((i * 5)) count=1 status=none | sha256sum >> seen\n\
                   sleep 0.05; done";
    let scenario = Scenario::new(2, command).limited("9 s");
    let scenario = scenario.working("outputs = [\"seen\"]\nfiles = { big = \"big\" }");
    scenario.with("[checkpoint]\nevery = \"500 ms\"\n")
}

fn seen(run: &Outcome) -> String {
    let path = run.incomplete().join("files/node0/seen");
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_run_that_is_resumed_reads_on_and_refuses_other_files() {
    let Some(dir) = Dir::new() else { return };
    forty(&dir.path("big"));
    let run = dir.run(&going_on(), "run", &[]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let whole = seen(&run);
    assert!(whole.lines().count() > 10, "{whole}");
    fs::remove_file(dir.path("big")).expect("its own copy does");
    let (_, error, code) = dir.call(&["resume", "run", "--quiet"]);
    assert_eq!(code, Some(1), "{error}");
    assert_eq!(seen(&run), whole);

    let copy = run.incomplete().join("inputs/files/big");
    let mut file = File::options().write(true).open(copy).expect("a copy");
    file.write_all(b"other").expect("room");
    let (_, error, code) = dir.call(&["resume", "run", "--quiet"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("large files"), "{error}");
}
