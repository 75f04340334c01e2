//! A run whose nodes exceed the host's memory, here a control group's limit, warns at its start
//! and ends in order at the limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use belljar_tests::{Dir, Scenario};

/// Limit of the control group: enough for a node that writes little.
const LIMIT: &str = "400M";

/// A control group with a limit, removed at the end.
struct Limited {
    path: PathBuf,
}

impl Limited {
    /// `None`, with a message, if this host permits none.
    fn new() -> Option<Self> {
        let first = Path::new("/sys/fs/cgroup/memory");
        let (top, file) = match first.is_dir() {
            true => (first, "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let path = top.join(format!("belljar-test-{}", process::id()));
        let group = Self { path };
        let made = fs::create_dir(&group.path).and_then(|()| {
            // Swap would hide the limit.
            let _ = fs::write(group.path.join("memory.swap.max"), "0");
            fs::write(group.path.join(file), LIMIT)
        });
        match made {
            Ok(()) => Some(group),
            Err(error) => {
                eprintln!("SKIPPED: no control group with a limit can be made here: {error}");
                None
            }
        }
    }

    /// Runs `belljar` with `arguments` in it: standard error and exit code, `None` if it was
    /// killed.
    fn call(&self, dir: &Dir, arguments: &[&str]) -> (String, Option<i32>) {
        let belljar = dir.command(arguments);
        let enter = r#"echo $$ > "$0"/cgroup.procs && exec "$@""#;
        let mut shell = Command::new("sh");
        shell.args(["-c", enter]).arg(&self.path);
        shell.arg(belljar.get_program()).args(belljar.get_args());
        shell.envs(
            belljar
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        if let Some(folder) = belljar.get_current_dir() {
            shell.current_dir(folder);
        }
        let output = shell.output().expect("sh starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (error, output.status.code())
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

#[test]
fn a_run_that_does_not_fit_says_so_and_ends_in_order() {
    let Some(dir) = Dir::new() else { return };
    let Some(limited) = Limited::new() else {
        return;
    };
    dir.write("s.toml", &Scenario::new(1, "memhog").text());
    let more = ["--set", "nodes.memory=\"2 GiB\"", "--out", "out"];
    let arguments = [&["run", "s.toml", "--quiet"], &more[..]].concat();
    let (error, code) = limited.call(&dir, &arguments);
    assert_eq!(code, Some(1), "{error}");
    let says = |words: &str| assert!(error.contains(words), "no {words:?} in: {error}");
    says("will probably use 1 GiB of memory, and this host has");
    says("this host runs out of memory");
    says("the control group");
    says("nodes.memory");
    assert!(dir.path("out.incomplete/console/node0.log").exists());
}
