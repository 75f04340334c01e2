//! Nodes are clones of a booted one, which only the clock reveals.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;

use belljar_tests::{Dir, Scenario};
use nix::unistd::{Whence, lseek};

#[test]
fn clones_call_what_nodes_call_that_booted_each() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 counters");
    let clones = dir.run(&scenario, "clones", &[]).success();
    assert!(clones.console(1).contains("belljar.identity=console"));
    let each = dir.run(&scenario, "each", &["--boot-each"]).success();
    assert!(each.console(1).contains("belljar.node=1"));
    let (clones, each) = (dir.calls("clones"), dir.calls("each"));
    assert_eq!(clones.len(), 2);
    assert!(clones[&[0, 0]].len() > 20, "{clones:?}");
    for (clone, each) in clones[&[0, 0]].iter().zip(&each[&[0, 0]]) {
        assert_eq!(clone, each);
    }
    assert!(clones == each);
}

#[test]
fn every_clone_is_somebody_else() {
    let Some(dir) = Dir::new() else { return };
    let tell = "hostname; cat /sys/class/net/eth0/address; ip -4 -o addr show dev eth0; \
                head -c 16 /dev/urandom | od -An -tx1";
    let scenario = Scenario::new(
        3,
        &format!(
            "for n in node0 node1 node2; do belljar-rsh $n '{tell}' | tr '\\n' ' '; echo; done"
        ),
    );
    let run = dir.run(&scenario, "out", &[]).success();
    let console = run.console(0);
    let mut random = Vec::new();
    for node in 0..3 {
        let line = console
            .lines()
            .find(|line| line.starts_with(&format!("node{node} ")))
            .unwrap_or_else(|| panic!("node{node} said nothing:\n{console}"));
        assert!(line.contains(&format!("52:54:00:00:00:0{node}")), "{line}");
        assert!(line.contains(&format!("10.77.0.{}/16", node + 1)), "{line}");
        random.push(line.rsplit("  ").next().map(str::to_owned));
    }
    random.sort();
    random.dedup();
    assert_eq!(random.len(), 3, "{console}");
}

#[test]
fn a_snapshot_is_made_again_to_the_byte_and_fits_its_kind_alone() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(1, "true");
    let file = dir.write("s.toml", &scenario.text());
    let file = file.to_str().expect("a plain path");
    for out in ["one", "two"] {
        let (printed, error, code) = dir.call(&["snapshot", file, "--out", out]);
        assert_eq!((printed.trim(), code), (out, Some(0)), "{error}");
    }
    let one = fs::read(dir.path("one")).expect("the snapshot is there");
    assert!(one == fs::read(dir.path("two")).expect("the snapshot is there"));
    let fits = dir.run(&scenario, "fits", &["--snapshot", "one"]);
    assert_eq!(fits.code, Some(0), "{}", fits.stderr);

    let more = ["--snapshot", "one", "--set", "nodes.clock=3 GHz"];
    let refused = dir.run(&scenario, "clock", &more).stderr;
    assert!(
        refused.contains("its clock is 2000000000 Hz, the scenario's 3000000000 Hz"),
        "{refused}"
    );
    let mut damaged = one;
    let last = damaged.iter().rposition(|byte| *byte != 0).expect("bytes");
    damaged[last] ^= 1;
    fs::write(dir.path("damaged"), damaged).expect("the folder is writable");
    let refused = dir
        .run(&scenario, "broken", &["--snapshot", "damaged"])
        .stderr;
    assert!(
        refused.contains("damaged") && refused.contains("checksum"),
        "{refused}"
    );
    // Holes of the file belong to the memory as well.
    let two = fs::File::options().write(true).open(dir.path("two"));
    let two = two.expect("the file is there");
    let middle = two.metadata().expect("a file").len() / 2;
    let hole = lseek(&two, middle as i64, Whence::SeekHole).expect("a hole");
    two.write_all_at(&[0xaa], hole as u64 + 64)
        .expect("the folder is writable");
    let refused = dir.run(&scenario, "hole", &["--snapshot", "two"]).stderr;
    assert!(refused.contains("damaged"), "{refused}");
    let refused = dir
        .run(&scenario, "other", &["--snapshot", "s.toml"])
        .stderr;
    assert!(refused.contains("is no snapshot"), "{refused}");
}

/// With a flipped bit in the kept snapshot, a node boots anew, and the run is the same.
#[test]
fn a_kept_snapshot_that_is_damaged_is_made_again() {
    let Some(dir) = Dir::new() else { return };
    // A separate cache, with the existing images.
    let cache = dir.path("cache/belljar");
    fs::create_dir_all(&cache).expect("the folder is writable");
    symlink(images(), cache.join("images")).expect("the folder is writable");
    let own = dir.path("cache");
    let own = [("XDG_CACHE_HOME", own.to_str().expect("a plain path"))];
    let scenario = Scenario::new(1, "head -c 16 /dev/urandom");
    let first = dir.run_under(&own, &scenario, "first", &[]).success();
    let kept = fs::read_dir(cache.join("snapshots")).expect("the folder is there");
    let mut kept = kept.map(|entry| entry.expect("an entry").path());
    let kept = kept.find(|path| path.extension() == Some("snapshot".as_ref()));
    let kept = kept.expect("a snapshot");
    let whole = fs::read(&kept).expect("a file");
    let file = fs::File::options().write(true).open(&kept);
    let at = whole.len() as u64 / 3;
    let other = [whole[at as usize] ^ 4];
    file.and_then(|file| file.write_all_at(&other, at))
        .expect("a file");
    let again = dir.run_under(&own, &scenario, "again", &[]).success();
    assert!(
        again.stderr.contains("booting a node for a new snapshot"),
        "{}",
        again.stderr
    );
    first.assert_same(&again);
    assert!(fs::read(&kept).expect("a file") == whole);
}

/// The folder of images.
fn images() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache");
    cache.unwrap_or_else(home).join("belljar/images")
}
