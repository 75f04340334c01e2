//! Harness for the end-to-end tests.
//!
//! A working folder, short scenarios, and the `belljar` command with its output and exit code. A test
//! without its requirements (the binary, root, a new QEMU) is skipped with a message.
#![allow(clippy::print_stderr)]

/// The calls of a run's ranks.
mod calls;
/// Digests of whole runs, stored in the tree: the same on every host.
mod digest;
/// Runs that are killed after a checkpoint and resumed.
mod interruption;
/// A lab of physical hosts on one machine, with Debian's Slurm and sshd.
pub mod lab;
/// A machine with KVM for tests.
mod machine;
/// The results of a run of `belljar`: its end, its output, its directory.
mod outcome;
/// Short scenarios.
mod scenario;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub use machine::{Machine, Returned};
pub use outcome::{Outcome, newest_checkpoint};
pub use scenario::Scenario;
use tempfile::TempDir;

/// The project's top folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests have a parent folder")
        .to_path_buf()
}

/// The binary under test: `BELLJAR_BIN`, or the release build. `None`, with a message, if neither exists.
pub fn belljar() -> Option<PathBuf> {
    let named = env::var_os("BELLJAR_BIN").map(PathBuf::from);
    if let Some(path) = named {
        assert!(
            path.exists(),
            "BELLJAR_BIN is {}, which does not exist",
            path.display()
        );
        return Some(path);
    }
    let path = root().join("target/release/belljar");
    if path.exists() {
        return Some(path);
    }
    eprintln!(
        "SKIPPED: {} is not built; run the tests with: cargo xtask test",
        path.display()
    );
    None
}

/// A folder of a test's own.
#[derive(Debug)]
pub struct Dir {
    folder: TempDir,
    binary: PathBuf,
}

impl Dir {
    /// A new folder; `None` without a binary to test.
    pub fn new() -> Option<Self> {
        let binary = belljar()?;
        let folder = tempfile::tempdir().expect("the host gives a temporary folder");
        Some(Self { folder, binary })
    }

    /// The binary under test.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("the temporary folder is writable");
        path
    }

    /// `belljar` with arguments, in this folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    /// Runs `belljar` to its end; returns standard output and error as text, and the exit code.
    pub fn call(&self, arguments: &[&str]) -> (String, String, Option<i32>) {
        ended(&mut self.command(arguments))
    }

    /// `belljar run` of `scenario` into the folder `out`, on one host thread unless `more` has another number.
    ///
    /// Tests run at the same time, enough for all processors: a second thread waits for the first one and costs
    /// a quarter more processor time.
    fn run_command(&self, scenario: &Scenario, out: &str, more: &[&str]) -> Command {
        let file = self.write(&format!("{out}.toml"), &scenario.text());
        let mut command = self.command(&["run", file.to_str().expect("a plain path")]);
        command.args(["--quiet", "--out", out]).args(more);
        if !more.contains(&"--threads") {
            command.args(["--threads", "1"]);
        }
        command
    }

    /// Runs `scenario` into the folder `out`.
    pub fn run(&self, scenario: &Scenario, out: &str, more: &[&str]) -> Outcome {
        self.run_under(&[], scenario, out, more)
    }

    /// As [`run`](Self::run), with these variables in the environment.
    pub fn run_under(
        &self,
        variables: &[(&str, &str)],
        scenario: &Scenario,
        out: &str,
        more: &[&str],
    ) -> Outcome {
        let mut command = self.run_command(scenario, out, more);
        let (stdout, stderr, code) = ended(command.envs(variables.iter().copied()));
        Outcome::new(self.path(out), stdout, stderr, code)
    }

    /// The results of an earlier run in the folder `out`.
    pub fn outcome(&self, out: &str) -> Outcome {
        Outcome::at(self.path(out))
    }

    /// Starts `scenario` without waiting for its end.
    pub fn start(&self, scenario: &Scenario, out: &str) -> Child {
        self.start_with(scenario, out, &[])
    }

    /// As [`start`](Self::start), with more arguments.
    pub fn start_with(&self, scenario: &Scenario, out: &str, more: &[&str]) -> Child {
        self.start_under(&[], scenario, out, more)
    }

    /// As [`start_with`](Self::start_with), with these variables in the environment.
    fn start_under(
        &self,
        variables: &[(&str, &str)],
        scenario: &Scenario,
        out: &str,
        more: &[&str],
    ) -> Child {
        self.run_command(scenario, out, more)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("belljar starts")
    }
}

/// Runs a command to its end; returns standard output and error as text, and the exit code.
fn ended(command: &mut Command) -> (String, String, Option<i32>) {
    let output = command.output().expect("belljar starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.code(),
    )
}

/// Sends SIGINT, as Ctrl-C does.
pub fn interrupt(child: &Child) {
    signal(child, libc::SIGINT);
}

/// Sends a signal.
#[allow(unsafe_code)]
pub fn signal(child: &Child, number: i32) {
    let pid = i32::try_from(child.id()).expect("a process id");
    // SAFETY: a plain system call on a child that is not reaped yet.
    unsafe { libc::kill(pid, number) };
}
