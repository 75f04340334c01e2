//! Processes that carry out runs, each one run at a time.
//!
//! A process keeps the parts of the nodes and their translated code for its next run. One that ends is replaced by the next run, so that a
//! guest that ends its process costs one run. Called by `session`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use super::session::last_lines;
use crate::command::running::run::branches::{BranchAnswer, BranchRequest};

/// The processes of an exploration that wait for a run.
pub(super) struct Processes {
    folder: PathBuf,
    is_confined: bool,
    idle: Mutex<Vec<RunProcess>>,
    /// Number of processes that were started.
    started: AtomicUsize,
}

/// A process of `belljar branches`.
struct RunProcess {
    child: Child,
    /// `None` at its end.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Processes {
    /// No process yet; runs have their directories in `folder`.
    pub(super) fn new(folder: &Path, is_confined: bool) -> Self {
        Self {
            folder: folder.to_owned(),
            is_confined,
            idle: Mutex::default(),
            started: AtomicUsize::new(0),
        }
    }

    /// Continues the run in `directory` to its end. Returns the reason if it has no results.
    pub(super) fn carry_out(&self, directory: &Path) -> Result<Option<String>> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle().pop();
        let mut process = waiting.map_or_else(|| self.start(), Ok)?;
        match process.carry_out(directory) {
            Ok(answer) => {
                idle().push(process);
                Ok(answer.failure)
            }
            Err(_) => {
                let status = process.child.wait().context("cannot wait for a run")?;
                let words = last_lines(&process.log);
                Ok(Some(format!("its process ended with {status}: {words}")))
            }
        }
    }

    fn start(&self) -> Result<RunProcess> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let log = self.folder.join(format!("process-{number}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let program = std::env::current_exe().context("cannot find belljar itself")?;
        let mut command = Command::new(program);
        command.args(["branches", "--quiet"]);
        if !self.is_confined {
            command.arg("--no-sandbox");
        }
        let started = command
            .arg(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn();
        let mut child = started.context("cannot start a process for runs")?;
        let (requests, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(requests), Some(answers)) = (requests, answers) else {
            bail!("a process for runs has no standard input and output");
        };
        Ok(RunProcess {
            child,
            requests: Some(requests),
            answers: BufReader::new(answers),
            log,
        })
    }
}

impl RunProcess {
    /// Fails if the process ended.
    fn carry_out(&mut self, directory: &Path) -> Result<BranchAnswer> {
        let request = BranchRequest {
            directory: directory.to_owned(),
        };
        let requests = self.requests.as_mut().context("the process ends")?;
        writeln!(requests, "{}", serde_json::to_string(&request)?)?;
        requests.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for RunProcess {
    /// The process ends with its input, after it has written its translated code. Its log stays if it has warnings.
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.child.wait();
        if fs::metadata(&self.log).is_ok_and(|log| log.len() == 0) {
            let _ = fs::remove_file(&self.log);
        }
    }
}
