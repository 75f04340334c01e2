//! The results of a run of `belljar`: its end, its output, its run directory.
//!
//! Comparisons are exact, over everything that depends on the scenario alone. Made by
//! [`Dir`](crate::Dir) for end-to-end tests.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A finished run.
#[derive(Debug)]
pub struct Outcome {
    folder: PathBuf,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit code.
    pub code: Option<i32>,
}

impl Outcome {
    /// The results in the run directory `folder`.
    pub fn at(folder: PathBuf) -> Self {
        Self::new(folder, String::new(), String::new(), None)
    }

    pub(crate) fn new(folder: PathBuf, stdout: String, stderr: String, code: Option<i32>) -> Self {
        Self {
            folder,
            stdout,
            stderr,
            code,
        }
    }

    /// Asserts that the workload succeeded.
    #[must_use]
    pub fn success(self) -> Self {
        assert_eq!(
            self.code,
            Some(0),
            "{}\n{}\n{}",
            self.stdout,
            self.stderr,
            self.console_or_nothing(0)
        );
        assert!(self.folder.is_dir(), "{} is missing", self.folder.display());
        self
    }

    /// The run directory; with `.incomplete` for an unfinished run.
    pub fn folder(&self) -> PathBuf {
        if self.folder.is_dir() {
            self.folder.clone()
        } else {
            self.incomplete()
        }
    }

    /// The directory's name while the run is incomplete.
    pub fn incomplete(&self) -> PathBuf {
        let mut name = self.folder.clone().into_os_string();
        name.push(".incomplete");
        name.into()
    }

    /// A file of the run directory.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let path = self.folder().join(name);
        fs::read(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    }

    /// A node's outputs: its console, followed by the command's standard output and error.
    pub fn console(&self, node: u32) -> String {
        let mut text = self.text(&format!("console/node{node}.log"));
        if node == 0 {
            text += &self.text("stdout");
            text += &self.text("stderr");
        }
        text
    }

    /// A file of the run directory as text, without carriage returns.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.bytes(name)).replace('\r', "")
    }

    fn console_or_nothing(&self, node: u32) -> String {
        let path = self.folder().join(format!("console/node{node}.log"));
        fs::read(path).map_or_else(
            |_| String::new(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// `summary.json`.
    pub fn summary(&self) -> Value {
        serde_json::from_slice(&self.bytes("summary.json")).expect("summary.json is JSON")
    }

    /// `host.json`.
    pub fn host(&self) -> Value {
        serde_json::from_slice(&self.bytes("host.json")).expect("host.json is JSON")
    }

    /// Each node's engine counter `name`, from `host.json`.
    pub fn counters(&self, name: &str) -> Vec<u64> {
        let host = self.host();
        let engines = host["engines"].as_array().expect("there are engines");
        let count = |engine: &Value| engine[name].as_u64().expect("a number");
        engines.iter().map(count).collect()
    }

    /// Traces and outputs of nodes, one after the other, each after its name.
    pub(crate) fn told(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for file in files_in(&self.folder(), Path::new("")) {
            let name = file.to_str().expect("a plain name");
            let told = ["trace", "console", "stdout", "stderr"];
            if told.iter().any(|start| name.starts_with(start)) {
                all.extend(name.bytes());
                all.extend(self.bytes(name));
            }
        }
        all
    }

    /// The files of the run directory, by their names in it, in order.
    pub fn files(&self) -> Vec<String> {
        let files = files_in(&self.folder(), Path::new(""));
        let name = |file: &PathBuf| file.to_str().expect("a plain name").to_owned();
        files.iter().map(name).collect()
    }

    /// Asserts that all results of two runs that depend on the scenario alone are equal.
    pub fn assert_same(&self, other: &Self) {
        self.assert_same_but(other, &[]);
    }

    /// The same, except for these files.
    ///
    /// # Panics
    /// If results differ; the message names them.
    pub fn assert_same_but(&self, other: &Self, others: &[&str]) {
        let files = files_in(&self.folder(), Path::new(""));
        assert_eq!(files, files_in(&other.folder(), Path::new("")));
        for file in files.iter().filter(|file| !file.ends_with("host.json")) {
            let name = file.to_str().expect("a plain name");
            if others.contains(&name) {
                continue;
            }
            assert_equal(name, &self.bytes(name), &other.bytes(name));
        }
    }
}

/// The number of the newest checkpoint of the run in `folder`, if there is one.
pub fn newest_checkpoint(folder: &Path) -> Option<u32> {
    let entries = fs::read_dir(folder.join("checkpoint")).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let numbers = names.filter_map(|name| {
        let number = name.strip_suffix(".checkpoint")?;
        number.parse().ok()
    });
    numbers.max()
}

/// Asserts that a file is equal in two runs, and shows the difference.
fn assert_equal(name: &str, one: &[u8], other: &[u8]) {
    const SHOWN: usize = 80;
    let same = one
        .iter()
        .zip(other)
        .take_while(|(one, other)| one == other);
    let at = same.count();
    if at < one.len().max(other.len()) {
        let shown = |bytes: &[u8]| {
            let start = at.saturating_sub(SHOWN);
            let end = bytes.len().min(at + SHOWN);
            String::from_utf8_lossy(&bytes[start.min(end)..end]).into_owned()
        };
        let (one, other) = (shown(one), shown(other));
        panic!("{name} differs at byte {at}: {one:?}, and {other:?}");
    }
}

fn files_in(folder: &Path, below: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder.join(below)).expect("the run directory is readable") {
        let entry = entry.expect("the run directory is readable");
        let name = below.join(entry.file_name());
        if entry.path().is_dir() {
            files.extend(files_in(folder, &name));
        } else {
            files.push(name);
        }
    }
    files.sort();
    files
}
