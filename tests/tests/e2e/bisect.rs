//! Hashes of states change nothing, and locate the first difference of two runs.

use belljar_tests::{Dir, Outcome, Scenario};

/// Hashes of processor and memory of node 0 at an instruction.
fn hashes(run: &Outcome, instructions: u64) -> (String, String) {
    let text = String::from_utf8(run.bytes("state/node0.txt")).expect("text");
    let wanted = format!("{instructions} ");
    let line = text.lines().find(|line| line.starts_with(&wanted));
    let line = line.unwrap_or_else(|| panic!("no hashes at {instructions} in\n{text}"));
    let words: Vec<&str> = line.split(' ').collect();
    (words[3].to_owned(), words[4].to_owned())
}

/// Two runs that differ in one setting, with hashes of their states each `every` instructions. Their folders begin with
/// `name`.
fn pair(dir: &Dir, scenario: &Scenario, name: &str, every: u64, setting: &str) -> [Outcome; 2] {
    let every = every.to_string();
    let hashed = ["--state-hash", &every];
    let other = [&hashed[..], &["--set", setting]].concat();
    [
        dir.run(scenario, &format!("{name}-one"), &hashed),
        dir.run(scenario, &format!("{name}-two"), &other),
    ]
}

/// Bisects two runs that differ in one setting. Returns the found instruction, and the report with the state at it.
fn part(dir: &Dir, scenario: &Scenario, every: u64, setting: &str) -> (u64, String) {
    let [one, two] = pair(dir, scenario, "whole", every, setting);
    let folders = [one.folder(), two.folder()];
    let folders = folders
        .each_ref()
        .map(|folder| folder.to_str().expect("a plain path"));
    let (found, errors, code) = dir.call(&["bisect", "--quiet", folders[0], folders[1]]);
    assert_eq!(code, Some(2), "{found}{errors}");
    let words: Vec<&str> = found.split([' ', ',']).collect();
    let at = words
        .iter()
        .position(|&word| word == "instruction")
        .expect(&found);
    let instruction: u64 = words[at + 1].parse().expect(&found);
    let (same, errors, code) = dir.call(&["bisect", folders[0], folders[0]]);
    assert_eq!(code, Some(0), "{same}{errors}");
    let (found_nothing, errors, code) = dir.call(&["bisect", folders[0], "nowhere"]);
    assert_eq!((found_nothing.as_str(), code), ("", Some(1)));
    assert!(
        errors.contains("nowhere") && errors.contains("--state-hash"),
        "{errors}"
    );
    (instruction, found)
}

/// The states of the runs are equal before the found instruction, and differ after it.
#[test]
fn runs_of_two_seeds_part_where_randomness_is_drawn() {
    let Some(dir) = Dir::new() else { return };
    // Long before the workload, which need not start.
    let scenario = Scenario::new(1, "true").booting_each().limited("100 ms");
    let (instruction, found) = part(&dir, &scenario, 20_000_000, "seed=2");
    let equal = |name: &str, at| {
        let pair = pair(&dir, &scenario, name, at, "seed=2");
        let [one, two] = pair.map(|run| hashes(&run, at));
        one == two
    };
    assert!(equal("before", instruction - 1), "{found}");
    assert!(!equal("after", instruction), "{found}");
    assert!(
        found.contains("rdseed") || found.contains("rdrand"),
        "{found}"
    );
    assert!(found.contains("memory is the same"), "{found}");
}

#[test]
fn runs_of_two_environments_part_where_the_disk_hands_it_over() {
    let Some(dir) = Dir::new() else { return };
    let scenario =
        Scenario::new(1, "echo $COLOUR").with("[workload.environment]\nCOLOUR = \"green\"");
    let setting = "workload.environment.COLOUR=brown";
    let (_, found) = part(&dir, &scenario, 200_000_000, setting);
    // The letters before and after the change, from both.
    for letters in ["43 4f 4c 4f 55 52 3d 67", "43 4f 4c 4f 55 52 3d 62"] {
        assert!(found.contains(letters), "{found}");
    }
}

#[test]
fn hashes_of_states_change_nothing_and_repeat() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 counters; date");
    let run = |name, more: &[&str]| dir.run(&scenario, name, more).success();
    let plain = run("plain", &[]);
    let hashed = run("hashed", &["--state-hash", "100000001", "--threads", "1"]);
    let again = run("again", &["--state-hash", "100000001", "--threads", "2"]);
    hashed.assert_same(&again);
    for file in [
        "trace.bjt",
        "summary.json",
        "console/node0.log",
        "console/node1.log",
        "stdout",
    ] {
        assert!(plain.bytes(file) == hashed.bytes(file), "{file} differs");
    }
}
