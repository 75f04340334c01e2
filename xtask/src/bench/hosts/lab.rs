//! The lab with the hosts, a process of the tests' crate (`tests/src/bin/lab.rs`) that reads orders line by
//! line.
//!
//! It needs root. All its processes end with its standard input, and so with this process. Started by
//! `bench hosts`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell::{self, cargo};

/// A lab with a head and some hosts; dropping it ends it.
pub(super) struct Lab {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Lab {
    /// Starts a lab with `hosts` hosts besides the head, on which `belljar` runs.
    pub(super) fn start(hosts: u32, belljar: &Path) -> Result<Self> {
        let build = ["build", "--release", "--package", "belljar-tests"];
        shell::run(&cargo(), &[&build[..], &["--bin", "lab"]].concat())?;
        let program = belljar.with_file_name("lab");
        let mut child = Command::new(&program)
            .arg(hosts.to_string())
            .arg(belljar)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let answers = child.stdout.take().context("the lab has no output")?;
        let mut lab = Self {
            orders: child.stdin.take(),
            answers: BufReader::new(answers),
            child,
        };
        lab.answer("ready")
            .context("there is no lab; it takes root, and says above what else is missing")?;
        Ok(lab)
    }

    /// Delays each packet between hosts by this number of microseconds; `None` selects the lab's own links.
    /// Returns the resulting round trip, in microseconds.
    pub(super) fn lay(&mut self, late: Option<f64>) -> Result<f64> {
        match late {
            None => self.order("links")?,
            Some(late) => self.order(&format!("wire {late}"))?,
        }
        let nanoseconds: f64 = self.answer("round-trip")?.parse()?;
        Ok(nanoseconds / 1e3)
    }

    /// Starts `belljar run` with these arguments on the head.
    pub(super) fn start_run(&mut self, arguments: &str) -> Result<()> {
        self.order(&format!("start run {arguments}"))?;
        self.answer("started").map(drop)
    }

    /// Interrupts that run and waits for its end.
    pub(super) fn stop_run(&mut self) -> Result<()> {
        self.order("stop")?;
        self.answer("exit").map(drop)
    }

    fn order(&mut self, line: &str) -> Result<()> {
        let orders = self.orders.as_mut().context("the lab is closed")?;
        writeln!(orders, "{line}").context("the lab takes no order")
    }

    /// The rest of the next line after `word`.
    fn answer(&mut self, word: &str) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim().strip_prefix(word) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => bail!("the lab says {line:?} where it should say `{word}`"),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // It ends with its orders.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}
