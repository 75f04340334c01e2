//! Simulations of many jobs that are interrupted within a combination and continued: their files equal others'.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use belljar_tests::{Dir, interrupt};

/// Jobs that queue for hosts, under a scheduler that examines the whole queue each time.
const MIX: &str = r#"
name = "long"
hosts = 64
scheduler = "conservative"
selection = ["random", "topology-aware"]
routing = "adaptive"
snapshots = ["100 s", "100000 s"]
network = { topology = "fat-tree", ports = 8, bandwidth = "10 Gb/s" }
[[jobs]]
name = "many"
count = 1500
ranks = 24
arrival = { between = { distribution = "exponential", mean = "1 s" } }
duration = { distribution = "weibull", scale = "40 s", shape = 0.8 }
estimate = 1.5
traffic = { pattern = "all-to-all", rate = "1 Gb/s" }
"#;

/// All files below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below it").to_owned();
                all.insert(name, std::fs::read(&path).expect("a file"));
            }
        }
    }
    all
}

/// States of combinations that are kept in a folder.
fn states(folder: &Path) -> Vec<PathBuf> {
    let each = (0..8).map(|number| folder.join(number.to_string()).join("state"));
    each.filter(|path| path.exists()).collect()
}

/// Starts a simulation, or continues it, and interrupts it as soon as a new state is saved. Returns true if it was unfinished
/// then.
fn break_off(dir: &Dir, mix: &str, out: &str, more: &[&str]) -> bool {
    let folder = dir.path(out);
    let before: Vec<Vec<u8>> = states(&folder)
        .iter()
        .map(|path| std::fs::read(path).expect("a state"))
        .collect();
    let words = ["simulate", mix, "--out", out, "--checkpoint-every", "1 ms"];
    let mut child = dir
        .command(&words)
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("belljar starts");
    let is_new = |path: &PathBuf| std::fs::read(path).is_ok_and(|state| !before.contains(&state));
    while !states(&folder).iter().any(is_new) {
        if let Some(status) = child.try_wait().expect("a child") {
            assert_eq!(status.code(), Some(0));
            return false;
        }
        sleep(Duration::from_millis(1));
    }
    interrupt(&child);
    child.wait().expect("a child").code() == Some(130)
}

/// Interrupts a mix, continues it and interrupts it again; the final files are those of an uninterrupted simulation.
pub(super) fn resumed(dir: &Dir, name: &str, mix: &str) {
    let file = format!("{name}.toml");
    dir.write(&file, mix);
    let (_, error, code) = dir.call(&["simulate", &file, "--out", name]);
    assert_eq!(code, Some(0), "{error}");
    let whole = files(&dir.path(name));
    // On a slow host one may end before its interruption.
    let mut tries = (0..20).map(|number| format!("{name}-{number}"));
    let out = tries.find(|out| break_off(dir, &file, out, &[]));
    let out = out.expect("it takes long enough to be broken off");
    let state = states(&dir.path(&out)).pop().expect("a state");
    break_off(dir, &file, &out, &["--resume"]);
    refused(dir, &file, name, &state);
    let (_, error, code) = dir.call(&["simulate", &file, "--out", &out, "--resume"]);
    assert_eq!(code, Some(0), "{error}");
    let parts = files(&dir.path(&out));
    assert!(parts.keys().eq(whole.keys()), "{:?}", parts.keys());
    for (path, bytes) in &whole {
        assert!(parts[path] == *bytes, "{} differs", path.display());
    }
}

/// A damaged state, in a copy of its folder, is refused with a remedy.
fn refused(dir: &Dir, mix: &str, name: &str, state: &Path) {
    let Ok(mut bytes) = std::fs::read(state) else {
        // Its combination ended meanwhile.
        return;
    };
    let folder = dir.path(&format!("{name}-damaged"));
    let number = state.parent().and_then(Path::file_name).expect("a folder");
    std::fs::create_dir_all(folder.join(number)).expect("a folder");
    std::fs::copy(dir.path(mix), folder.join("mix.toml")).expect("a copy");
    let place = folder.join(number).join("state");
    let out = folder.to_str().expect("a plain path");
    let told = |bytes: &[u8]| {
        std::fs::write(&place, bytes).expect("a file");
        let (_, error, code) = dir.call(&["simulate", mix, "--out", out, "--resume"]);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains("remove the file to begin"), "{error}");
        error
    };
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert!(told(&bytes).contains("it is damaged"));
    bytes[8] ^= 1;
    assert!(told(&bytes).contains("it is of another simulation"));
    assert!(told(b"something else").contains("it is not a state"));
}

#[test]
fn a_simulation_broken_off_anywhere_ends_with_the_same_files() {
    let Some(dir) = Dir::new() else { return };
    resumed(&dir, "long", MIX);
}

/// Jobs of the kind of the run in `near`, as their messages.
pub(super) fn messages(dir: &Dir) {
    let mix = "name = \"mix\"\nhosts = 8\nlevel = \"message\"\nselection = \"random\"\nmodel = [\"flow\", \"packet\"]\n\
         network = { topology = \"tree\", fanout = 2, bandwidth = \"1 Gb/s\" }\n\
         [[jobs]]\nname = \"halos\"\ncount = 12\narrival = { between = \"100 ms\" }\ntraffic = { trace = \"near\" }\n";
    resumed(dir, "contended", mix);
}
